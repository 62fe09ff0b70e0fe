//! What the end-to-end tests share: the built program, raw HTTP, scripted servers, fault proxies, Redis, processes.
//!
//! Everything here panics when a test cannot go on, and says what it saw; nothing here uses the product's own code, so that
//! a mistake in it cannot hide itself.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on fails")]

mod answer;
mod clients;
mod daemon;
mod dir;
mod fault;
mod inspector;
pub mod modern;
mod nginx;
pub mod processes;
mod program;
mod proxy;
mod raw;
mod redis;
pub mod scripted;
mod servers;
mod session;
mod sse;

pub use answer::Answer;
pub use clients::{ClientRun, RealClient, everything_server};
pub use dir::{Dir, repository};
pub use fault::{Fault, FaultProxy};
pub use inspector::{Inspector, InspectorRun};
pub use nginx::{Nginx, NginxOptions};
pub use program::{Program, Serve};
pub use proxy::{Proxy, ProxyKind, replace};
pub use raw::{Chunk, Head, Raw};
pub use redis::{Redis, RedisCluster, RedisKind, RedisReply, free_port, has_role};
pub use servers::{RealServer, RunningServer};
pub use session::{Session, initialize, text_of};
pub use sse::Block;

use std::time::Duration;

/// No wait of the kit is longer than this; then it panics with what it has.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `what` and panics, naming it, when it does not come within [`PATIENCE`].
pub async fn patiently<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Asks again every 10 ms until `ready` says yes; panics, naming `what`, after `within`. For what cannot be awaited: files,
/// processes, counters of another program.
pub async fn eventually(what: &str, within: Duration, mut ready: impl FnMut() -> bool) {
    let limit = tokio::time::Instant::now() + within;
    while !ready() {
        assert!(tokio::time::Instant::now() < limit, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
