//! One process for modern clients of one kind.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, code};
use bowline_server::bridge::{On, Subject};
use bowline_server::{Call, Peer};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Bridge;
use super::key::{self, Key};
use crate::common::Common;
use crate::restart::{Keeper, Tokens};
use crate::shared::progress;
use crate::upstream::{Audience, Question, Upstream};

/// A process, and who uses it.
pub(super) struct Member {
    common: Arc<Common>,
    bridge: Weak<Bridge>,
    key: Arc<Key>,
    hello: Raw,
    keeper: Arc<Keeper>,
    /// Whether it has come up once.
    up: AtomicBool,
    /// The log level that it was last told. Held while it is told another.
    level: tokio::sync::Mutex<Option<&'static str>>,
    used: Mutex<Use>,
}

struct Use {
    /// The call that has it for itself.
    alone: Option<Call>,
    /// All that use it, that one included.
    users: usize,
    since: Instant,
    /// A call that was given up may still ask something.
    tainted: bool,
    over: bool,
}

impl Member {
    /// Starts a process for clients such as `peer`.
    pub(super) fn start(
        bridge: &Arc<Bridge>,
        key: Arc<Key>,
        peer: &Peer,
        room: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let member = Arc::new_cyclic(|member: &Weak<Self>| Self {
            common: bridge.common.clone(),
            bridge: Arc::downgrade(bridge),
            key,
            hello: key::hello(peer),
            keeper: Keeper::new(&bridge.common, member.clone(), Some(room)),
            up: AtomicBool::new(false),
            level: tokio::sync::Mutex::new(None),
            used: Mutex::new(Use {
                alone: None,
                users: 0,
                since: Instant::now(),
                tainted: false,
                over: false,
            }),
        });
        member.keeper.run();
        member
    }

    pub(super) fn is_of(&self, key: &Key) -> bool {
        *self.key == *key
    }

    pub(super) fn is_of_same_principal(&self, key: &Key) -> bool {
        self.key.principal() == key.principal()
    }

    /// Since when nobody uses it, if nobody does.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        let used = self.used.lock();
        (used.users == 0).then_some(used.since)
    }

    pub(super) fn is_tainted(&self) -> bool {
        self.used.lock().tainted
    }

    /// Uses the process, where it can be: `alone` is the call that wants it for itself.
    pub(super) fn lease(self: &Arc<Self>, bridge: &Arc<Bridge>, alone: Option<&Call>) -> Option<Lease> {
        let mut used = self.used.lock();
        if used.over || (alone.is_some() && (used.alone.is_some() || used.tainted)) {
            return None;
        }
        used.users += 1;
        if let Some(call) = alone {
            used.alone = Some(call.clone());
        }
        Some(Lease { bridge: bridge.clone(), member: self.clone(), alone: alone.is_some(), taints: false })
    }

    /// Stops the process, in the background.
    pub(super) fn end(&self) {
        self.used.lock().over = true;
        self.keeper.end();
    }

    /// What it answered to `initialize`.
    pub(super) async fn hello(self: &Arc<Self>) -> Result<Raw, ErrorObject> {
        match self.keeper.hello().await {
            Ok(hello) => {
                self.up.store(true, Ordering::Relaxed);
                hello.upstream.initialized(None);
                Ok(hello.result)
            }
            Err(error) => {
                // The next client has another one tried.
                if !self.up.load(Ordering::Relaxed)
                    && let Some(bridge) = self.bridge.upgrade()
                {
                    bridge.remove(self);
                }
                Err(error)
            }
        }
    }

    pub(super) async fn subscribe(self: &Arc<Self>, wanted: impl Fn() -> BTreeSet<String> + Send) {
        if self.hello().await.is_ok() {
            self.keeper.subscribe(wanted).await;
        }
    }

    /// Has the process work on a call; `logs` is whether it has the process for itself and wants log messages.
    pub(super) async fn answer(self: &Arc<Self>, call: &Call, logs: bool) -> Reply {
        if !self.up.load(Ordering::Relaxed)
            && let Err(error) = self.hello().await
        {
            return error.into();
        }
        loop {
            let upstream = match self.keeper.upstream().await {
                Ok(upstream) => upstream,
                Err(error) => return error.into(),
            };
            upstream.initialized(None);
            if !upstream.is_modern() {
                self.tell_level(&upstream, call).await;
            }
            let tokens = if logs { Tokens::ReplacedWithLogs } else { Tokens::Replaced };
            if let Some(reply) = self.keeper.ask(&upstream, call, tokens).await {
                self.keeper.note(call.method(), call.params(), &reply);
                return reply;
            }
        }
    }

    /// The level of a call is that of its process as long as it has it.
    async fn tell_level(&self, upstream: &Arc<Upstream>, call: &Call) {
        let Some(wanted) = call.log_level().map(|level| level.as_str()) else { return };
        let mut told = self.level.lock().await;
        if *told == Some(wanted) || !self.keeper.can("logging", None) {
            return;
        }
        let params = Raw::from_value(&serde_json::json!({ "level": wanted })).ok();
        match upstream.ask("logging/setLevel", params, self.common.options.init_timeout).await {
            Ok(_) => *told = Some(wanted),
            Err(error) => {
                tracing::debug!(target: "bowline::gateway", child = %self.common.name, "logging/setLevel: {}", error.message);
            }
        }
    }

    /// From here on, what it does for `from` is for `to`.
    pub(super) fn hand_over(&self, from: &Call, to: &Call) {
        let mut used = self.used.lock();
        if used.alone.as_ref().is_some_and(|call| call.is(from)) {
            used.alone = Some(to.clone());
        }
        drop(used);
        if let Some(upstream) = self.keeper.upstream_now() {
            upstream.hand_over(from, to);
        }
    }

    fn alone(&self) -> Option<Call> {
        self.used.lock().alone.clone()
    }

    fn tell_listeners(&self, subject: Subject, notification: &Notification) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.tell(&self.key, subject, notification);
        }
    }
}

impl Audience for Member {
    fn hello(&self) -> Raw {
        self.hello.clone()
    }

    fn log_level(&self) -> Option<String> {
        // Asked while a process replaces another.
        let told = self.level.try_lock().ok()?;
        told.map(str::to_owned)
    }

    fn subscriptions(&self) -> Vec<String> {
        self.bridge.upgrade().map(|bridge| bridge.subscriptions(&self.key)).into_iter().flatten().collect()
    }

    fn hear(&self, upstream: &Upstream, subject: Subject, notification: &Notification) {
        match subject {
            Subject::Progress => progress(upstream, notification),
            Subject::List | Subject::Resource => self.tell_listeners(subject, notification),
            Subject::Log | Subject::Other | Subject::Cancelled => {
                if let Some(call) = self.alone() {
                    call.notify(notification);
                }
            }
        }
    }

    fn question(&self, _: &Upstream, request: &Request) -> Result<Question, ErrorObject> {
        let Some(call) = self.alone() else {
            let text = format!("{} belongs to no call of a client that can be asked", request.method);
            return Err(ErrorObject::new(code::METHOD_NOT_FOUND, text));
        };
        let on = On::Call(call);
        Ok(Question { ask: on.ask(request), on })
    }

    fn tell(&self, notification: &Notification) {
        self.tell_listeners(Subject::List, notification);
    }
}

/// The use of a process.
pub(super) struct Lease {
    bridge: Arc<Bridge>,
    member: Arc<Member>,
    alone: bool,
    taints: bool,
}

impl Lease {
    pub(super) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Whether the process may still ask something for this call when it is given up now.
    pub(super) fn taints(&mut self, taints: bool) {
        self.taints = taints;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        {
            let mut used = self.member.used.lock();
            used.users -= 1;
            used.since = Instant::now();
            if self.alone {
                used.alone = None;
                used.tainted |= self.taints;
            }
        }
        self.bridge.freed.notify_waiters();
    }
}
