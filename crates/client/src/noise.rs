//! How often it is said that a server sends what is no message.

use std::time::Duration;
use tokio::time::Instant;

/// The least time between two warnings.
const PAUSE: Duration = Duration::from_secs(10);

/// Counts what is not said, so that a server that sends nothing but garbage does not fill the log of whoever calls it.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    said: Option<Instant>,
    unsaid: u64,
}

impl Noise {
    /// One more. `Some`: say so, with how many there were since the last time it was said.
    pub(crate) fn heard(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now - said < PAUSE) {
            self.unsaid = self.unsaid.saturating_add(1);
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_said_once_in_a_while() {
        let (mut noise, start) = (Noise::default(), Instant::now());
        assert_eq!(noise.heard(start), Some(0));
        for millis in 0..9_999 {
            assert_eq!(noise.heard(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(noise.heard(start + PAUSE), Some(9_999));
        assert_eq!(noise.heard(start + PAUSE), None);
        assert_eq!(noise.heard(start + 3 * PAUSE), Some(1));
    }
}
