//! Modern clients in front of a server that keeps a process for each session (SEMANTICS 4 and 6). They have no sessions, so they get
//! processes by what they are: the principal, and what the client says it is and can be asked. A process that serves one kind of client
//! never serves another.
//!
//! - A process is initialised with what its clients say of themselves, and kept while it is used and [`Bounds::idle`] longer.
//! - A call whose client can be asked, or wants log messages, has its process for itself among such calls: whatever the process asks or
//!   logs meanwhile is that call's, and nobody else's. Calls that can get neither, lists and listeners share a process.
//! - Where a call has to wait for a process, it waits as long as a start may take.
//! - A call that was given up may still ask something: its process gets no other call that can be asked, and ends when it is not used.

mod key;
mod member;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_proto::modern::takes_input;
use bowline_server::bridge::Subject;
use bowline_server::{Call, Peer};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use self::key::Key;
use self::member::{Lease, Member};
use crate::common::Common;
use crate::listeners::Listeners;
use crate::session::abandoned;

/// How many processes there may be, and for how long one is kept that is not used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) children: usize,
    pub(crate) idle: Duration,
}

impl Bounds {
    /// How many one principal may have: three of four.
    const fn of_principal(self) -> usize {
        self.children - self.children / 4
    }
}

/// The processes of modern clients.
pub(crate) struct Bridge {
    common: Arc<Common>,
    bounds: Bounds,
    state: Mutex<State>,
    /// A process became free, or ended.
    freed: Notify,
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// In the order in which they were started.
    members: Vec<Arc<Member>>,
    /// Who listens, by what it is.
    listeners: HashMap<Arc<Key>, Arc<Listeners>>,
    /// What holds the processes of the listeners, by their session ids.
    holding: HashMap<String, (Arc<Key>, AbortHandle)>,
    /// Whether a task looks after those that are not used.
    reaped: bool,
}

impl Bridge {
    pub(crate) fn new(common: &Arc<Common>, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            common: common.clone(),
            bounds,
            state: Mutex::default(),
            freed: Notify::new(),
            waiting: AtomicUsize::new(0),
        })
    }

    /// What the server says of itself to a client of this kind.
    pub(crate) async fn hello(self: &Arc<Self>, peer: &Peer) -> Result<Raw, ErrorObject> {
        let lease = self.lease(peer, None).await?;
        lease.member().hello().await
    }

    /// Has a process work on a call.
    pub(crate) async fn call(self: &Arc<Self>, call: &Call) -> Reply {
        tokio::select! {
            biased;
            _ = call.cancelled() => abandoned(),
            reply = self.answer(call) => reply,
        }
    }

    /// From here on, what is done for `from` is for `to`.
    pub(crate) fn hand_over(&self, from: &Call, to: &Call) {
        let members = self.state.lock().members.clone();
        members.iter().for_each(|member| member.hand_over(from, to));
    }

    /// The same without an end when the call is cancelled.
    pub(crate) async fn answer(self: &Arc<Self>, call: &Call) -> Reply {
        let peer = call.peer();
        let asks = takes_input(call.method()) && key::can_be_asked(&peer);
        let logs = call.log_level().is_some();
        let mut lease = match self.lease(&peer, (asks || logs).then_some(call)).await {
            Ok(lease) => lease,
            Err(error) => return error.into(),
        };
        lease.taints(asks);
        let reply = lease.member().answer(call, logs).await;
        lease.taints(false);
        reply
    }

    /// A modern client listens: it holds a process, so that there is something to be heard.
    pub(crate) fn listening(self: &Arc<Self>, peer: &Peer) {
        let key = Arc::new(Key::of(peer));
        let (bridge, listener, of) = (self.clone(), peer.clone(), key.clone());
        let holding = tokio::spawn(async move {
            match bridge.lease(&listener, None).await {
                Ok(lease) => {
                    bridge.subscribe(&of);
                    // Until the listener leaves, which ends this task.
                    std::future::pending::<()>().await;
                    drop(lease);
                }
                Err(error) => {
                    let text = error.message;
                    tracing::warn!(target: "bowline::gateway", child = %bridge.common.name, "a listening client hears nothing: {text}");
                }
            }
        });
        let mut state = self.state.lock();
        state.listeners.entry(key.clone()).or_default().add(peer);
        state.holding.insert(peer.session_id().to_owned(), (key, holding.abort_handle()));
    }

    /// It listens no more.
    pub(crate) fn ended(self: &Arc<Self>, peer: &Peer) {
        let key = {
            let mut state = self.state.lock();
            let Some((key, holding)) = state.holding.remove(peer.session_id()) else { return };
            holding.abort();
            if let Some(listeners) = state.listeners.get(&key) {
                listeners.remove(peer);
                if listeners.is_empty() {
                    state.listeners.remove(&key);
                }
            }
            key
        };
        self.subscribe(&key);
    }

    /// Brings the subscriptions of the processes of this kind to what is listened to. Any of them may be the one that changes a resource.
    fn subscribe(self: &Arc<Self>, key: &Arc<Key>) {
        let members: Vec<_> = self.state.lock().members.iter().filter(|m| m.is_of(key)).cloned().collect();
        for member in members {
            let (bridge, key) = (self.clone(), key.clone());
            tokio::spawn(async move { member.subscribe(|| bridge.subscriptions(&key)).await });
        }
    }

    fn subscriptions(&self, key: &Key) -> BTreeSet<String> {
        let listeners = self.state.lock().listeners.get(key).cloned();
        listeners.map(|listeners| listeners.subscriptions()).unwrap_or_default()
    }

    /// Tells the listeners of this kind.
    fn tell(&self, key: &Key, subject: Subject, notification: &Notification) {
        let listeners = self.state.lock().listeners.get(key).cloned();
        if let Some(listeners) = listeners {
            listeners.tell(subject, notification);
        }
    }

    /// A process for this client; `alone` is the call that has it for itself. Waits while all are used.
    async fn lease(self: &Arc<Self>, peer: &Peer, alone: Option<&Call>) -> Result<Lease, ErrorObject> {
        let key = Arc::new(Key::of(peer));
        if let Some(lease) = self.try_lease(&key, peer, alone)? {
            return Ok(lease);
        }
        let _waiting = self.wait()?;
        let until = Instant::now() + self.common.options.init_timeout;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(lease) = self.try_lease(&key, peer, alone)? {
                return Ok(lease);
            }
            if timeout_at(until, freed).await.is_err() {
                self.common.counters.refused.up();
                let text = format!(
                    "all server processes that this client may use are in use (there are {} for clients of this revision, \
                     and one principal may have {}); try again later",
                    self.bounds.children,
                    self.bounds.of_principal()
                );
                return Err(ErrorObject::internal("too_many_children", text));
            }
        }
    }

    fn wait(&self) -> Result<Waits<'_>, ErrorObject> {
        let waits = Waits(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.common.options.max_requests {
            let text = "too many calls wait for a server process; try again later";
            return Err(ErrorObject::internal("upstream_busy", text));
        }
        Ok(waits)
    }

    /// A process, if one is free or can be started; `None` where all there may be are used.
    fn try_lease(
        self: &Arc<Self>,
        key: &Arc<Key>,
        peer: &Peer,
        alone: Option<&Call>,
    ) -> Result<Option<Lease>, ErrorObject> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(self.common.unavailable("is being stopped"));
        }
        // The same one whenever it can be, so that who does one thing after the other meets what it left behind.
        let found =
            state.members.iter().filter(|member| member.is_of(key)).find_map(|m| m.lease(self, alone));
        if found.is_some() {
            return Ok(found);
        }
        // A principal leaves places for the others, however many kinds of clients it says it has.
        let full = state.members.len() >= self.bounds.children;
        let greedy = key.principal().is_some() && state.count(key) >= self.bounds.of_principal();
        if (greedy && !state.evict(|member| member.is_of_same_principal(key)))
            || (full && !greedy && !state.evict(|_| true))
        {
            return Ok(None);
        }
        let room = match self.common.room() {
            Ok(room) => room,
            // Places are taken by sessions too.
            Err(_) if state.evict(|_| true) => return Ok(None),
            Err(error) => return Err(error),
        };
        let member = Member::start(self, key.clone(), peer, room);
        state.members.push(member.clone());
        if !std::mem::replace(&mut state.reaped, true) {
            tokio::spawn(reap(Arc::downgrade(self), self.bounds.idle));
        }
        let lease = member.lease(self, alone);
        drop(state);
        if alone.is_none() || !self.subscriptions(key).is_empty() {
            let (bridge, key) = (self.clone(), key.clone());
            tokio::spawn(async move { member.subscribe(|| bridge.subscriptions(&key)).await });
        }
        Ok(lease)
    }

    /// A process did not come up, or is not to be used any more.
    fn remove(&self, member: &Arc<Member>) {
        self.state.lock().members.retain(|other| !Arc::ptr_eq(other, member));
        member.end();
        self.freed.notify_waiters();
    }

    /// Stops the processes, in the background.
    pub(crate) fn end(&self) {
        let members = {
            let mut state = self.state.lock();
            state.closed = true;
            for (_, (_, holding)) in state.holding.drain() {
                holding.abort();
            }
            std::mem::take(&mut state.members)
        };
        members.iter().for_each(|member| member.end());
        self.freed.notify_waiters();
    }

    pub(crate) fn children(&self) -> usize {
        self.state.lock().members.len()
    }
}

impl State {
    /// How many processes the principal of this kind has.
    fn count(&self, key: &Key) -> usize {
        self.members.iter().filter(|member| member.is_of_same_principal(key)).count()
    }

    /// Ends the process that has not been used for longest among some; `false` where all of those are used.
    fn evict(&mut self, among: impl Fn(&Member) -> bool) -> bool {
        let all = self.members.iter().enumerate().filter(|(_, member)| among(member));
        let unused = all.filter_map(|(at, member)| Some((member.unused_since()?, at)));
        let Some((_, at)) = unused.min() else { return false };
        self.members.remove(at).end();
        true
    }
}

struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends processes that have not been used for a while, until there is none.
async fn reap(bridge: std::sync::Weak<Bridge>, idle: Duration) {
    loop {
        sleep((idle / 4).clamp(Duration::from_millis(100), Duration::from_secs(15))).await;
        let Some(bridge) = bridge.upgrade() else { return };
        let now = Instant::now();
        let mut over = Vec::new();
        let mut state = bridge.state.lock();
        state.members.retain(|member| {
            let unused =
                member.unused_since().is_some_and(|since| now - since >= idle || member.is_tainted());
            if unused {
                over.push(member.clone());
            }
            !unused
        });
        let last = state.members.is_empty();
        if last {
            state.reaped = false;
        }
        drop(state);
        over.iter().for_each(|member| member.end());
        if last {
            return;
        }
    }
}
