//! How long a process has said nothing, and when to ask it whether it is there.

use std::time::Duration;

use tokio::time::Instant;

/// A process that has work and has been silent for this long is asked (`ping`) before it is given more.
const QUIET: Duration = Duration::from_secs(1);

/// When a process last said something, and when it was last asked to.
#[derive(Debug)]
pub(crate) struct Silence {
    heard: Instant,
    asked: Option<Instant>,
}

impl Silence {
    pub(crate) fn new(now: Instant) -> Self {
        Self { heard: now, asked: None }
    }

    /// It said something, or has had nothing to say until now.
    pub(crate) fn heard(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Whether it has been silent for too long, and whether to ask it now: once in a while, until it is heard.
    pub(crate) fn look(&mut self, now: Instant) -> (bool, bool) {
        let quiet = now - self.heard >= QUIET;
        let asks = quiet && self.asked.is_none_or(|asked| now - asked >= QUIET);
        if asks {
            self.asked = Some(now);
        }
        (quiet, asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_once_in_a_while_until_it_is_heard() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut silence = Silence::new(start);
        let looks = [500, 1_000, 1_500, 2_000].map(|millis| silence.look(at(millis)));
        assert_eq!(looks, [(false, false), (true, true), (true, false), (true, true)]);
        silence.heard(at(2_100));
        assert_eq!([2_200, 3_100].map(|millis| silence.look(at(millis))), [(false, false), (true, true)]);
    }
}
