//! A whole run.

use crate::{
    client, entropy, faults,
    fleet::{self, Fleet},
    network::Network,
    plan::Plan,
    store::Cluster,
    trace::{self, Entry, Position, Trace, What},
};
use bowline_proto::cursor::{CursorCodec, Keyring, Scope};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// After so long nobody waits any more, whatever is missing.
const AT_MOST: Duration = Duration::from_secs(400);

/// What clients share.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) trace: Arc<Trace>,
    pub(crate) network: Arc<Network>,
    cluster: Arc<Cluster>,
    calls: AtomicU64,
    sessions: AtomicU64,
    /// The newest cursor of each client, with the session it belongs to: for those who try what is not theirs.
    pub(crate) seen: Mutex<Vec<Option<(String, String)>>>,
}

impl World {
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn next_session(&self) -> usize {
        self.sessions.fetch_add(1, Ordering::Relaxed) as usize + 1
    }

    /// What an event id of this session and client says; `None` where it does not verify.
    pub(crate) fn decode(&self, session: &str, client: usize, id: &str) -> Option<Position> {
        let ring = if self.plan.shared_keys {
            Keyring::from_bytes(&self.cluster.keys()).ok()?
        } else {
            fleet::keyring()
        };
        let principal = fleet::principal(self.plan.mutation, client);
        let scope = Scope { session: Some(session), principal: Some(&principal) };
        let cursor = CursorCodec::new(&ring, scope).decode(id).ok()?;
        Some(Position {
            stream: cursor.stream,
            epoch: cursor.epoch,
            offset: cursor.offset,
            poll: cursor.poll,
        })
    }
}

/// What came of a run.
pub struct Outcome {
    /// What the run was made of.
    pub plan: Plan,
    /// Everything that happened, in order.
    pub entries: Vec<Entry>,
    /// How long it took, in virtual milliseconds.
    pub took: u64,
}

impl Outcome {
    /// The hash of the plan and the trace: equal where two runs were the same.
    #[must_use]
    pub fn hash(&self) -> String {
        trace::hash(&format!("{:?}\n{}", self.plan, trace::text(&self.entries)))
    }
}

/// Runs a plan. For the run to follow from its seed alone, this is to be called once in a process.
#[must_use]
pub fn run(plan: Plan) -> Outcome {
    let work = move || {
        entropy::seed_this_thread(plan.seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without IO needs nothing of the system");
        let outcome = runtime.block_on(play(plan));
        // What still waits is dropped while the thread has all that it needs for that.
        drop(runtime);
        outcome
    };
    // A thread of its own: its hash maps have drawn nothing yet.
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(work);
    match thread.expect("the system has room for a thread").join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

async fn play(plan: Plan) -> Outcome {
    let trace = Arc::new(Trace::new());
    let cluster = Cluster::new(&plan, &trace);
    let fleet = Fleet::new(&plan, &trace, &cluster);
    let network = Network::new(&plan, &fleet);
    let world = Arc::new(World {
        seen: Mutex::new(vec![None; plan.clients.len()]),
        plan: plan.clone(),
        trace: trace.clone(),
        network,
        cluster: cluster.clone(),
        calls: AtomicU64::new(0),
        sessions: AtomicU64::new(0),
    });
    let faults = faults::start(&plan, &trace, &fleet, &cluster);
    let clients: Vec<_> =
        (0..plan.clients.len()).map(|client| tokio::spawn(client::live(world.clone(), client))).collect();
    let over = async {
        for task in faults.into_iter().chain(clients) {
            // A part of the simulation that panics is a fault of the simulation.
            task.await.expect("clients and faults do not panic");
        }
        // What was left behind comes to its end: cancelled handlers, streams of calls that nobody waits for.
        tokio::time::sleep(Duration::from_secs(30)).await;
    };
    let _ = tokio::time::timeout(AT_MOST, over).await;
    let took = trace.now();
    trace.note(What::End);
    let entries = trace.take();
    Outcome { plan, entries, took }
}
