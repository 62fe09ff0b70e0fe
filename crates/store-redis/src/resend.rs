//! Appending again what Redis lost.

use crate::{
    actions::Action,
    call::{Arg, Call},
    connect,
    link::{Link, State, Up, strange},
    store::{Inner, millis},
    tails::{Missing, Seal},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Unavailable, WriteAt};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};

/// How many streams are looked after at once, and how many readers may ask in the meantime.
const AT_ONCE: usize = 32;
pub(crate) const ASKED: usize = 1024;

/// How often the primaries of a cluster are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing was missing, or what was is somebody else's.
    Nothing,
    /// The log is whole again.
    Whole,
    /// The stream was given up.
    GivenUp,
}

impl Inner {
    /// A reader is ahead of one of our logs.
    pub(crate) fn ask_for(&self, stream: StreamId) {
        // Where too many ask, they ask again.
        let _ = self.asked.try_send(stream);
    }

    /// Looks how far the log in Redis goes, and completes it.
    async fn look_after(&self, stream: StreamId) -> Result<Outcome, Unavailable> {
        let call = Call::new(Action::Tail).key(self.names.record(stream));
        let mut reply = self.link.run(call).await?;
        let mut read = || match reply.text()?.as_str() {
            "ok" => Ok(Some((reply.number()?, reply.number()?, reply.number()? == 1))),
            _ => Ok(None),
        };
        match read().map_err(|_: crate::call::Strange| strange("tail"))? {
            Some((epoch, tail, sealed)) => self.complete(stream, epoch, tail, sealed).await,
            None => {
                // Expired or removed, or its making was lost too: a lost log is never started again in silence.
                self.tails.lock().forget(stream);
                Ok(Outcome::Nothing)
            }
        }
    }

    /// Completes a log that ends at `tail` in Redis.
    pub(crate) async fn complete(
        &self,
        stream: StreamId,
        epoch: u64,
        tail: u64,
        sealed: bool,
    ) -> Result<Outcome, Unavailable> {
        let missing = self.tails.lock().missing(stream, epoch, tail, sealed);
        match missing {
            Missing::Nothing => Ok(Outcome::Nothing),
            Missing::Forgotten => {
                self.tails.lock().give_up(stream);
                self.link.counts.streams_lost.add(1);
                tracing::warn!(
                    ?stream,
                    tail,
                    "the server lost messages of a stream that are not remembered: the stream is given up"
                );
                self.remove_stream(stream).await?;
                Ok(Outcome::GivenUp)
            }
            Missing::These(events, seal) => {
                let count = events.len() + usize::from(seal.is_some());
                for (at, payload) in events {
                    if !self.resend(at, payload).await? {
                        return Ok(Outcome::Nothing);
                    }
                }
                if let Some(seal) = seal
                    && !self.seal_again(seal).await?
                {
                    return Ok(Outcome::Nothing);
                }
                self.link.counts.events_resent.add(count as u64);
                self.waiters.wake(stream);
                Ok(Outcome::Whole)
            }
        }
    }

    /// Returns whether the log has it.
    async fn resend(&self, at: WriteAt, payload: Bytes) -> Result<bool, Unavailable> {
        let mut reply = self.link.run(self.append_call(at, payload, false)).await?;
        let word = reply.text().map_err(|_| strange("append"))?;
        Ok(matches!(word.as_str(), "new" | "again"))
    }

    async fn seal_again(&self, seal: Seal) -> Result<bool, Unavailable> {
        let mut reply = self.link.run(self.seal_call(&seal)).await?;
        let word = reply.text().map_err(|_| strange("seal"))?;
        Ok(matches!(word.as_str(), "new" | "again"))
    }

    /// An append to a stream.
    pub(crate) fn append_call(&self, at: WriteAt, payload: Bytes, droppable: bool) -> Call {
        let names = &self.names;
        let call = Call::new(Action::Append)
            .key(names.record(at.stream))
            .key(names.events(at.stream))
            .key(names.waiters(at.stream));
        self.introduce(call, at.stream)
            .arg(at.epoch)
            .arg(at.offset)
            .arg(droppable)
            .arg(payload.len() as u64)
            .arg(Arg::Event { epoch: at.epoch, offset: at.offset, payload })
    }

    /// A seal of a stream.
    pub(crate) fn seal_call(&self, seal: &Seal) -> Call {
        let (names, at) = (&self.names, seal.at);
        let call = Call::new(Action::Seal)
            .key(names.record(at.stream))
            .key(names.events(at.stream))
            .key(names.waiters(at.stream))
            .key(names.owners(names.partition(at.stream)))
            .key(names.rerun(at.stream));
        let call = self.introduce(call, at.stream).arg(at.epoch).arg(at.offset).arg(millis(seal.keep, 1));
        match &seal.last {
            Some(last) => {
                let event = Arg::Event { epoch: at.epoch, offset: at.offset, payload: last.clone() };
                call.arg(last.len() as u64).arg(event)
            }
            None => call,
        }
    }
}

/// Looks after streams: all of them when the connection was made anew or a cluster has other primaries, single ones when a reader asks.
pub(crate) async fn look_after(inner: Arc<Inner>, mut asked: mpsc::Receiver<StreamId>) {
    let mut state = inner.link.watch();
    state.mark_unchanged();
    let mut generation = 1;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Those that could not be looked after yet.
    let mut again: BTreeSet<StreamId> = BTreeSet::new();
    loop {
        let mut streams = tokio::select! {
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
                match &*state.borrow_and_update() {
                    State::Up(up) if up.generation != generation => generation = up.generation,
                    _ => continue,
                }
                inner.tails.lock().remembered()
            }
            _ = look.tick() => {
                let moved = match inner.link.up().filter(|up| up.connection.is_cluster()) {
                    Some(up) => has_moved(&inner.link, up).await,
                    None => false,
                };
                if moved {
                    inner.waiters.start_over();
                    inner.tails.lock().remembered()
                } else {
                    Vec::new()
                }
            }
            Some(stream) = asked.recv() => {
                let mut streams = vec![stream];
                while let Ok(stream) = asked.try_recv() {
                    streams.push(stream);
                }
                streams
            }
        };
        streams.extend(std::mem::take(&mut again));
        streams.sort_unstable();
        streams.dedup();
        let missed = Mutex::new(BTreeSet::new());
        stream::iter(streams)
            .for_each_concurrent(AT_ONCE, |stream| {
                let (inner, missed) = (&inner, &missed);
                async move {
                    if inner.look_after(stream).await.is_err() {
                        missed.lock().insert(stream);
                    }
                }
            })
            .await;
        again = missed.into_inner();
    }
}

/// Whether slots of the cluster have other primaries than a moment ago, or a primary is another process.
async fn has_moved(link: &Link, mut up: Up) -> bool {
    let look = async {
        let primaries = connect::primaries(&mut up.connection).await?;
        // Where that is forbidden, restarts are not seen.
        let incarnations = connect::incarnations(&mut up.connection).await.unwrap_or_default();
        Ok::<_, redis::RedisError>((primaries, incarnations))
    };
    match tokio::time::timeout(link.options.deadline, look).await {
        Ok(Ok((primaries, incarnations))) if !primaries.is_empty() => {
            link.note_cluster(primaries, incarnations)
        }
        _ => false,
    }
}

/// Forgets what is old enough, every second.
pub(crate) async fn forget(inner: Arc<Inner>) {
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for second in 1_u64.. {
        tick.tick().await;
        let now = Instant::now();
        let mut tails = inner.tails.lock();
        // As long as the server is away, or was a moment ago, nobody knows what it kept.
        let keep = inner.link.options.tail;
        if let Some(up) = inner.link.up()
            && up.since + keep <= now
            && let Some(before) = now.checked_sub(keep)
        {
            tails.prune(before);
        }
        if second.is_multiple_of(60) {
            tails.prune_ended(now);
        }
        inner.link.counts.tail_bytes.set(tails.bytes() as u64);
    }
}
