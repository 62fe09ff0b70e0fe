//! The way to Redis: one connection, a deadline for everything, a circuit breaker.
//!
//! - *Up*: there is a connection.
//! - *Waiting*: it was lost a moment ago; who has something to say waits, within its deadline.
//! - *Open*: the server cannot be reached or does not answer; everybody is told at once. A probe (a new connection and a `PING`)
//!   goes on in the background until it is answered.

use crate::{
    actions::{self, Form},
    call::{Call, Reply},
    connect::{self, Connected, Connection},
    endpoint::Topology,
    options::{Options, Scripting},
    stats::Counts,
};
use bowline_store::Unavailable;
use parking_lot::Mutex;
use redis::{Cmd, ConnectionInfo, ErrorKind, RedisError, ServerErrorKind, Value};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// A connection in use.
#[derive(Clone)]
pub(crate) struct Up {
    pub(crate) connection: Connection,
    /// Where the primary is (a node of a cluster).
    pub(crate) primary: Arc<ConnectionInfo>,
    /// Counts connections, from 1.
    pub(crate) generation: u64,
    pub(crate) since: Instant,
}

#[derive(Clone)]
pub(crate) enum State {
    Up(Up),
    Waiting,
    Open(Arc<str>),
}

pub(crate) struct Link {
    topology: Topology,
    pub(crate) options: Options,
    pub(crate) counts: Counts,
    state: watch::Sender<State>,
    /// Whether a server that forbids Functions gets scripts.
    scripts: AtomicBool,
    generations: AtomicU64,
    /// Answers that did not come in time since the last one that did.
    silences: AtomicU32,
    cluster: Mutex<Cluster>,
}

/// What was seen of a cluster last.
#[derive(Debug, Default)]
struct Cluster {
    /// Its primaries.
    nodes: Vec<(String, u16)>,
    /// Their incarnations.
    incarnations: Vec<String>,
    /// When either changed.
    moved: Option<Instant>,
}

/// How an error is met.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    /// The library is not there (any more).
    Load,
    /// The script is not there (any more).
    SendSource,
    /// Functions are forbidden.
    UseScripts,
    /// The connection is gone, or leads to the wrong server.
    Reconnect,
    /// The server will be able to do it in a moment.
    Wait,
    /// None.
    GiveUp,
}

fn remedy(error: &RedisError) -> Remedy {
    let said = error.to_string();
    match error.kind() {
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::NoScript => Remedy::SendSource,
            ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown => Remedy::Reconnect,
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask => Remedy::Wait,
            _ if said.contains("Function not found") => Remedy::Load,
            _ if connect::is_forbidden(error) && said.to_ascii_lowercase().contains("fcall") => {
                Remedy::UseScripts
            }
            _ => Remedy::GiveUp,
        },
        ErrorKind::Extension if error.code() == Some("UNBLOCKED") => Remedy::Reconnect,
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => Remedy::Reconnect,
        _ => Remedy::GiveUp,
    }
}

impl Link {
    /// A link that is up.
    pub(crate) fn new(topology: Topology, options: Options, connected: Connected, form: Form) -> Arc<Self> {
        let up = Up {
            connection: connected.connection,
            primary: connected.primary.into(),
            generation: 1,
            since: Instant::now(),
        };
        Arc::new(Self {
            topology,
            options,
            counts: Counts::default(),
            state: watch::Sender::new(State::Up(up)),
            scripts: AtomicBool::new(form == Form::Script),
            generations: AtomicU64::new(1),
            silences: AtomicU32::new(0),
            cluster: Mutex::default(),
        })
    }

    /// Sees every change of state.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// The connection, if there is one.
    pub(crate) fn up(&self) -> Option<Up> {
        match &*self.state.borrow() {
            State::Up(up) => Some(up.clone()),
            _ => None,
        }
    }

    fn form(&self) -> Form {
        if self.scripts.load(Relaxed) { Form::Script } else { Form::Function }
    }

    /// Runs one action.
    ///
    /// # Errors
    /// When there was no answer within the deadline, or at once where the breaker is open. Whether the action ran is then unknown.
    pub(crate) async fn run(self: &Arc<Self>, call: Call) -> Result<Reply, Unavailable> {
        let name = call.action.name();
        let value = self.within_deadline(name, async |sent| self.attempt(&call, sent).await).await?;
        Reply::new(value).map_err(|_| strange(name))
    }

    /// Sends one command that is no action.
    pub(crate) async fn send(self: &Arc<Self>, command: Cmd) -> Result<Value, Unavailable> {
        self.within_deadline("command", async |sent| {
            let mut up = self.connection().await?;
            sent.store(up.generation, Relaxed);
            up.connection.send(&command).await.map_err(|error| {
                if remedy(&error) == Remedy::Reconnect && !up.connection.is_cluster() {
                    self.lose(up.generation);
                }
                error.to_string()
            })
        })
        .await
    }

    /// Sees whether the connection still is one: who says nothing does not notice that it is gone.
    pub(crate) async fn probe(self: &Arc<Self>) {
        let _ = self.send(redis::cmd("PING")).await;
    }

    async fn within_deadline(
        self: &Arc<Self>,
        name: &str,
        attempt: impl AsyncFnOnce(&AtomicU64) -> Result<Value, String>,
    ) -> Result<Value, Unavailable> {
        let deadline = self.options.deadline;
        self.counts.commands.add(1);
        // The connection on which it was last sent.
        let sent = AtomicU64::new(0);
        let why = match timeout(deadline, attempt(&sent)).await {
            Ok(Ok(value)) => {
                if self.silences.load(Relaxed) != 0 {
                    self.silences.store(0, Relaxed);
                }
                return Ok(value);
            }
            Ok(Err(why)) => why,
            Err(_) => {
                let generation = sent.load(Relaxed);
                if generation != 0 {
                    self.silent(generation);
                }
                format!("no answer within {deadline:?}")
            }
        };
        self.counts.failures.add(1);
        Err(Unavailable(format!("{name}: {why}")))
    }

    async fn attempt(self: &Arc<Self>, call: &Call, sent: &AtomicU64) -> Result<Value, String> {
        let mut sourced = false;
        let mut loaded = false;
        loop {
            let mut up = self.connection().await?;
            sent.store(up.generation, Relaxed);
            let form = self.form();
            let error = match up.connection.send(&call.command(form, sourced && form == Form::Script)).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match remedy(&error) {
                Remedy::SendSource if !sourced => sourced = true,
                Remedy::Load if !loaded => {
                    loaded = true;
                    up.connection.send(&actions::load()).await.map_err(|error| error.to_string())?;
                }
                Remedy::UseScripts if self.options.scripting == Scripting::Auto && form == Form::Function => {
                    self.scripts.store(true, Relaxed);
                }
                Remedy::Reconnect if !up.connection.is_cluster() => {
                    self.lose(up.generation);
                    self.pause(Duration::from_millis(10)).await;
                }
                // A cluster's connections are made anew by themselves.
                Remedy::Wait | Remedy::Reconnect => self.pause(Duration::from_millis(20)).await,
                _ => return Err(error.to_string()),
            }
        }
    }

    /// The connection; waits for one unless the breaker is open.
    async fn connection(&self) -> Result<Up, String> {
        if let Some(up) = self.up() {
            return Ok(up);
        }
        let mut state = self.state.subscribe();
        let state = state.wait_for(|state| !matches!(state, State::Waiting)).await;
        match &*state.map_err(|_| "the store is closed".to_owned())? {
            State::Up(up) => Ok(up.clone()),
            State::Open(why) => Err(format!("not tried, the circuit breaker is open: {why}")),
            State::Waiting => Err("waiting".to_owned()),
        }
    }

    /// An answer did not come in time on that connection.
    fn silent(self: &Arc<Self>, generation: u64) {
        let limit = self.options.breaker_failures;
        if self.silences.fetch_add(1, Relaxed) + 1 < limit {
            return;
        }
        let why = format!("{limit} actions without an answer within {:?}", self.options.deadline);
        self.leave(generation, State::Open(why.into()));
    }

    /// That connection is of no use any more.
    fn lose(self: &Arc<Self>, generation: u64) {
        self.leave(generation, State::Waiting);
    }

    /// Goes from up to another state, unless somebody else did, and tries to get back.
    fn leave(self: &Arc<Self>, generation: u64, to: State) {
        let opened = matches!(to, State::Open(_));
        let left = self.state.send_if_modified(|state| match state {
            State::Up(up) if up.generation == generation => {
                *state = to;
                true
            }
            _ => false,
        });
        if left {
            if opened {
                self.counts.breaker_opens.add(1);
                tracing::warn!(server = %self.topology.shown(), "the store does not answer: actions fail at once until it does");
            }
            tokio::spawn(come_back(Arc::downgrade(self)));
        }
    }

    /// One try to get a connection that works.
    async fn connect(&self) -> Result<(), String> {
        let nodes = self.cluster.lock().nodes.clone();
        let attempt = async {
            let mut connected = connect::connect(&self.topology, &nodes, &self.options).await?;
            // A new primary, or one that lost its memory.
            connect::load(&mut connected.connection, self.options.scripting)
                .await
                .map(|form| (connected, form))
        };
        let silent = |_| format!("no connection within {:?}", self.options.connect_timeout);
        let (connected, form) = timeout(self.options.connect_timeout, attempt)
            .await
            .map_err(silent)?
            .map_err(|error| error.to_string())?;
        self.scripts.store(form == Form::Script, Relaxed);
        self.silences.store(0, Relaxed);
        let generation = self.generations.fetch_add(1, Relaxed) + 1;
        self.counts.reconnects.add(1);
        self.state.send_replace(State::Up(Up {
            connection: connected.connection,
            primary: connected.primary.into(),
            generation,
            since: Instant::now(),
        }));
        Ok(())
    }

    /// Where the server is, for people.
    pub(crate) fn shown(&self) -> String {
        self.topology.shown()
    }

    /// Waits for about `length`, a third more or less.
    pub(crate) async fn pause(&self, length: Duration) {
        sleep(jittered(length)).await;
    }

    /// Notes what a cluster is made of; returns whether that has changed.
    pub(crate) fn note_cluster(&self, nodes: Vec<(String, u16)>, incarnations: Vec<String>) -> bool {
        let mut cluster = self.cluster.lock();
        let changed =
            !cluster.nodes.is_empty() && (cluster.nodes != nodes || cluster.incarnations != incarnations);
        if changed {
            cluster.moved = Some(Instant::now());
        }
        (cluster.nodes, cluster.incarnations) = (nodes, incarnations);
        changed
    }

    /// Whether the server was lost a moment ago, so that writers may still be completing what it forgot.
    pub(crate) fn is_unsettled(&self) -> bool {
        let now = Instant::now();
        let recent = |since: Instant| now.duration_since(since) < self.options.settle;
        self.cluster.lock().moved.is_some_and(recent)
            || self.up().is_none_or(|up| up.generation > 1 && recent(up.since))
    }

    /// A node of the cluster, another one each time; the primary where there is no cluster.
    pub(crate) fn some_node(&self, up: &Up) -> ConnectionInfo {
        let nodes = &self.cluster.lock().nodes;
        let at = usize::try_from(random()).unwrap_or(0) % nodes.len().max(1);
        match (up.connection.is_cluster(), nodes.get(at)) {
            (true, Some((host, port))) => crate::endpoint::at(&up.primary, host, *port),
            _ => ConnectionInfo::clone(&up.primary),
        }
    }
}

/// Tries until there is a connection, or no store any more.
async fn come_back(link: Weak<Link>) {
    let mut pause = Duration::from_millis(50);
    let mut failures = 0_u32;
    loop {
        let Some(link) = link.upgrade() else { return };
        let Err(why) = link.connect().await else {
            tracing::info!(server = %link.topology.shown(), "the store is there again");
            return;
        };
        failures += 1;
        // The first failure may be a restart of a moment.
        if failures > 1 {
            let opened = matches!(&*link.state.borrow(), State::Waiting);
            link.state.send_replace(State::Open(why.as_str().into()));
            if opened {
                link.counts.breaker_opens.add(1);
                tracing::warn!(server = %link.topology.shown(), why, "the store cannot be reached: actions fail at once until it can");
            }
        }
        let longest = link.options.probe_pause;
        drop(link);
        sleep(jittered(pause.min(longest))).await;
        pause = pause.saturating_mul(2).min(longest);
    }
}

fn jittered(length: Duration) -> Duration {
    // From two thirds to four thirds of it.
    length.mul_f64(2.0 / 3.0)
        + length.mul_f64(2.0 / 3.0 * f64::from(u16::try_from(random() & 0x3fff).unwrap_or(0)) / 16_384.0)
}

/// A number that is good enough for jitter.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

pub(crate) fn strange(action: &str) -> Unavailable {
    Unavailable(format!("{action}: the server gave an answer that this version does not know"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> RedisError {
        let bytes = format!("-{line}\r\n");
        match redis::parse_redis_value(bytes.as_bytes()) {
            Ok(value) => value.extract_error().expect_err("an error"),
            Err(error) => error,
        }
    }

    #[test]
    fn every_error_has_its_remedy() {
        for (line, expected) in [
            ("NOSCRIPT No matching script. Please use EVAL.", Remedy::SendSource),
            ("ERR Function not found", Remedy::Load),
            ("READONLY You can't write against a read only replica.", Remedy::Reconnect),
            ("LOADING Redis is loading the dataset in memory", Remedy::Wait),
            ("CLUSTERDOWN The cluster is down", Remedy::Wait),
            ("NOPERM this user has no permissions to run the 'fcall' command", Remedy::UseScripts),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                Remedy::GiveUp,
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", Remedy::GiveUp),
        ] {
            assert_eq!(remedy(&said(line)), expected, "{line}");
        }
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(remedy(&broken), Remedy::Reconnect);
    }

    #[test]
    fn jitter_stays_near() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_millis(300));
            assert!((Duration::from_millis(199)..Duration::from_millis(401)).contains(&pause), "{pause:?}");
        }
    }
}
