//! A few processes for requests that belong to no session (SEMANTICS 3 and 6): never one for each request. The gateway is their
//! only client and says that it can do nothing; a request goes to the least busy of them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request};
use bowline_server::bridge::Subject;
use bowline_server::{Call, Peer};
use futures_util::future::select_all;
use tokio::time::sleep;

use crate::common::Common;
use crate::listeners::Listeners;
use crate::restart::Keeper;
use crate::route::Hearers;
use crate::session::abandoned;
use crate::shared::{own_hello, progress};
use crate::upstream::{Audience, Question, Upstream};

/// Processes that are all alike.
pub(crate) struct Pool {
    common: Arc<Common>,
    keepers: Vec<Arc<Keeper>>,
    /// Modern clients that listen.
    listeners: Listeners,
    /// How many of them were told to start their processes.
    started: Arc<AtomicUsize>,
}

impl Pool {
    /// Processes that are started when the first request comes.
    pub(crate) fn new(common: &Arc<Common>, size: NonZeroUsize) -> Arc<Self> {
        Arc::new_cyclic(|pool: &Weak<Self>| Self {
            common: common.clone(),
            listeners: Listeners::default(),
            keepers: (0..size.get()).map(|_| Keeper::new(common, pool.clone(), None)).collect(),
            started: Arc::default(),
        })
    }

    /// Starts the processes, unless somebody did: the first one, and once it is up the others. Two first starts of an `npx`
    /// command at a time would get into each other's way.
    fn start(&self) {
        if self.started.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        let mut keepers = self.keepers.iter().cloned();
        let Some(first) = keepers.next() else { return };
        first.run();
        let others: Vec<_> = keepers.collect();
        if others.is_empty() {
            return;
        }
        let (common, started) = (self.common.clone(), self.started.clone());
        tokio::spawn(async move {
            while first.upstream().await.is_err() {
                if common.closing.load(Ordering::Acquire) {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
            others.iter().for_each(Keeper::run);
            started.store(1 + others.len(), Ordering::Release);
        });
    }

    /// The answer to a client's `initialize`.
    pub(crate) async fn hello(&self) -> Result<Raw, ErrorObject> {
        self.start();
        let all = self.running().iter().map(|keeper| Box::pin(keeper.hello()));
        let hello = first_good(all).await?;
        hello.upstream.initialized(None);
        Ok(hello.result)
    }

    /// Stops the processes, in the background.
    pub(crate) fn end(&self) {
        self.keepers.iter().for_each(|keeper| keeper.end());
    }

    fn running(&self) -> &[Arc<Keeper>] {
        &self.keepers[..self.started.load(Ordering::Acquire)]
    }

    /// Whether all of them keep crashing.
    pub(crate) fn is_looping(&self) -> bool {
        let running = self.running();
        !running.is_empty() && running.iter().all(|keeper| keeper.is_looping())
    }

    /// A modern client listens. Any process may be the one that changes what it listens to, so all are subscribed.
    pub(crate) fn listening(self: &Arc<Self>, peer: &Peer) {
        self.start();
        self.listeners.add(peer);
        self.subscribe();
    }

    /// It does no more.
    pub(crate) fn ended(self: &Arc<Self>, peer: &Peer) {
        if self.listeners.remove(peer) {
            self.subscribe();
        }
    }

    fn subscribe(self: &Arc<Self>) {
        for keeper in &self.keepers {
            let (pool, keeper) = (self.clone(), keeper.clone());
            tokio::spawn(async move { keeper.subscribe(|| pool.listeners.subscriptions()).await });
        }
    }

    /// Has a process work on a call.
    pub(crate) async fn call(&self, call: &Call) -> Reply {
        tokio::select! {
            biased;
            _ = call.cancelled() => abandoned(),
            reply = self.answer(call) => reply,
        }
    }

    /// From here on, what is done for `from` is for `to`.
    pub(crate) fn hand_over(&self, from: &Call, to: &Call) {
        let running = self.running().iter().filter_map(|keeper| keeper.upstream_now());
        running.for_each(|upstream| upstream.hand_over(from, to));
    }

    /// The same without an end when the call is cancelled.
    pub(crate) async fn answer(&self, call: &Call) -> Reply {
        self.start();
        loop {
            let (keeper, upstream) = match self.least_busy().await {
                Ok(found) => found,
                Err(error) => return error.into(),
            };
            if let Some(reply) = keeper.ask_shared(&upstream, call).await {
                return reply;
            }
        }
    }

    /// The process that has least to do; where none is up, the one that comes up first.
    async fn least_busy(&self) -> Result<(&Keeper, Arc<Upstream>), ErrorObject> {
        let up = self.running().iter().filter_map(|keeper| Some((&**keeper, keeper.upstream_now()?)));
        if let Some(found) = up.min_by_key(|(_, upstream)| upstream.load()) {
            return Ok(found);
        }
        let coming = self.running().iter().map(|keeper| {
            Box::pin(async move { keeper.upstream().await.map(|upstream| (&**keeper, upstream)) })
        });
        first_good(coming).await
    }
}

/// The first that succeeds; the last error where none does.
async fn first_good<T, F>(futures: impl IntoIterator<Item = F>) -> Result<T, ErrorObject>
where
    F: Future<Output = Result<T, ErrorObject>> + Unpin,
{
    let mut left: Vec<F> = futures.into_iter().collect();
    loop {
        let (result, _, others) = select_all(left).await;
        if result.is_ok() || others.is_empty() {
            return result;
        }
        left = others;
    }
}

impl Audience for Pool {
    fn hello(&self) -> Raw {
        own_hello()
    }

    fn log_level(&self) -> Option<String> {
        None
    }

    fn subscriptions(&self) -> Vec<String> {
        self.listeners.subscriptions().into_iter().collect()
    }

    fn hear(&self, upstream: &Upstream, subject: Subject, notification: &Notification) {
        match Hearers::of(subject) {
            Hearers::TokenHolder => progress(upstream, notification),
            Hearers::Everyone | Hearers::Subscribers => self.listeners.tell(subject, notification),
            // Nobody has a stream that this could be said on.
            Hearers::Nobody => {
                let method = &*notification.method;
                tracing::trace!(target: "bowline::gateway", child = %upstream.name, method, "dropped: there are no sessions");
            }
        }
    }

    fn question(&self, _: &Upstream, request: &Request) -> Result<Question, ErrorObject> {
        Err(ErrorObject::internal(
            "stateless",
            format!(
                "{} needs a session: the gateway runs in the session mode \"stateless\", and no client can be asked",
                request.method
            ),
        ))
    }

    fn tell(&self, notification: &Notification) {
        self.listeners.tell(Subject::List, notification);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_good_one_wins_and_an_error_comes_only_when_all_have_failed() {
        let after = |millis, result: Result<u64, &'static str>| {
            Box::pin(async move {
                sleep(Duration::from_millis(millis)).await;
                result.map_err(|text| ErrorObject::internal("test", text))
            })
        };
        let won = first_good([after(1, Err("a")), after(9, Ok(9)), after(5, Ok(5))]).await;
        assert_eq!(won.ok(), Some(5));
        let lost = first_good([after(3, Err("late")), after(1, Err("early"))]).await;
        assert_eq!(lost.unwrap_err().message, "late");
    }
}
