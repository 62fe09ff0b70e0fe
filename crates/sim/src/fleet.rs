//! The backends: each is an endpoint in a process of its own, which can be started, killed, slept, drained and replaced.

use crate::{
    handler::Tool,
    host::Process,
    plan::{Mutation, Plan},
    store::{Cluster, Link, Way},
    trace::{Trace, What},
};
use bowline_proto::cursor::Keyring;
use bowline_server::{
    Endpoint, Options, StaticTokens, Takeover,
    simulation::{Admission, hosted},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{io::DuplexStream, sync::watch};

/// What a socket holds.
pub(crate) const SOCKET: usize = 16 * 1024;

/// How the proxy finds a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It connects.
    Open,
    /// Connections are refused, and those that are open break.
    Refused,
    /// Nothing arrives until it is over.
    Silent,
}

struct Slot {
    process: Arc<Process>,
    endpoint: Endpoint,
    link: Arc<Link>,
    ready: bool,
    /// Whether it accepts connections.
    listens: Arc<AtomicBool>,
}

pub(crate) struct Fleet {
    plan: Plan,
    trace: Arc<Trace>,
    cluster: Arc<Cluster>,
    slots: Mutex<Vec<Slot>>,
    reaches: Vec<watch::Sender<Reach>>,
    /// The way that every new link has; others change with it.
    store_way: Mutex<Way>,
    partitioned: Mutex<Vec<Option<Way>>>,
}

/// The name under which the backends know a client.
pub(crate) fn principal(mutation: Mutation, client: usize) -> String {
    if mutation == Mutation::Confused { "anybody".to_owned() } else { format!("client-{client}") }
}

/// The token of a client.
pub(crate) fn token(client: usize) -> String {
    format!("token-of-client-{client}")
}

/// The key that backends are given where they do not share one in the store.
pub(crate) fn keyring() -> Keyring {
    Keyring::from_bytes(&[[7_u8; 32]]).expect("32 bytes are a key")
}

impl Fleet {
    pub(crate) fn new(plan: &Plan, trace: &Arc<Trace>, cluster: &Arc<Cluster>) -> Arc<Self> {
        let fleet = Arc::new(Self {
            plan: plan.clone(),
            trace: trace.clone(),
            cluster: cluster.clone(),
            slots: Mutex::default(),
            reaches: (0..plan.backends).map(|_| watch::Sender::new(Reach::Open)).collect(),
            store_way: Mutex::new(Way::Open),
            partitioned: Mutex::new(vec![None; plan.backends]),
        });
        for backend in 0..plan.backends {
            let slot = fleet.make(backend, 1);
            fleet.slots.lock().push(slot);
        }
        fleet
    }

    pub(crate) const fn backends(&self) -> usize {
        self.plan.backends
    }

    fn make(&self, backend: usize, incarnation: u32) -> Slot {
        let mut chance = crate::chance::Chance::of(self.plan.seed, &format!("clock {backend} {incarnation}"));
        let skew = chance.between(0, self.plan.skew * 2) as i64 - self.plan.skew as i64;
        let process = Arc::new(Process::new(backend, incarnation, skew, self.trace.origin()));
        let link = Link::new(&self.cluster, &process);
        let open = *self.store_way.lock();
        link.set(self.partitioned.lock()[backend].unwrap_or(open));
        self.trace.note(What::Started { backend, incarnation });
        let tool = Tool { trace: self.trace.clone(), process: process.clone() };
        let tokens: Vec<String> = (0..self.plan.clients.len())
            .map(|client| format!("{}={}", principal(self.plan.mutation, client), token(client)))
            .collect();
        let tokens =
            StaticTokens::parse(&tokens.join("\n")).expect("the tokens of the simulation are well formed");
        let mut options = Options::default();
        options.json_hold = self.plan.json_hold;
        options.json_hold_progress = self.plan.json_hold.min(Duration::from_millis(250));
        options.max_connection = Some(self.plan.max_connection);
        options.ask_timeout = Duration::from_secs(20);
        if self.plan.reruns > 0 {
            options.takeover = Takeover::Rerun;
            options.max_reruns = self.plan.reruns;
        }
        let mut builder = Endpoint::builder(Arc::new(tool))
            .shared_store(link.clone())
            .loopback(false)
            .authenticator(Arc::new(tokens))
            .options(options);
        if !self.plan.shared_keys {
            builder = builder.keyring(keyring());
        }
        // Built as a part of its process, so that its first tasks belong to it.
        let endpoint = enter(&process, || builder.build());
        tokio::spawn(hosted(process.clone(), link.clone().look_after()));
        Slot { process, endpoint, link, ready: true, listens: Arc::new(AtomicBool::new(true)) }
    }

    /// Which backends a proxy sends new requests to.
    pub(crate) fn ready(&self) -> Vec<usize> {
        let slots = self.slots.lock();
        let ready: Vec<usize> = (0..slots.len()).filter(|at| slots[*at].ready).collect();
        if ready.is_empty() { (0..slots.len()).collect() } else { ready }
    }

    pub(crate) fn reach(&self, backend: usize) -> watch::Receiver<Reach> {
        self.reaches[backend].subscribe()
    }

    pub(crate) fn set_reach(&self, backend: usize, reach: Reach) {
        self.reaches[backend].send_replace(reach);
    }

    /// Connects to a backend; `None` where nobody listens. The process comes with it, to see whether it died.
    pub(crate) fn connect(&self, backend: usize) -> Option<(DuplexStream, Arc<Process>)> {
        let (process, endpoint) = {
            let slots = self.slots.lock();
            if !slots[backend].listens.load(Ordering::Relaxed) {
                return None;
            }
            (slots[backend].process.clone(), slots[backend].endpoint.clone())
        };
        if process.admission() == Admission::Dead {
            return None;
        }
        let (ours, theirs) = tokio::io::duplex(SOCKET);
        let serve = async move {
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let endpoint = endpoint.clone();
                async move { Ok::<_, Infallible>(endpoint.handle(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .auto_date_header(false)
                .serve_connection(TokioIo::new(theirs), service);
            let _ = connection.await;
        };
        tokio::spawn(hosted(process.clone(), serve));
        Some((ours, process))
    }

    pub(crate) fn kill(&self, backend: usize) {
        let process = self.slots.lock()[backend].process.clone();
        process.set(Admission::Dead);
    }

    pub(crate) fn start(&self, backend: usize) {
        let next = {
            let slots = self.slots.lock();
            let process = &slots[backend].process;
            if process.admission() != Admission::Dead {
                return;
            }
            process.incarnation + 1
        };
        let slot = self.make(backend, next);
        self.slots.lock()[backend] = slot;
    }

    pub(crate) fn sleep(&self, backend: usize, asleep: bool) {
        let process = self.slots.lock()[backend].process.clone();
        process.set(if asleep { Admission::Sleeps } else { Admission::Runs });
    }

    /// SIGTERM. Returns when the process has ended.
    pub(crate) async fn drain(&self, backend: usize) {
        let (process, endpoint, listens) = {
            let mut slots = self.slots.lock();
            let slot = &mut slots[backend];
            slot.ready = false;
            (slot.process.clone(), slot.endpoint.clone(), slot.listens.clone())
        };
        let timeout = self.plan.drain;
        let (ended, end) = tokio::sync::oneshot::channel();
        tokio::spawn(hosted(process.clone(), async move {
            endpoint.drain(timeout).await;
            // Its listener is closed by now; what it has accepted has the time below.
            listens.store(false, Ordering::Relaxed);
            endpoint.close().await;
            // As a listener does for the last bytes of its connections.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let _ = ended.send(());
        }));
        // Where it is killed meanwhile, that is the end too.
        let _ = tokio::time::timeout(timeout + Duration::from_secs(60), end).await;
        process.set(Admission::Dead);
    }

    /// The way of one backend to the store.
    pub(crate) fn partition(&self, backend: usize, way: Option<Way>) {
        self.partitioned.lock()[backend] = way;
        let open = *self.store_way.lock();
        let link = self.slots.lock()[backend].link.clone();
        link.set(way.unwrap_or(open));
    }

    /// The way of all of them.
    pub(crate) fn store_way(&self, way: Way) {
        *self.store_way.lock() = way;
        let partitioned = self.partitioned.lock().clone();
        let links: Vec<_> = self.slots.lock().iter().map(|slot| slot.link.clone()).collect();
        for (link, partitioned) in links.iter().zip(partitioned) {
            link.set(partitioned.unwrap_or(way));
        }
    }
}

/// Runs `work` as a part of `process`. It must not wait.
fn enter<T>(process: &Arc<Process>, work: impl FnOnce() -> T) -> T {
    let mut task = std::pin::pin!(hosted(process.clone(), async { work() }));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match task.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => {
            unreachable!("a process that runs polls its tasks, and this one does not wait")
        }
    }
}
