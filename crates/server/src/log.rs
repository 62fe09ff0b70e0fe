//! The log of a server: one line for each request and each call, at `debug`; a call that ended badly, at `info`.
//!
//! Sessions, calls and streams appear as short hashes that tell them apart within one process and open nothing. Payloads, tokens and
//! ids never appear, nor does any other text of a client.

use crate::{CancelReason, call::CallState, core::Core, random, remote};
use bowline_proto::time::millis;
use bowline_proto::{cursor::StreamId, http::MCP_SESSION_ID, jsonrpc::Reply};
use http::{Response, request::Parts};
use std::{fmt, net::IpAddr};
use tokio::time::Instant;

/// An id in a log.
#[derive(Clone, Copy)]
pub(crate) struct Short(u32);

impl Short {
    pub(crate) fn of(id: impl AsRef<[u8]>) -> Self {
        Self(random::short_hash(id.as_ref()))
    }

    pub(crate) fn stream(stream: StreamId) -> Self {
        Self::of(stream.as_bytes())
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Something that may not be there.
struct Maybe<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// What the line of a request needs from before its answer. Costs nothing where that line is not wanted.
pub(crate) struct Asked(Option<(Instant, Option<IpAddr>)>);

impl Asked {
    pub(crate) fn now(core: &Core, head: &Parts, connected: Option<IpAddr>) -> Self {
        let wanted = tracing::enabled!(tracing::Level::DEBUG);
        Self(wanted.then(|| (Instant::now(), remote::address(head, connected, core.trust_proxy))))
    }

    /// Writes the line of a request whose answer begins.
    pub(crate) fn answered<B>(self, head: &Parts, response: &Response<B>) {
        let Some((at, remote)) = self.0 else { return };
        let session = head.headers.get(&MCP_SESSION_ID).or_else(|| response.headers().get(&MCP_SESSION_ID));
        let session = Maybe(session.map(Short::of));
        let method = match head.method.as_str() {
            known @ ("GET" | "POST" | "DELETE" | "OPTIONS" | "HEAD") => known,
            _ => "other",
        };
        let status = response.status().as_u16();
        let ms = millis(Instant::now().duration_since(at));
        tracing::debug!(method, status, %session, remote = %Maybe(remote), ms, "a request was answered");
    }
}

/// Writes the line of a call that ended by itself.
pub(crate) fn ended(call: &CallState, reply: &Reply) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let outcome = match reply {
            Reply::Result(_) => "result",
            Reply::Error(_) => "error",
        };
        let stream = Maybe(call.outlet().map(|outlet| Short::stream(outlet.stream)));
        let (session, id, method) = (&call.session, id(call), known(call.request_method()));
        let ms = call.core.now().0.saturating_sub(call.started.0);
        tracing::debug!(%session, call = %id, %stream, method, outcome, ms, "a call ended");
    }
}

/// Writes the line of a call that was cancelled. Only what an operator may want to look into is said without being asked for.
pub(crate) fn cancelled(call: &CallState, reason: CancelReason) {
    let stream = Maybe(call.outlet().map(|outlet| Short::stream(outlet.stream)));
    let (session, id, method) = (&call.session, id(call), known(call.request_method()));
    let ms = call.core.now().0.saturating_sub(call.started.0);
    match reason {
        CancelReason::Abandoned
        | CancelReason::TimedOut
        | CancelReason::Draining
        | CancelReason::OwnerLost
        | CancelReason::StoreAway => {
            tracing::info!(%session, call = %id, %stream, method, ?reason, ms, "a call was cancelled");
        }
        CancelReason::Client | CancelReason::SessionEnded | CancelReason::Disconnected => {
            tracing::debug!(%session, call = %id, %stream, method, ?reason, ms, "a call was cancelled");
        }
    }
}

fn id(call: &CallState) -> Short {
    Short::of(call.id().to_json().as_bytes())
}

/// A method that the specification names. Any other is a client's own text.
fn known(method: &str) -> &'static str {
    const METHODS: [&str; 18] = [
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
    ];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart_and_not_shown() {
        let (one, two) = (Short::of("secret-session"), Short::of("another"));
        assert_eq!(one.to_string(), Short::of("secret-session").to_string());
        assert_ne!(one.to_string(), two.to_string());
        assert!(one.to_string().len() == 8 && !one.to_string().contains("secret"));
        assert_eq!((known("tools/call"), known("hunter2")), ("tools/call", "other"));
        assert_eq!(Maybe(None::<Short>).to_string(), "-");
    }
}
