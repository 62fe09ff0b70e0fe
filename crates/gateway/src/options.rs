//! What a gateway can be told.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::child::{BackoffPolicy, ChildSpec};

/// Who shares a server process with whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// Every session has a process of its own, initialised with what its client said.
    #[default]
    PerSession,
    /// One process serves all sessions; the gateway is its one client. Its requests are refused and its log messages dropped,
    /// because they could reach the wrong principal (SEMANTICS 6).
    Shared,
    /// So many processes, all alike, serve requests that belong to no session: the session mode `stateless`. Each request goes
    /// to the least busy one; one that has work and is silent is left out as long as another is there. A process that ends
    /// costs the calls it had, and is replaced while the others serve. Requests of the processes are refused.
    Pool(NonZeroUsize),
}

/// The bounds and habits of a gateway. Build it with [`GatewayOptions::new`] and change fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The server process.
    pub child: ChildSpec,
    /// Who shares it. Default: nobody.
    pub sharing: Sharing,
    /// How long a process may take from its start to its answer to `initialize`, and how long a call waits for a process that
    /// is being replaced. Default 60 s: a cold `npx` downloads its package first.
    pub init_timeout: Duration,
    /// How many processes there may be, counted until the last process of their group is gone. Default 1,000; the next
    /// `initialize` is refused (`data.reason` is `too_many_children`).
    pub max_children: usize,
    /// How many of them modern clients may have, which have no sessions: [`Sharing::PerSession`] only. Default 64; a call that needs
    /// one more waits for one, for [`GatewayOptions::init_timeout`] at most.
    pub max_modern_children: usize,
    /// How long such a process is kept that nobody uses. Default 5 min.
    pub modern_idle: Duration,
    /// How long a call of a modern client goes on that has left, so that the same request of the same principal can join it. Default
    /// `None`: it is cancelled at once, and the same request is its own call.
    pub join_reissued: Option<Duration>,
    /// When a process that ended is started again.
    pub restart: BackoffPolicy,
    /// How long a process may take to leave when its session ends, before SIGTERM. Default 2 s.
    pub end_grace: Duration,
    /// How many requests of one process (sampling, elicitation, roots) may wait for a client's answer. Default 256; the next
    /// one gets -32603.
    pub max_questions: usize,
    /// How many requests one process may work on. Default 4,096; the next one is refused (`data.reason` is `upstream_busy`).
    pub max_requests: usize,
    /// Ends a process that works on something, has written nothing for this long, and then for as long again does not even
    /// answer a `ping`. Default `None`: a server that does one thing at a time is silent while it works, and must not be
    /// ended for it.
    pub hang_timeout: Option<Duration>,
    /// Whether the list of tools of a process is read where no client has: for calls that may run twice to be run again when their backend
    /// dies ([`Takeover::Rerun`](bowline_server::Takeover)), it has to be known which may. Default `false`: what clients read is known.
    pub learn_tools: bool,
}

impl GatewayOptions {
    /// A gateway in front of `child`, with default bounds.
    #[must_use]
    pub fn new(child: ChildSpec) -> Self {
        Self {
            child,
            sharing: Sharing::default(),
            init_timeout: Duration::from_secs(60),
            max_children: 1_000,
            max_modern_children: 64,
            modern_idle: Duration::from_secs(300),
            join_reissued: None,
            restart: BackoffPolicy::default(),
            end_grace: Duration::from_secs(2),
            max_questions: 256,
            max_requests: 4_096,
            hang_timeout: None,
            learn_tools: false,
        }
    }
}
