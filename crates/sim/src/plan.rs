//! What a run is made of. All of it follows from the seed.

use crate::{chance::Chance, trace::FaultKind};
use std::time::Duration;

/// A fault that is put into a store or a proxy, so that the checker has something to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// None: what is found is a fault of the product.
    #[default]
    None,
    /// The store forgets an append that it has acknowledged.
    ForgetAppend,
    /// The store lets a backend that was fenced off write all the same.
    NoFence,
    /// The store acknowledges and shows what it has not got for good yet.
    EarlyAck,
    /// The store gives a call of a dead backend to everybody who asks for it.
    AnyOwner,
    /// A read returns its first event once more.
    Repeat,
    /// The proxy sends some POSTs to two backends.
    Resend,
    /// Nobody hears that a backend is gone.
    NoReaper,
    /// The backends take all clients for one principal.
    Confused,
}

impl Mutation {
    /// All of them, but for the first.
    pub const ALL: [Self; 8] = [
        Self::ForgetAppend,
        Self::NoFence,
        Self::EarlyAck,
        Self::AnyOwner,
        Self::Repeat,
        Self::Resend,
        Self::NoReaper,
        Self::Confused,
    ];

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mutation| format!("{mutation:?}") == name)
    }
}

/// How rough a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing breaks: every call has its result.
    Calm,
    /// Connections are cut, and nothing else.
    Cuts,
    /// Backends are replaced one after another, with time enough to drain: no client sees an error.
    Rolling,
    /// Everything.
    Rough,
}

/// What a client is like: the habits of the SDKs, as they were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Resumes for ever.
    Ideal,
    /// Two failed polls are the end; a connection without an id makes it forget its cursor.
    TypeScript,
    /// Two failed polls are the end, and so are 960 polls of one call.
    Python,
    /// Tries for ever, after 1, 2, 4 and 8 s.
    Rmcp,
    /// Five polls without a new id are the end, and so are five that fail.
    Go,
    /// Of 2025-06-18: it is not primed, and comes back only after a failure.
    Old,
}

impl Model {
    /// The revision that it negotiates.
    #[must_use]
    pub const fn revision(self) -> &'static str {
        match self {
            Self::Old => "2025-06-18",
            _ => "2025-11-25",
        }
    }

    /// How many failed polls in a row it survives.
    pub(crate) const fn failures(self) -> Option<u32> {
        match self {
            Self::TypeScript | Self::Python => Some(2),
            Self::Go => Some(5),
            Self::Ideal | Self::Rmcp | Self::Old => None,
        }
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// How long after the one before, in milliseconds.
    pub gap: u64,
    /// How many steps its tool takes, and how long each.
    pub steps: u64,
    /// Milliseconds of a step.
    pub every: u64,
    /// Milliseconds after the last step.
    pub after: u64,
    /// The step at which the tool asks.
    pub asks: Option<u64>,
    /// The step at which it wishes that the connection be closed.
    pub closes: Option<u64>,
    /// Whether it says something on the standalone stream with each step.
    pub shouts: bool,
    /// When its client cancels it, in milliseconds.
    pub cancelled: Option<u64>,
    /// Whether its tool may run again where its backend died.
    pub repeatable: bool,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// What it is like.
    pub model: Model,
    /// When it comes.
    pub begins: u64,
    /// Whether it reads its standalone stream.
    pub listens: bool,
    /// Whether it goes on after its last call is over, and ends its session then; or while its calls run, so long after it came.
    pub deletes: Option<u64>,
    /// Whether it tries what is not its own.
    pub trespasses: bool,
    /// What it calls.
    pub calls: Vec<CallPlan>,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// When it begins.
    pub at: u64,
    /// When it is over.
    pub until: u64,
    /// What it is.
    pub kind: FaultKind,
    /// Whose it is; of the whole store there is nobody's.
    pub backend: usize,
    /// Whether what is asked meanwhile is refused, or stays without an answer.
    pub silent: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What everything follows from.
    pub seed: u64,
    /// What is broken on purpose.
    pub mutation: Mutation,
    /// How rough it is.
    pub style: Style,
    /// How many backends there are.
    pub backends: usize,
    /// How long a connection is held.
    pub max_connection: Duration,
    /// How long a silent call may be answered as JSON.
    pub json_hold: Duration,
    /// How long a backend that leaves waits for its calls.
    pub drain: Duration,
    /// Whether the backends get their key from the store.
    pub shared_keys: bool,
    /// How many connections in a hundred are cut somewhere.
    pub cuts: u64,
    /// After how long without a byte the proxy closes a connection.
    pub idle_limit: Option<Duration>,
    /// Milliseconds that bytes are on their way.
    pub latency: (u64, u64),
    /// Milliseconds that the store takes, each way.
    pub store_latency: (u64, u64),
    /// How many questions in a hundred take the store up to half a second.
    pub store_slow: u64,
    /// Milliseconds that the replica is behind.
    pub lag: u64,
    /// How many wake-ups in a hundred are lost, doubled, late.
    pub wakes: (u64, u64, u64),
    /// How far the wall clocks are apart, in milliseconds either way.
    pub skew: u64,
    /// How often a call is run again at most; 0 where calls of dead backends end with an error.
    pub reruns: u32,
    /// When the store drops the sessions' own logs, in milliseconds.
    pub evictions: Vec<u64>,
    /// What breaks.
    pub faults: Vec<FaultPlan>,
    /// Who comes.
    pub clients: Vec<ClientPlan>,
}

impl Plan {
    /// The run of a seed.
    #[must_use]
    pub fn of(seed: u64, mutation: Mutation) -> Self {
        let mut chance = Chance::of(seed, "plan");
        let style = match chance.below(10) {
            0 => Style::Calm,
            1 | 2 => Style::Cuts,
            3 => Style::Rolling,
            _ => Style::Rough,
        };
        let backends = chance.between(2, 4) as usize;
        let wakes = match chance.below(4) {
            0 => (100, 0, 0),
            1 => (0, 0, 0),
            _ => (chance.below(60), chance.below(60), chance.below(60)),
        };
        let broken = matches!(style, Style::Cuts | Style::Rough);
        let mut plan = Self {
            seed,
            mutation,
            style,
            backends,
            max_connection: Duration::from_millis(chance.one_of(&[1_500, 4_000, 10_000, 25_000])),
            json_hold: Duration::from_millis(chance.one_of(&[50, 250, 1_000])),
            drain: Duration::from_secs(if style == Style::Rolling { 60 } else { chance.between(2, 20) }),
            shared_keys: chance.percent(30),
            cuts: if broken { chance.one_of(&[0, 5, 15, 30]) } else { 0 },
            idle_limit: chance.one_of(&[None, Some(Duration::from_secs(20)), Some(Duration::from_secs(60))]),
            latency: chance.one_of(&[(0, 0), (1, 5), (5, 80)]),
            store_latency: chance.one_of(&[(0, 0), (0, 3), (1, 30)]),
            store_slow: chance.one_of(&[0, 0, 3, 10]),
            lag: chance.one_of(&[0, 20, 400]),
            wakes,
            skew: chance.one_of(&[0, 3_600_000]),
            reruns: 0,
            evictions: Vec::new(),
            faults: Vec::new(),
            clients: Vec::new(),
        };
        plan.faults = match style {
            Style::Calm | Style::Cuts => Vec::new(),
            Style::Rolling => rolling(&mut chance, backends),
            Style::Rough => rough(&mut chance, backends, &ANYTHING, (1, 6)),
        };
        let clients = chance.between(2, 5);
        plan.clients = (0..clients).map(|_| client(&mut chance)).collect();
        plan.take_over(&mut Chance::of(seed, "take-over"));
        plan.evictions = evictions(&mut Chance::of(seed, "evictions"), broken);
        plan
    }

    /// Half of the fleets run calls again, and half of the calls may be. Where anything breaks there, backends die while long calls run.
    fn take_over(&mut self, chance: &mut Chance) {
        self.reruns = chance.one_of(&[0, 0, 1, 2]);
        for call in self.clients.iter_mut().flat_map(|client| &mut client.calls) {
            call.repeatable = chance.percent(50);
        }
        if self.reruns == 0 || self.style != Style::Rough {
            return;
        }
        self.faults = rough(chance, self.backends, &DEATHS, (3, 9));
        for client in &mut self.clients {
            client.deletes = client.deletes.filter(|_| chance.percent(30));
            for _ in 0..chance.between(1, 3) {
                let steps = chance.between(5, 30);
                client.calls.push(CallPlan {
                    steps,
                    every: chance.between(8_000, 40_000) / steps,
                    cancelled: chance.percent(8).then(|| chance.between(5_000, 30_000)),
                    repeatable: chance.percent(75),
                    ..call(chance)
                });
            }
        }
    }

    /// Whether a rolling restart is all that happens, and has to be invisible.
    #[must_use]
    pub fn is_seamless(&self) -> bool {
        matches!(self.style, Style::Calm | Style::Rolling)
    }
}

fn rolling(chance: &mut Chance, backends: usize) -> Vec<FaultPlan> {
    let mut at = chance.between(12_000, 20_000);
    let mut faults = Vec::new();
    for backend in 0..backends {
        // It is replaced when its calls are over, however soon `until` comes.
        let until = at + 100;
        faults.push(FaultPlan { at, until, kind: FaultKind::Drain, backend, silent: false });
        at += chance.between(3_000, 6_000);
    }
    faults
}

/// What may break.
const ANYTHING: [FaultKind; 9] = [
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Pause,
    FaultKind::Pause,
    FaultKind::Drain,
    FaultKind::Partition,
    FaultKind::Unreachable,
    FaultKind::Outage,
    FaultKind::Failover,
];

/// The same where backends that die are what it is about.
const DEATHS: [FaultKind; 10] = [
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Pause,
    FaultKind::Pause,
    FaultKind::Partition,
    FaultKind::Drain,
    FaultKind::Outage,
    FaultKind::Failover,
];

/// So many faults of these kinds at most.
fn rough(
    chance: &mut Chance,
    backends: usize,
    kinds: &[FaultKind],
    (fewest, most): (u64, u64),
) -> Vec<FaultPlan> {
    let mut faults = Vec::new();
    let mut free = vec![5_000; backends];
    let mut store_free = 5_000;
    for _ in 0..chance.between(fewest, most) {
        let kind = chance.one_of(kinds);
        let backend = chance.below(backends as u64) as usize;
        let of_store = matches!(kind, FaultKind::Outage | FaultKind::Failover);
        let begin = if of_store { &mut store_free } else { &mut free[backend] };
        let at = *begin + chance.below(20_000);
        if at > 45_000 {
            continue;
        }
        let length = match kind {
            FaultKind::Failover => chance.between(100, 3_000),
            FaultKind::Drain => chance.between(100, 3_000),
            _ => chance.one_of(&[500, 3_000, 12_000, 25_000]) + chance.below(1_000),
        };
        *begin = at + length + 25_000 * u64::from(kind == FaultKind::Drain);
        faults.push(FaultPlan { at, until: at + length, kind, backend, silent: chance.percent(50) });
    }
    faults
}

fn evictions(chance: &mut Chance, broken: bool) -> Vec<u64> {
    if !broken || chance.percent(60) {
        return Vec::new();
    }
    (0..chance.between(1, 5)).map(|_| chance.between(3_000, 50_000)).collect()
}

fn client(chance: &mut Chance) -> ClientPlan {
    let models = [Model::Ideal, Model::TypeScript, Model::Python, Model::Rmcp, Model::Go, Model::Old];
    let model = chance.one_of(&models);
    let calls = (0..chance.between(1, 6)).map(|_| call(chance)).collect();
    ClientPlan {
        model,
        begins: chance.between(0, 15_000),
        listens: chance.percent(50),
        deletes: match chance.below(4) {
            0 => Some(chance.between(5_000, 30_000)),
            1 => Some(u64::MAX),
            _ => None,
        },
        trespasses: chance.percent(30),
        calls,
    }
}

fn call(chance: &mut Chance) -> CallPlan {
    let steps = chance.one_of(&[0, 1, 3, 10, 30]);
    let long: u64 = chance.one_of(&[0, 200, 5_000, 20_000, 35_000]);
    let every = long.checked_div(steps).map_or(0, |most| chance.below(most + 1));
    CallPlan {
        gap: chance.one_of(&[0, 100, 5_000]),
        steps,
        every,
        after: chance.one_of(&[0, 0, long / 2]),
        asks: (steps > 0 && chance.percent(25)).then(|| chance.between(1, steps)),
        closes: (steps > 0 && chance.percent(25)).then(|| chance.between(1, steps)),
        shouts: chance.percent(30),
        cancelled: chance.percent(12).then(|| chance.between(0, 10_000)),
        repeatable: false,
    }
}
