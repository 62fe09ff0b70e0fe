//! The SQLite store passes the kit: at both durabilities, while it is swept, and with two processes' worth of stores on one file.

use bowline_store::{Store, StreamLog as _};
use bowline_store_kit::{Clock, Harness, model};
use bowline_store_sqlite::{Durability, Options, SqliteStore};
use bowline_testkit::Dir;
use std::{pin::Pin, sync::Arc, time::Duration};

#[path = "support/hands.rs"]
mod hands;

use hands::Hands;

/// A store in a folder of its own, whose time is set by hand.
struct Embedded {
    _dir: Dir,
    store: SqliteStore,
    hands: Arc<Hands>,
    cases: u32,
    swept: bool,
}

impl Embedded {
    fn new(durability: Durability, cases: u32) -> Self {
        let dir = Dir::new();
        let hands = Arc::new(Hands::default());
        let mut options = Options::default();
        options.durability = durability;
        options.clock = hands.clone();
        options.hint_delay = Duration::from_millis(1);
        let store = SqliteStore::open(&dir.join("store"), options).expect("a new file");
        Self { _dir: dir, store, hands, cases, swept: false }
    }
}

impl Harness for Embedded {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn model(&self) -> model::Config {
        // Time is set by hand, so that it can pass in the model too.
        model::Config { cases: self.cases, ..model::Config::default() }
    }
}

impl Clock for Embedded {
    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.hands.pass(by);
            if self.swept {
                self.store.housekeep(1);
                self.store.housekeep(10_000);
            }
        })
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(5)))
    }
}

#[test]
fn conforms_with_every_commit_on_the_disk() {
    bowline_store_kit::assert_conforms(&Embedded::new(Durability::Full, 8));
}

#[test]
fn conforms_with_commits_at_the_operating_system() {
    bowline_store_kit::assert_conforms(&Embedded::new(Durability::Os, 64));
}

#[test]
fn conforms_while_it_is_swept() {
    bowline_store_kit::assert_conforms(&Embedded { swept: true, ..Embedded::new(Durability::Os, 32) });
}
