//! The store itself: what all its parts share.

use crate::{
    actions::{self, Action},
    call::Call,
    connect, endpoint,
    hints::{self, Hints},
    link::Link,
    listen,
    names::Names,
    options::Options,
    resend,
    tails::Tails,
    waiters::{self, Waiters},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{BackendId, StoreFuture, Unavailable, WakeBus, Wakeups};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, timeout},
};

/// Why there is no store.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("the URL of the Redis store cannot be used: {0}")]
    Url(String),
    /// An option cannot be used.
    #[error("the options of the Redis store cannot be used: {0}")]
    Options(String),
    /// `rediss://` needs a cryptography provider for rustls, which the program chooses and installs before.
    #[error(
        "rediss:// needs a cryptography provider: install one (rustls::crypto::CryptoProvider::install_default) before connecting"
    )]
    NoCryptography,
    /// There is no connection to be had, or no right to what is needed.
    #[error("cannot connect to Redis ({server}): {why}")]
    Unreachable {
        /// Where it was tried.
        server: String,
        /// What came of it.
        why: String,
    },
    /// The server is too old.
    #[error("{version} is too old for the store: Redis 7 or Valkey 7.2, or newer, is needed")]
    TooOld {
        /// What it is.
        version: String,
    },
    /// Another layout is in use under the same prefix.
    #[error(
        "the store under prefix {prefix:?} is in use with another layout (version:partitions {theirs}, here {ours}): use the same partitions, or another prefix"
    )]
    Layout {
        /// The prefix of the names.
        prefix: String,
        /// What is in use there.
        theirs: String,
        /// What this store would use.
        ours: String,
    },
}

/// Keeps everything in Redis or Valkey, for a fleet of backends. Clones share one store; it ends with the last of them.
///
/// - One round trip for each action, atomic, on one connection that all share. Each has a deadline
///   ([`Options::deadline`]); where the server is away, a circuit breaker answers at once.
/// - The bounds of one stream come with it ([`NewStream`](bowline_store::NewStream)); the bound of all is the memory of the server: where it is full
///   (`maxmemory`, with `noeviction`), what takes memory is refused, and what frees some or ends a call is not.
/// - Everything expires by itself; [`housekeep`](bowline_store::StreamLog::housekeep) does nothing.
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
    _tasks: Arc<Tasks>,
}

/// What goes on in the background, as long as there is a store.
struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

pub(crate) struct Inner {
    pub(crate) link: Arc<Link>,
    pub(crate) names: Names,
    /// Names this store among all that use the server.
    pub(crate) tag: String,
    /// What the names of channels start with, and our own.
    pub(crate) channels: String,
    pub(crate) channel: String,
    pub(crate) waiters: Waiters,
    pub(crate) hints: Hints,
    pub(crate) tails: Mutex<Tails>,
    /// Streams whose readers are ahead of the log.
    pub(crate) asked: mpsc::Sender<StreamId>,
    /// Backends that were put on the list, and when.
    pub(crate) enlisted: Mutex<HashMap<BackendId, Instant>>,
    nonces: AtomicU64,
}

impl RedisStore {
    /// Connects, checks that the server can be used, and prepares it.
    ///
    /// `url` is one of
    /// - `redis://[user:password@]host[:port][/database]`, `unix:///path`: one server; a node of a cluster is recognised
    /// - `redis+sentinel://[user:password@]host[:port],…/primary[/database][?sentinel=user:password]`
    /// - `redis+cluster://[user:password@]host[:port],…`
    ///
    /// with `rediss` for TLS. Must be called in a tokio runtime, which has to live as long as the store.
    ///
    /// # Errors
    /// Says what cannot be used or reached; never the password.
    pub async fn connect(url: &str, options: Options) -> Result<Self, ConnectError> {
        options.check().map_err(ConnectError::Options)?;
        let mut topology =
            endpoint::parse(url, options.root_certificates.as_deref()).map_err(ConnectError::Url)?;
        if topology.is_encrypted() && rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(ConnectError::NoCryptography);
        }
        let server = topology.shown();
        let unreachable = |why: String| ConnectError::Unreachable { server: server.clone(), why };
        let prepare = async {
            let mut connected = connect::connect(&topology, &[], &options).await?;
            let found = connect::server(&mut connected.connection).await?;
            if found.as_ref().is_some_and(|found| found.in_cluster) {
                topology = endpoint::Topology::Cluster(vec![connected.primary.clone()]);
                connected = connect::connect(&topology, &[], &options).await?;
            }
            let form = connect::load(&mut connected.connection, options.scripting).await?;
            Ok::<_, redis::RedisError>((connected, found, form))
        };
        // Two connections may have to be made.
        let limit = options.connect_timeout.saturating_mul(2);
        let (connected, found, form) = timeout(limit, prepare)
            .await
            .map_err(|_| unreachable(format!("no answer within {limit:?}")))?
            .map_err(|error| unreachable(error.to_string()))?;
        if let Some(found) = found {
            if found.is_old {
                return Err(ConnectError::TooOld { version: found.version });
            }
            if found.eviction.starts_with("allkeys") {
                tracing::warn!(
                    policy = found.eviction,
                    "the server evicts what it likes when its memory is full, running calls too: noeviction is what the store wants"
                );
            }
            tracing::info!(
                server,
                version = found.version,
                library = actions::library(),
                ?form,
                "the store is in Redis"
            );
        }
        let link = Link::new(topology, options, connected, form);
        let store = Self::new(link);
        store.agree_on_layout().await?;
        Ok(store)
    }

    fn new(link: Arc<Link>) -> Self {
        let names = Names::new(&link.options.prefix, link.options.partitions);
        let mut random = [0; 16];
        // Where the system has no randomness, two stores may share a channel: wake-ups for nothing, and nothing worse.
        let _ = getrandom::fill(&mut random);
        let [tag, nonce] = [0, 8]
            .map(|at| random[at..at + 8].iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)));
        let tag = format!("{tag:016x}");
        let channels = names.channels();
        let (asked, asking) = mpsc::channel(resend::ASKED);
        let inner = Arc::new(Inner {
            channel: format!("{channels}{tag}"),
            channels,
            link,
            names,
            tag,
            waiters: Waiters::default(),
            hints: Hints::default(),
            tails: Mutex::default(),
            asked,
            enlisted: Mutex::default(),
            nonces: AtomicU64::new(nonce),
        });
        let tasks = [
            tokio::spawn(listen::listen(Arc::clone(&inner))),
            tokio::spawn(waiters::register(Arc::clone(&inner))),
            tokio::spawn(waiters::renew(Arc::clone(&inner))),
            tokio::spawn(waiters::backstop(Arc::clone(&inner))),
            tokio::spawn(hints::send(Arc::clone(&inner))),
            tokio::spawn(resend::look_after(Arc::clone(&inner), asking)),
            tokio::spawn(resend::forget(Arc::clone(&inner))),
        ];
        let tasks = tasks.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        Self { inner, _tasks: Arc::new(Tasks(tasks)) }
    }

    /// Backends that divide keys otherwise would not see each other's.
    async fn agree_on_layout(&self) -> Result<(), ConnectError> {
        let inner = &self.inner;
        let ours = format!("{}:{}", actions::LAYOUT, inner.names.partitions());
        let call = Call::new(Action::Layout).key(inner.names.layout()).arg(ours.as_str());
        let unreachable =
            |error: Unavailable| ConnectError::Unreachable { server: inner.link.shown(), why: error.0 };
        let mut reply = inner.link.run(call).await.map_err(unreachable)?;
        let theirs = reply.text().unwrap_or_default();
        if theirs == ours {
            return Ok(());
        }
        Err(ConnectError::Layout { prefix: inner.link.options.prefix.clone(), theirs, ours })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("server", &self.inner.link.shown()).finish_non_exhaustive()
    }
}

impl WakeBus for RedisStore {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        waiters::subscribe(&self.inner, stream)
    }
}

impl Inner {
    /// The arguments by which an action can wake other backends: which stream, who we are, where they listen.
    pub(crate) fn introduce(&self, call: Call, stream: StreamId) -> Call {
        call.arg(format!("{stream:?}")).arg(self.tag.as_str()).arg(self.channels.as_str())
    }

    /// Tells one attempt from another.
    pub(crate) fn nonce(&self) -> String {
        format!("{:016x}", self.nonces.fetch_add(1, Relaxed))
    }
}

/// A span in milliseconds, at least `least`. Part milliseconds count as whole ones, so that nothing ends early.
pub(crate) fn millis(span: Duration, least: u64) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000))
        .unwrap_or(u64::MAX)
        // A time to live has to fit beside the time of day.
        .clamp(least, 1 << 50)
}

/// A future that borrows the store only while it runs.
pub(crate) fn later<'a, T: Send + 'a>(future: impl Future<Output = T> + Send + 'a) -> StoreFuture<'a, T> {
    StoreFuture::later(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_cryptography_there_is_no_tls() {
        let error =
            RedisStore::connect("rediss://127.0.0.1:1", Options::default()).await.expect_err("no TLS");
        assert!(matches!(error, ConnectError::NoCryptography), "{error}");
    }

    #[test]
    fn spans_are_rounded_up_and_bounded() {
        assert_eq!(millis(Duration::ZERO, 0), 0);
        assert_eq!(millis(Duration::ZERO, 1), 1);
        assert_eq!(millis(Duration::from_micros(1_001), 0), 2);
        assert_eq!(millis(Duration::MAX, 0), 1 << 50);
    }
}
