//! The kit, unchanged: as one backend and as two, with Functions and with scripts, on Redis, on Valkey, in a cluster.

use crate::{
    pair::Pair,
    support::{connect, options, random},
};
use bowline_store::Store;
use bowline_store_kit::{Clock, Harness, Violation, checks, model, run_check};
use bowline_store_redis::{Options, Scripting};
use bowline_testkit::{Redis, RedisCluster, RedisKind};
use parking_lot::Mutex;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// The server's clock is the one that counts, and nobody can set it: time is waited for.
pub(crate) struct ServerClock;

impl Clock for ServerClock {
    fn unit(&self) -> Duration {
        Duration::from_millis(400)
    }

    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(by))
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(10)))
    }
}

/// Opens the store anew for each check, under a prefix that nobody else has.
pub(crate) struct Opener {
    pub(crate) url: String,
    pub(crate) options: Options,
    pub(crate) backends: usize,
}

impl Harness for Opener {
    async fn open(&self) -> Arc<dyn Store> {
        let mut options = self.options.clone();
        options.prefix = format!("kit-{:016x}", random());
        let store = connect(&self.url, options.clone()).await;
        if self.backends == 1 {
            return Arc::new(store);
        }
        Arc::new(Pair::new([store, connect(&self.url, options).await]))
    }

    fn clock(&self) -> &dyn Clock {
        &ServerClock
    }
}

impl Opener {
    pub(crate) fn new(url: String, backends: usize) -> Self {
        let options = options(|options| {
            // For users who wait; a machine that is busy with tests has time.
            options.deadline = Duration::from_secs(5);
            // A position that is really lost is to be reported soon, and there is nobody who could help.
            options.lost_patience = Duration::from_millis(60);
            // Few make listings quick in the many stores of a run.
            options.partitions = 8;
        });
        Self { url, options, backends }
    }

    /// Every check, several at a time: most of them wait.
    pub(crate) fn assert_conforms(&self) {
        let next = AtomicUsize::new(0);
        let violations: Mutex<Vec<Violation>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while let Some(check) = checks::ALL.get(next.fetch_add(1, Relaxed)) {
                        if let Err(violation) = run_check(self, check) {
                            violations.lock().push(violation);
                        }
                    }
                });
            }
        });
        let list: String =
            violations.into_inner().iter().map(|violation| format!("\n- {violation}")).collect();
        assert!(list.is_empty(), "the store breaks its contract:{list}");
    }

    fn assert_follows_the_model(&self) {
        if let Err(violation) = model::run(self, &self.model()) {
            panic!("{violation}");
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime for the servers")
}

#[test]
fn one_backend_conforms() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start(""));
    Opener::new(server.url(), 1).assert_conforms();
}

#[test]
fn one_backend_follows_the_model() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start(""));
    Opener::new(server.url(), 1).assert_follows_the_model();
}

#[test]
fn two_backends_conform() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start(""));
    Opener::new(server.url(), 2).assert_conforms();
}

#[test]
fn two_backends_follow_the_model() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start(""));
    Opener::new(server.url(), 2).assert_follows_the_model();
}

#[test]
fn valkey_conforms() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start_kind(RedisKind::Valkey, ""));
    Opener::new(server.url(), 2).assert_conforms();
}

/// A user who may not load or call Functions.
#[test]
fn scripts_conform_where_functions_are_forbidden() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start("user app on >secret ~* &* +@all -function -fcall -fcall_ro"));
    let url = format!("redis://app:secret@{}", server.address());
    Opener::new(url, 2).assert_conforms();
    let loaded = runtime.block_on(server.ask(&["FUNCTION", "LIST"]));
    assert!(loaded.list().is_empty(), "functions were loaded: {loaded:?}");
}

/// A user with the rights that the documentation lists, and no other.
#[test]
fn the_documented_rights_are_enough() {
    let text = include_str!("../../src/lib.rs");
    let section = text.split("# Rights").nth(1).and_then(|rest| rest.split("mod actions").next());
    let rights: Vec<&str> =
        section.expect("the section").split(['`', ' ', '\n']).filter(|word| word.starts_with('+')).collect();
    assert!(rights.len() > 30, "{rights:?}");
    let runtime = runtime();
    // `client|setinfo` is newer than this server.
    let known = rights.into_iter().filter(|right| *right != "+client|setinfo").collect::<Vec<_>>().join(" ");
    let server = runtime.block_on(Redis::start(&format!("user app on >secret ~kit-* &kit-* {known}")));
    Opener::new(format!("redis://app:secret@{}", server.address()), 2).assert_conforms();
    assert!(!runtime.block_on(server.ask(&["FUNCTION", "LIST"])).list().is_empty(), "no function was loaded");
}

#[test]
fn valkey_conforms_with_scripts() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start_kind(RedisKind::Valkey, ""));
    let mut opener = Opener::new(server.url(), 1);
    opener.options.scripting = Scripting::Scripts;
    opener.assert_conforms();
}

#[test]
fn a_cluster_conforms() {
    let runtime = runtime();
    let cluster = runtime.block_on(RedisCluster::start(3, false));
    Opener::new(cluster.url(), 2).assert_conforms();
    for node in &cluster.nodes {
        let keys = runtime.block_on(node.keys("*"));
        assert!(!keys.is_empty(), "a node of the cluster has nothing");
    }
}
