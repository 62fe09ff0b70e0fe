//! Who waits for a stream in this backend, and telling Redis that it does.
//!
//! Registered are streams, with the name of this store's channel, where their writers see it. Whoever subscribes first is woken
//! once when Redis knows of it: what came before is then read, what comes after is published.

use crate::{actions::Action, call::Call, store::Inner};
use bowline_proto::cursor::StreamId;
use bowline_store::Wakeups;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval},
};

/// How many streams one action registers, and how many actions are under way at once.
const BATCH: usize = 128;
const AT_ONCE: usize = 32;

/// Into how many portions the backstop and the renewals are divided.
const PORTIONS: u8 = 16;

#[derive(Default)]
pub(crate) struct Waiters {
    streams: Mutex<HashMap<StreamId, Waiter>>,
    /// Streams of which Redis has to be told whether somebody waits for them.
    changed: Mutex<HashSet<StreamId>>,
    some: Notify,
}

/// The sending end for all subscriptions of one stream; there is none where nobody waits.
struct Waiter {
    sender: watch::Sender<u64>,
    subscriptions: usize,
}

fn rouse(sender: &watch::Sender<u64>) {
    sender.send_modify(|version| *version = version.wrapping_add(1));
}

impl Waiters {
    /// Wakes who waits for `stream` here; returns whether somebody does.
    pub(crate) fn wake(&self, stream: StreamId) -> bool {
        // A woken task must not meet a held lock.
        let sender = self.streams.lock().get(&stream).map(|waiter| waiter.sender.clone());
        sender.iter().for_each(rouse);
        sender.is_some()
    }

    fn all(&self, portion: Option<u8>) -> Vec<(StreamId, watch::Sender<u64>)> {
        let chosen = |id: &StreamId| portion.is_none_or(|portion| id.as_bytes()[15] % PORTIONS == portion);
        let streams = self.streams.lock();
        streams.iter().filter(|(id, _)| chosen(id)).map(|(id, waiter)| (*id, waiter.sender.clone())).collect()
    }

    /// Wakes everybody and registers everything anew: messages were missed, or Redis may have forgotten it all.
    pub(crate) fn start_over(&self) {
        let all = self.all(None);
        self.changed.lock().extend(all.iter().map(|(id, _)| *id));
        self.some.notify_one();
        all.iter().for_each(|(_, sender)| rouse(sender));
    }

    fn note_change(&self, stream: StreamId) {
        self.changed.lock().insert(stream);
        self.some.notify_one();
    }
}

/// Ends a subscription when it is dropped.
struct Guard {
    inner: Arc<Inner>,
    stream: StreamId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let waiters = &self.inner.waiters;
        let mut streams = waiters.streams.lock();
        if let Some(waiter) = streams.get_mut(&self.stream) {
            waiter.subscriptions -= 1;
            if waiter.subscriptions == 0 {
                streams.remove(&self.stream);
                if streams.capacity() > 64 && streams.len() * 8 < streams.capacity() {
                    let keep = streams.len() * 2;
                    streams.shrink_to(keep);
                }
                drop(streams);
                waiters.note_change(self.stream);
            }
        }
    }
}

pub(crate) fn subscribe(inner: &Arc<Inner>, stream: StreamId) -> Wakeups {
    let (receiver, is_first) = {
        let mut streams = inner.waiters.streams.lock();
        let waiter = streams
            .entry(stream)
            .or_insert_with(|| Waiter { sender: watch::Sender::new(0), subscriptions: 0 });
        waiter.subscriptions += 1;
        (waiter.sender.subscribe(), waiter.subscriptions == 1)
    };
    if is_first {
        inner.waiters.note_change(stream);
    }
    Wakeups::new(receiver, Some(Box::new(Guard { inner: Arc::clone(inner), stream })))
}

/// Tells Redis what changed, for ever.
pub(crate) async fn register(inner: Arc<Inner>) {
    loop {
        inner.waiters.some.notified().await;
        let changed = std::mem::take(&mut *inner.waiters.changed.lock());
        let (wanted, unwanted): (Vec<_>, Vec<_>) = {
            let streams = inner.waiters.streams.lock();
            changed.into_iter().partition(|id| streams.contains_key(id))
        };
        let missed = inner.announce(Action::Watch, wanted, true).await;
        let left = inner.announce(Action::Unwatch, unwanted, false).await;
        if !missed.is_empty() || !left.is_empty() {
            inner.waiters.changed.lock().extend(missed.into_iter().chain(left));
            inner.link.pause(Duration::from_millis(500)).await;
            inner.waiters.some.notify_one();
        }
    }
}

/// Renews what was registered, and wakes everybody from time to time, a portion at a time.
pub(crate) async fn renew(inner: Arc<Inner>) {
    let mut renewal = interval(inner.link.options.interest / 2 / u32::from(PORTIONS));
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for portion in (0..PORTIONS).cycle() {
        renewal.tick().await;
        let ids = inner.waiters.all(Some(portion)).into_iter().map(|(id, _)| id).collect();
        // What is missed now has its other half of the time left.
        inner.announce(Action::Watch, ids, false).await;
    }
}

pub(crate) async fn backstop(inner: Arc<Inner>) {
    let whole = inner.link.options.backstop;
    if whole.is_zero() {
        return;
    }
    let mut tick = interval(whole / u32::from(PORTIONS));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for portion in (0..PORTIONS).cycle() {
        tick.tick().await;
        inner.waiters.all(Some(portion)).iter().for_each(|(_, sender)| rouse(sender));
    }
}

impl Inner {
    /// Registers or unregisters streams; returns those of which Redis was not told.
    async fn announce(&self, action: Action, mut streams: Vec<StreamId>, then_wake: bool) -> Vec<StreamId> {
        streams.sort_unstable_by_key(|id| self.names.partition(*id));
        let one_partition = |a: &StreamId, b: &StreamId| self.names.partition(*a) == self.names.partition(*b);
        let batches: Vec<Vec<StreamId>> = streams
            .chunk_by(one_partition)
            .flat_map(|partition| partition.chunks(BATCH))
            .map(<[StreamId]>::to_vec)
            .collect();
        let missed = Mutex::new(Vec::new());
        stream::iter(batches)
            .for_each_concurrent(AT_ONCE, |batch| {
                let missed = &missed;
                async move {
                    let keys = batch.iter().map(|id| self.names.waiters(*id));
                    let ttl = self.link.options.interest.as_secs().max(1);
                    let call = Call::new(action).keys(keys).arg(self.tag.as_str()).arg(ttl);
                    if self.link.run(call).await.is_err() {
                        missed.lock().extend(batch);
                    } else if then_wake {
                        for id in batch {
                            self.waiters.wake(id);
                        }
                    }
                }
            })
            .await;
        missed.into_inner()
    }
}

impl Waiters {
    /// How many subscriptions there are.
    pub(crate) fn subscriptions(&self) -> u64 {
        self.streams.lock().values().map(|waiter| waiter.subscriptions as u64).sum()
    }
}
