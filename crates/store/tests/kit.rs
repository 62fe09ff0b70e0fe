//! The memory store passes the kit, in paused time.

use bowline_store::{MemoryStore, Store};
use bowline_store_kit::{Clock, Harness, PausedClock};
use std::sync::Arc;

struct Memory;

impl Harness for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::default())
    }

    fn clock(&self) -> &dyn Clock {
        &PausedClock
    }
}

#[test]
fn memory_conforms() {
    bowline_store_kit::assert_conforms(&Memory);
}
