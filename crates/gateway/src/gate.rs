//! Whether a process may be started now: a command that does not come up is not tried more than about once a second,
//! whoever asks.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::child::{Backoff, BackoffPolicy};

/// Paces the starts of one command. As long as they succeed it lets everybody through at once.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: BackoffPolicy,
    state: Mutex<State>,
    /// Wakes those who wait for their turn when a process came up after all.
    open: Notify,
}

#[derive(Debug)]
struct State {
    backoff: Backoff,
    /// When the next start may be, while starts fail.
    next: Option<Instant>,
}

impl Gate {
    pub(crate) fn new(policy: BackoffPolicy) -> Self {
        Self {
            policy,
            state: Mutex::new(State { backoff: Backoff::new(policy), next: None }),
            open: Notify::new(),
        }
    }

    /// How long the next turn would have to be waited for, by somebody who will not wait.
    pub(crate) fn closed_for(&self, now: Instant) -> Duration {
        self.state.lock().next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    /// Waits until a process came up.
    pub(crate) async fn opened(&self) {
        self.open.notified().await;
    }

    /// Takes the next turn: how long to wait for it.
    pub(crate) fn turn(&self, now: Instant) -> Duration {
        let mut state = self.state.lock();
        let Some(next) = state.next else { return Duration::ZERO };
        let turn = next.max(now);
        state.next = Some(turn + self.policy.first);
        turn - now
    }

    /// A process came up.
    pub(crate) fn came_up(&self) {
        let mut state = self.state.lock();
        state.backoff = Backoff::new(self.policy);
        state.next = None;
        drop(state);
        self.open.notify_waiters();
    }

    /// A process did not come up.
    pub(crate) fn failed(&self, now: Instant) {
        let mut state = self.state.lock();
        let pause = state.backoff.ended(now, jitter());
        let next = now + pause;
        state.next = Some(state.next.map_or(next, |turn| turn.max(next)));
    }

    /// Whether the command keeps failing. When nobody has tried for the longest pause, nobody knows any more: a balancer that
    /// sends no clients to whoever says so here would keep it from ever being tried again.
    pub(crate) fn is_looping(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let known = state.next.is_some_and(|next| now < next + self.policy.longest);
        known && state.backoff.crash_looping(now)
    }
}

/// A number from 0 to 1 that differs from process to process and call to call.
pub(crate) fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    let bits = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn who_comes_up_is_never_held() {
        let (gate, now) = (Gate::new(BackoffPolicy::default()), now());
        for _ in 0..100 {
            assert_eq!(gate.turn(now), Duration::ZERO);
            gate.came_up();
        }
    }

    #[test]
    fn a_failing_command_is_tried_once_a_second_at_most_by_all_together() {
        let (gate, now) = (Gate::new(BackoffPolicy::default()), now());
        gate.failed(now); // the first retry may be at once
        assert_eq!(gate.closed_for(now), Duration::ZERO);
        let turns: Vec<_> = (0..5).map(|_| gate.turn(now).as_secs()).collect();
        assert_eq!(turns, [0, 1, 2, 3, 4]);
        // Who only asks takes nobody's turn.
        assert_eq!((gate.closed_for(now).as_secs(), gate.closed_for(now).as_secs()), (5, 5));
        for _ in 0..4 {
            gate.failed(now);
        }
        assert!(gate.is_looping(now));
        let turn = gate.turn(now);
        assert!(turn >= Duration::from_secs(8));
        // One second after that turn is the next one; half a minute after that it is worth a try again.
        let next = now + turn + Duration::from_secs(1);
        assert!(gate.is_looping(next + Duration::from_millis(29_999)));
        assert!(!gate.is_looping(next + Duration::from_secs(30)));
        gate.failed(next + Duration::from_secs(30));
        assert!(gate.is_looping(next + Duration::from_secs(30)));
        gate.came_up();
        assert!(!gate.is_looping(now));
        assert_eq!(gate.turn(now), Duration::ZERO);
    }

    #[test]
    fn jitter_is_a_share() {
        assert!((0..1000).map(|_| jitter()).all(|share| (0.0..=1.0).contains(&share)));
    }
}
