//! What may keep a call from its client, without a promise being broken. Exactly this:
//!
//! - **Cut before an id.** The network reset a connection of this client, while the call was under way, whose answer had shown no
//!   event id: then there is nothing to resume from (SEMANTICS 5.5, 7.3). A TypeScript client drops what had come in the quarter of a second
//!   before a reset without looking at it, so an id as young as that counts as not shown.
//! - **Three resets**, in the Python SDK: it gives up then (`tests/README.md`).
//! - **A POST that was cut**, in the SDKs for Python and Rust: what writes for the session ends with it, so that every later call of
//!   the session fails without being sent. Such a call has not run, and the cut was since the session began.
//! - **Its client was killed.**
//! - **The process of the tool was killed** while the call was under way: then the error says `upstream_lost` and that the
//!   outcome is unknown (SEMANTICS 9).
//! - **What its client did itself:** it cancelled, deleted the session, or went away.

use super::story::{Record, Sent, Story};
use crate::journal::{client_of, session_of};

/// An id that was shown so shortly before a reset may not have reached the code of the client, in milliseconds.
const UNREAD_MS: u64 = 250;

/// Journals of different processes agree on the time to so many milliseconds; a little more, as the machine is busy.
pub(super) const SLACK_MS: u64 = 2_000;

/// Whether a client is on the Python SDK.
pub(super) fn is_python(name: &str) -> bool {
    name.starts_with("py-")
}

/// Whether a client is on an SDK.
pub(super) fn is_real(name: &str) -> bool {
    !name.starts_with("raw-")
}

/// Whether the network has kept the end of a call, between two moments, from its client.
pub(super) fn network(story: &Story, call: &str, from: u64, to: u64) -> bool {
    let from = from.saturating_sub(50);
    let cuts = || story.faults_between(call, from, to + 50).filter(|fault| fault.kind.cuts());
    let without_id = cuts().any(|cut| cut.id_ms.is_none_or(|age| age < UNREAD_MS));
    without_id || (is_python(call) && cuts().count() >= 3)
}

/// Whether a call was never sent because a cut has ended the client of its session.
pub(super) fn client_broken(story: &Story, call: &str, record: &Record, to: u64) -> bool {
    let opened = story.sessions.get(session_of(call)).and_then(|session| session.opened);
    let cut = |opened| {
        story.faults_between(call, opened, to).any(|fault| fault.kind.cuts() && fault.id_ms.is_none())
    };
    let ends = is_python(call) || call.starts_with("rmcp-");
    ends && record.starts.is_empty() && opened.is_some_and(cut)
}

/// Whether the client of a call was killed before the call can have ended for it.
pub(super) fn client_killed(story: &Story, call: &str, record: &Record, sent: &Sent) -> bool {
    let process = client_of(call).split('.').next().unwrap_or_default();
    let response = record.responses.first().map_or(u64::MAX, |response| response + SLACK_MS);
    let until = response.min(sent.t + sent.bound_ms + SLACK_MS);
    story.client_kills.iter().any(|(t, killed)| killed == process && (sent.t..=until).contains(t))
}

/// Whether the process that worked on a call, or would have, was killed between its start and a moment.
pub(super) fn child_killed(story: &Story, call: &str, record: &Record, to: u64) -> bool {
    let from = record.sent.as_ref().map_or(0, |sent| sent.t).saturating_sub(SLACK_MS);
    let kills = story.child_kills.iter().filter(|(t, _)| (from..=to).contains(t));
    if let Some((_, ran_in)) = record.starts.first() {
        return kills.into_iter().any(|(_, pid)| pid == ran_in);
    }
    // It never ran: the process of its session was killed, or one that had not worked yet.
    let own = story.sessions.get(session_of(call)).map(|session| session.pids.as_slice()).unwrap_or_default();
    let someones = |pid: &u32| story.sessions.values().any(|session| session.pids.contains(pid));
    kills.into_iter().any(|(_, pid)| own.contains(pid) || !someones(pid))
}
