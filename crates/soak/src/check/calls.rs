//! What is promised of each call.

use super::{
    excuses::{self, SLACK_MS},
    story::{Record, Sent, Story},
};
use crate::{
    journal::{How, Intent, session_of},
    options::Tempo,
};

/// How long after a cancel or a DELETE was taken a call may still come to its end, in milliseconds: it was running on.
const STOPPED_WITHIN: u64 = 5_000;

/// Looks at every call; `say` takes what is wrong.
pub(super) fn check(story: &Story, tempo: &Tempo, say: &mut impl FnMut(String)) {
    for (call, record) in &story.calls {
        let Some(sent) = &record.sent else {
            say(format!("{call}: nobody has sent it, but there is {record:?}"));
            continue;
        };
        runs(call, record, say);
        ends(story, call, record, sent, tempo.session_ttl, say);
        progress(story, call, record, sent, say);
        stops(story, call, record, say);
        is_not_dropped(story, call, record, sent, tempo.abandon_after, say);
    }
}

/// At most once (SEMANTICS 6).
fn runs(call: &str, record: &Record, say: &mut impl FnMut(String)) {
    if record.starts.len() > 1 {
        say(format!("{call}: it ran {} times: {:?}", record.starts.len(), record.starts));
    }
    if record.finishes.len() > record.starts.len().min(1) {
        say(format!("{call}: it has {} ends and {} starts", record.finishes.len(), record.starts.len()));
    }
    if record.responses.len() > 1 {
        say(format!("{call}: {} responses came: {:?}", record.responses.len(), record.responses));
    }
}

/// A call always ends for its caller, and with what is right.
fn ends(
    story: &Story,
    call: &str,
    record: &Record,
    sent: &Sent,
    session_ttl: u64,
    say: &mut impl FnMut(String),
) {
    let (at, how) = match record.ends.as_slice() {
        [end] => end,
        [] if excuses::client_killed(story, call, record, sent) => return,
        [] => return say(format!("{call}: it never ended for its client: {sent:?}")),
        several => {
            return say(format!("{call}: it ended {} times for its client: {several:?}", several.len()));
        }
    };
    if *at > sent.t + sent.bound_ms + SLACK_MS {
        say(format!("{call}: it took {} ms, its bound was {} ms", at - sent.t, sent.bound_ms));
    }
    let wrong = match how {
        How::Result { of, good, asked } => result(story, call, record, sent, *at, (of, *good, asked)),
        How::Error { reason, outcome, .. } => {
            let lost = reason.as_deref() == Some("upstream_lost") && outcome.as_deref() == Some("unknown");
            let killed = excuses::child_killed(story, call, record, at + SLACK_MS);
            (!(lost && killed)).then_some("it ended with an error that nothing explains")
        }
        How::Refused { .. } => (!record.starts.is_empty()).then_some("it was refused, and ran"),
        // Nothing but a broken connection may look like one to a client. A client that follows the protocol never waits in
        // vain where it has an id; the SDKs give up without a word.
        How::Lost { .. } => {
            let excused = excuses::network(story, call, sent.t, *at)
                || excuses::client_broken(story, call, record, *at);
            (!excused).then_some("it was lost, and no cut explains it")
        }
        How::Timeout => {
            let excused = excuses::network(story, call, sent.t, *at)
                || excuses::client_broken(story, call, record, *at);
            (!excuses::is_real(call) || !excused).then_some("it never ended, and no cut explains it")
        }
        How::Cancelled => (sent.intent != Intent::Cancel).then_some("it ended as if it were cancelled"),
        How::Deleted => {
            let deleted = story
                .calls_of(session_of(call))
                .any(|(_, other)| other.sent.as_ref().is_some_and(|sent| sent.intent == Intent::Delete));
            (!deleted).then_some("its session was gone, and nobody had ended it")
        }
        How::Expired { idle_ms } => (*idle_ms < session_ttl).then_some("its session was gone too early"),
        How::Left => (sent.intent != Intent::Leave).then_some("its client went away without meaning to"),
        How::Nothing => Some("its stream ended, and nothing was left of it"),
    };
    if let Some(wrong) = wrong {
        say(format!("{call}: {wrong}: {how:?}, {record:?}"));
    }
}

/// Why a result is wrong, if it is.
fn result(
    story: &Story,
    call: &str,
    record: &Record,
    sent: &Sent,
    at: u64,
    (of, good, asked): (&str, bool, &str),
) -> Option<&'static str> {
    if of != call {
        return Some("its result is that of another call");
    }
    if !good {
        return Some("its result is not what the tool has written");
    }
    if record.finishes.is_empty() {
        return Some("it has a result without having run to its end");
    }
    if record.responses.is_empty() {
        return Some("it has a result that no response has brought");
    }
    let ask = sent.plan.ask != crate::journal::Ask::None;
    match asked {
        "none" => ask.then_some("the tool forgot its question"),
        "answered" => (!ask).then_some("the tool was answered without a question"),
        "foreign" => Some("the tool's question got the answer to another one"),
        // The way of a question or of its answer may have been cut, or it was on the stream of a call whose client went away.
        _ => {
            let session = session_of(call);
            let since = story.calls_of(session).filter_map(|(_, other)| Some(other.sent.as_ref()?.t)).min();
            let disturbed = story
                .faults_between(call, since.unwrap_or(sent.t).saturating_sub(SLACK_MS), at)
                .next()
                .is_some();
            let other = story
                .calls_of(session)
                .any(|(_, other)| other.sent.as_ref().is_some_and(|sent| sent.intent != Intent::Finish));
            (!disturbed && !other).then_some("the tool's question was not answered, and nothing explains it")
        }
    }
}

/// In order, without repeats, and its own. The Python SDK presents an older id after a reset, so there it may come again.
fn progress(story: &Story, call: &str, record: &Record, sent: &Sent, say: &mut impl FnMut(String)) {
    let mut last = 0;
    for (t, of, n) in &record.progress {
        if of != call {
            say(format!("{call}: progress of another call came: {of}"));
        }
        let again =
            excuses::is_python(call) && story.faults_between(call, sent.t, *t).any(|fault| fault.kind.cuts());
        if *n <= last && !again {
            say(format!("{call}: progress {n} came after {last}"));
        }
        if *n > sent.plan.progress {
            say(format!("{call}: progress {n} of {} came", sent.plan.progress));
        }
        last = last.max(*n);
    }
}

/// A cancel and a DELETE that were taken stop the call.
fn stops(story: &Story, call: &str, record: &Record, say: &mut impl FnMut(String)) {
    let deleted = story.sessions.get(session_of(call)).and_then(|session| session.deleted);
    for (what, taken) in [("cancel", record.cancel_taken), ("DELETE", deleted)] {
        let Some(taken) = taken else { continue };
        if record.finishes.iter().any(|finish| *finish > taken + STOPPED_WITHIN) {
            say(format!("{call}: it ran on after a {what} that was taken: {record:?}"));
        }
        // What was on its way already may come late through a slow network.
        let late = record.responses.iter().find(|response| **response > taken + STOPPED_WITHIN);
        let since = record.sent.as_ref().map_or(0, |sent| sent.t);
        if late.is_some_and(|late| story.faults_between(call, since, *late).next().is_none()) {
            say(format!("{call}: a response came after a {what} that was taken: {record:?}"));
        }
    }
}

/// Work is not dropped: a call runs to its end whether or not somebody reads it, unless its client ended it or its process was
/// killed, or nobody read it for longer than `abandon_after`. Of the SDKs it is not known what they cancel when they give up.
fn is_not_dropped(
    story: &Story,
    call: &str,
    record: &Record,
    sent: &Sent,
    abandon_after: u64,
    say: &mut impl FnMut(String),
) {
    let Some((started, pid)) = record.starts.first() else { return };
    let ended_by_client = excuses::is_real(call)
        || matches!(sent.intent, Intent::Cancel | Intent::Delete)
        || record.cancel_taken.is_some()
        || story.sessions.get(session_of(call)).is_some_and(|session| session.deleted.is_some());
    let killed = story.child_kills.iter().any(|(t, killed)| killed == pid && *t + SLACK_MS >= *started);
    let stopped = record.stopped.first().copied();
    let abandoned = stopped.is_some_and(|stopped| stopped + SLACK_MS >= sent.t + abandon_after);
    if record.finishes.is_empty() && !ended_by_client && !killed && !abandoned {
        let deleting = story
            .calls_of(session_of(call))
            .any(|(_, other)| other.sent.as_ref().is_some_and(|sent| sent.intent == Intent::Delete));
        if !deleting {
            say(format!("{call}: it began to run and was dropped: {record:?}"));
        }
    }
}
