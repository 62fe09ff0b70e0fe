//! Streams whose writing end is on this backend, and results that wait here for their client.

use crate::outlet::Outlet;
use bowline_proto::{cursor::StreamId, legacy::Millis};
use bowline_store::{Spread, StreamKind};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

/// How many streams of calls are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Open, and read by nobody.
    pub(crate) parked: u64,
    /// Open, and read.
    pub(crate) streaming: u64,
    /// Sealed, and not fetched.
    pub(crate) waiting: u64,
}

/// Finds the writing end of a stream that a poll asks for, and knows when a drain has nothing to wait for.
#[derive(Default)]
pub(crate) struct Running(Mutex<State>);

#[derive(Default)]
struct State {
    /// An entry lives as long as its outlet.
    outlets: HashMap<StreamId, Weak<Outlet>, Spread>,
    /// Results that nobody has fetched yet, until they expire.
    waiting: HashMap<StreamId, Waiting, Spread>,
    /// The same in the order of their expiry, which is the order of their arrival.
    expiry: VecDeque<(Millis, StreamId)>,
}

/// A result that waits for its client.
struct Waiting {
    /// Until when.
    expires: Millis,
    /// Whether its session ended: then nobody can come for it.
    ended: Arc<AtomicBool>,
}

impl Waiting {
    /// Whether somebody can still come for it.
    fn is_wanted(&self, now: Millis) -> bool {
        self.expires > now && !self.ended.load(Ordering::Acquire)
    }
}

impl Running {
    pub(crate) fn add(&self, outlet: &Arc<Outlet>) {
        self.0.lock().outlets.insert(outlet.stream, Arc::downgrade(outlet));
    }

    pub(crate) fn get(&self, stream: StreamId) -> Option<Arc<Outlet>> {
        self.0.lock().outlets.get(&stream).and_then(Weak::upgrade)
    }

    /// The outlet is gone; with `expires`, its result waits for its client until then, or until its session ended.
    pub(crate) fn remove(&self, stream: StreamId, expires: Option<Millis>, ended: &Arc<AtomicBool>) {
        let mut state = self.0.lock();
        // A call that this backend lost and took over again has another one by now.
        if state.outlets.get(&stream).is_some_and(|outlet| outlet.strong_count() > 0) {
            return;
        }
        let known = state.outlets.remove(&stream).is_some();
        if let Some(at) = expires
            && known
        {
            state.waiting.insert(stream, Waiting { expires: at, ended: ended.clone() });
            state.expiry.push_back((at, stream));
        }
    }

    /// A client has fetched a result.
    pub(crate) fn fetched(&self, stream: StreamId) {
        self.0.lock().waiting.remove(&stream);
    }

    /// Forgets results that expired; returns how many nobody fetched.
    pub(crate) fn expire(&self, now: Millis) -> u64 {
        let mut state = self.0.lock();
        let mut unclaimed = 0;
        while let Some(&(at, stream)) = state.expiry.front()
            && at <= now
        {
            state.expiry.pop_front();
            unclaimed += u64::from(state.waiting.remove(&stream).is_some());
        }
        unclaimed
    }

    /// Counts, one by one.
    pub(crate) fn tally(&self, now: Millis) -> Tally {
        let state = self.0.lock();
        let mut tally = Tally::default();
        let outlets: Vec<_> = state.outlets.values().filter_map(Weak::upgrade).collect();
        tally.waiting = state.waiting.values().filter(|result| result.is_wanted(now)).count() as u64;
        // An outlet whose last owner is this list removes itself, which takes the lock.
        drop(state);
        for outlet in outlets.iter().filter(|outlet| outlet.kind == StreamKind::Call) {
            if outlet.unread_since().is_some() {
                tally.parked += 1;
            } else {
                tally.streaming += 1;
            }
        }
        tally
    }

    /// Whether nothing is written here and no result waits that somebody can come for. Other backends give out what is in a `shared`
    /// store.
    pub(crate) fn is_idle(&self, now: Millis, shared: bool) -> bool {
        let state = self.0.lock();
        state.outlets.is_empty() && (shared || !state.waiting.values().any(|result| result.is_wanted(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_waits_until_it_expires_is_fetched_or_its_session_ended() {
        let running = Running::default();
        let stream = |number| StreamId::from_bytes([number; 16]);
        let (open, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (number, session) in [(1, &open), (2, &open), (3, &ended)] {
            running.0.lock().outlets.insert(stream(number), Weak::new());
            running.remove(stream(number), Some(Millis(10)), session);
        }
        let waiting = |now| running.tally(Millis(now)).waiting;
        assert_eq!(waiting(0), 3);
        running.fetched(stream(1));
        assert_eq!(waiting(0), 2);
        ended.store(true, Ordering::Release);
        assert_eq!(
            (waiting(0), running.is_idle(Millis(0), false)),
            (1, false),
            "nobody can come for the third"
        );
        assert!(running.is_idle(Millis(0), true), "another backend can give it out");
        assert_eq!((waiting(10), running.is_idle(Millis(10), false)), (0, true));
        assert_eq!(running.expire(Millis(10)), 2, "nobody has fetched these");
    }
}
