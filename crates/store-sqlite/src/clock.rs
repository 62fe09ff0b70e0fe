//! The store's time: shared by every process that has the file open, and never turned back.

use parking_lot::Mutex;
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Where a store takes its time from.
///
/// The store counts in milliseconds of its own. While a process runs they pass as [`steady`](Self::steady) says, so a jump of the wall
/// clock changes nothing. Every commit writes them down together with [`wall`](Self::wall); a process that opens the file
/// goes on from there, by as much as the wall clock moved since: never back, and at most a day. Processes that share the file go by
/// the one that is ahead.
pub trait Clock: Send + Sync + 'static {
    /// The time on the wall, in milliseconds since the Unix epoch.
    fn wall(&self) -> u64;

    /// The time since some fixed moment. Never goes back.
    fn steady(&self) -> Duration;
}

/// The clocks of the machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose steady time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: instant() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> u64 {
        // Before 1970 it is 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn steady(&self) -> Duration {
        since(self.origin)
    }
}

#[expect(clippy::disallowed_methods, reason = "threads without a runtime; tests bring a Clock of their own")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The time since an instant: for measuring and for waiting, whatever the store's own time does.
pub(crate) fn since(start: Instant) -> Duration {
    instant().saturating_duration_since(start)
}

/// How much an outage counts at most, in milliseconds: a wall clock that was set wrong at a start ends no more than a day of lives.
const LONGEST_OUTAGE: i64 = 24 * 60 * 60 * 1_000;

/// A moment in the store's time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    /// The moment `span` after this one. Part milliseconds count as whole ones, so that nothing ends early.
    pub(crate) fn plus(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

/// What a commit writes down: the store's time, and the wall clock at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) store: Moment,
    pub(crate) wall: i64,
}

/// The store's time in this process.
pub(crate) struct StoreTime {
    clock: Arc<dyn Clock>,
    /// The store's time at a moment of the steady clock.
    anchor: Mutex<(Moment, Duration)>,
}

impl StoreTime {
    /// Goes on from what the last commit wrote down, or from the wall clock in a new file.
    pub(crate) fn start(clock: Arc<dyn Clock>, last: Option<Stamp>) -> Self {
        let wall = wall(&*clock);
        let now = last.map_or(Moment(wall), |last| {
            let outage = wall.saturating_sub(last.wall).clamp(0, LONGEST_OUTAGE);
            Moment(last.store.0.saturating_add(outage))
        });
        let anchor = Mutex::new((now, clock.steady()));
        Self { clock, anchor }
    }

    pub(crate) fn now(&self) -> Moment {
        // The steady clock is read under the lock: else a raise in between would be counted twice.
        let anchor = self.anchor.lock();
        Self::after(*anchor, self.clock.steady())
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { store: self.now(), wall: wall(&*self.clock) }
    }

    /// Takes note of what another process wrote down: whoever is behind goes on from there.
    pub(crate) fn meet(&self, other: Moment) {
        let mut anchor = self.anchor.lock();
        let steady = self.clock.steady();
        if Self::after(*anchor, steady) < other {
            *anchor = (other, steady);
        }
    }

    fn after((store, at): (Moment, Duration), steady: Duration) -> Moment {
        // Whole milliseconds that passed: rounded down, or nothing would ever be on time.
        let passed = i64::try_from(steady.saturating_sub(at).as_millis()).unwrap_or(i64::MAX);
        Moment(store.0.saturating_add(passed))
    }
}

impl fmt::Debug for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreTime").field(&self.now()).finish()
    }
}

fn wall(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.wall()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Hands {
        wall: Mutex<u64>,
        steady: Mutex<Duration>,
    }

    impl Hands {
        fn pass(&self, millis: u64) {
            *self.wall.lock() += millis;
            *self.steady.lock() += Duration::from_millis(millis);
        }
    }

    impl Clock for Hands {
        fn wall(&self) -> u64 {
            *self.wall.lock()
        }

        fn steady(&self) -> Duration {
            *self.steady.lock()
        }
    }

    fn hands(wall: u64) -> Arc<Hands> {
        let hands = Hands::default();
        *hands.wall.lock() = wall;
        Arc::new(hands)
    }

    #[test]
    fn a_jump_of_the_wall_clock_does_not_matter_while_a_process_runs() {
        let hands = hands(1_000);
        let time = StoreTime::start(hands.clone(), None);
        hands.pass(10);
        *hands.wall.lock() = 0;
        assert_eq!(time.now(), Moment(1_010));
        *hands.wall.lock() = 1 << 40;
        hands.pass(5);
        assert_eq!(time.now(), Moment(1_015));
    }

    #[test]
    fn an_outage_counts_by_the_wall_clock_within_bounds() {
        let last = Some(Stamp { store: Moment(5_000), wall: 100_000 });
        let at = |wall| StoreTime::start(hands(wall), last).now();
        assert_eq!(at(100_250), Moment(5_250));
        assert_eq!(at(3), Moment(5_000), "a wall clock that was set back");
        assert_eq!(at(u64::MAX), Moment(5_000 + LONGEST_OUTAGE), "one that was set far ahead");
    }

    #[test]
    fn whoever_is_behind_goes_by_the_other() {
        let hands = hands(1_000);
        let time = StoreTime::start(hands.clone(), None);
        time.meet(Moment(900));
        assert_eq!(time.now(), Moment(1_000));
        time.meet(Moment(1_500));
        hands.pass(1);
        assert_eq!(time.now(), Moment(1_501));
    }

    #[test]
    fn part_milliseconds_of_a_life_count_whole() {
        assert_eq!(Moment(1).plus(Duration::from_micros(1)), Moment(2));
        assert_eq!(Moment(1).plus(Duration::MAX), Moment(i64::MAX));
    }
}
