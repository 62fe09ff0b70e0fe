//! The memory store passes the kit, in paused time: as it is, and swept whenever time passes.

use bowline_store::{MemoryStore, Store};
use bowline_store_kit::{Clock, Harness, PausedClock};
use parking_lot::Mutex;
use std::{pin::Pin, sync::Arc, time::Duration};

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

/// A memory store with housekeeping: a sweep after each step of time, and one with a budget that is too small.
#[derive(Default)]
struct Swept {
    store: Mutex<Option<MemoryStore>>,
}

impl Harness for Swept {
    async fn open(&self) -> Arc<dyn Store> {
        let store = MemoryStore::default();
        *self.store.lock() = Some(store.clone());
        Arc::new(store)
    }

    fn clock(&self) -> &dyn Clock {
        self
    }
}

impl Clock for Swept {
    fn unit(&self) -> Duration {
        PausedClock.unit()
    }

    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            PausedClock.advance(by).await;
            let store = self.store.lock().clone().expect("time passes after the store was opened");
            store.sweep(1);
            store.sweep(10_000);
        })
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        PausedClock.settle()
    }

    fn paused(&self) -> bool {
        true
    }
}

#[test]
fn memory_conforms_while_it_is_swept() {
    bowline_store_kit::assert_conforms(&Swept::default());
}
