//! Who is calling, and whether that client may send one more request.

use crate::{
    clients::{ClientKey, Limited, Running, SessionPlace},
    core::Core,
    remote,
};
use bowline_proto::{http::Refusal, jsonrpc::RequestId};
use http::request::Parts;
use std::net::IpAddr;

/// What is known of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// `None` where no authentication is configured.
    pub(crate) principal: Option<String>,
    /// Where it calls from; `None` where that is not known.
    address: Option<IpAddr>,
}

impl Caller {
    /// Takes one of the places for sessions that its client has; `None` where there is no bound.
    pub(crate) fn session_place(&self, core: &Core) -> Result<Option<SessionPlace>, Limited> {
        let Some(key) = self.client(core) else { return Ok(None) };
        let local = self.principal.is_none() && self.address.is_some_and(|address| address.is_loopback());
        let limit = match core.options.max_sessions_per_client {
            Some(limit) => limit,
            None if local => return Ok(None),
            None => (core.options.max_sessions / 10).max(1),
        };
        core.clients.session(key, limit).map(Some)
    }

    /// What limits go by; `None` where neither principal nor address is known.
    fn client(&self, core: &Core) -> Option<ClientKey> {
        core.clients.key(self.principal.as_deref(), self.address)
    }
}

/// Checks 3: `who` says who calls. A client that asks too much is told to wait, whoever it is; so is an address that guesses
/// tokens.
///
/// # Errors
/// What `who` failed with, or 429.
pub(crate) fn admit(
    core: &Core,
    head: &Parts,
    connected: Option<IpAddr>,
    who: Result<Option<String>, Refusal>,
) -> Result<(Caller, Option<Running>), Refusal> {
    let address = remote::address(head, connected, core.trust_proxy);
    let principal = match who {
        Ok(principal) => principal,
        Err(refusal) => {
            core.metrics.unauthorized.up();
            if let Some(key) = core.clients.key(None, address) {
                core.clients.charge(key).map_err(|limited| refuse(core, limited, None))?;
            }
            return Err(refusal);
        }
    };
    let caller = Caller { principal, address };
    let mut running = None;
    if core.clients.limits_requests()
        && let Some(key) = caller.client(core)
    {
        let (place, merged) = core.clients.request(key).map_err(|limited| refuse(core, limited, None))?;
        if merged {
            core.metrics.clients_merged.up();
        }
        running = Some(place);
    }
    Ok((caller, running))
}

/// 429, counted.
pub(crate) fn refuse(core: &Core, limited: Limited, id: Option<RequestId>) -> Refusal {
    let metrics = &core.metrics;
    let (metric, reason, retry_after) = match limited {
        Limited::Rate(seconds) => (&metrics.rate_limited, "rate_limit", seconds),
        Limited::Concurrent => (&metrics.client_requests_refused, "too_many_requests", 1),
        Limited::Sessions => (&metrics.client_sessions_refused, "too_many_sessions_of_client", 30),
    };
    metric.up();
    Refusal::too_many(reason, retry_after, id)
}
