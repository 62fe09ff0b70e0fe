//! A clock whose hands are moved by the test.

#![allow(dead_code, reason = "some tests leave it alone")]

use parking_lot::Mutex;
use std::time::Duration;

pub(crate) struct Hands(Mutex<(u64, Duration)>);

impl Default for Hands {
    fn default() -> Self {
        Self(Mutex::new((1_800_000_000_000, Duration::ZERO)))
    }
}

impl Hands {
    pub(crate) fn pass(&self, by: Duration) {
        let mut hands = self.0.lock();
        hands.0 += u64::try_from(by.as_millis()).expect("a test does not take that long");
        hands.1 += by;
    }
}

impl bowline_store_sqlite::Clock for Hands {
    fn wall(&self) -> u64 {
        self.0.lock().0
    }

    fn steady(&self) -> Duration {
        self.0.lock().1
    }
}
