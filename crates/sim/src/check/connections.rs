//! What goes over the wire: order, ids, statuses, and how connections end.

use super::{Broken, Rule, facts::Facts, say};
use crate::{
    handler::hash_of,
    plan::{Model, Plan},
    trace::{Entry, Position, Purpose, Said, What},
};
use std::collections::BTreeMap;

/// A DELETE is known everywhere after a second; some more for what is under way.
const ENDED_EVERYWHERE: u64 = 1_900;

/// One connection that reads a stream.
#[derive(Default)]
struct Reading {
    presented: Option<Position>,
    /// The last position that it showed, or that it began at.
    at: Option<Position>,
    shows_id: bool,
    answered: bool,
    over: bool,
}

/// What the store has said that an event is: when, and the digest.
type Written = Vec<(u64, u64)>;

struct Checker<'a> {
    plan: &'a Plan,
    facts: &'a Facts,
    broken: &'a mut Vec<Broken>,
    readings: BTreeMap<u64, Reading>,
    /// What the store has said that it has: when, and the digest.
    written: BTreeMap<([u8; 16], u64), Written>,
    made: BTreeMap<[u8; 16], u64>,
    /// The last step of each call that was seen.
    steps: BTreeMap<u64, u64>,
    /// The run of each call that was heard last.
    runs: BTreeMap<u64, u64>,
}

pub(super) fn check(plan: &Plan, entries: &[Entry], facts: &Facts, broken: &mut Vec<Broken>) {
    let mut checker = Checker {
        plan,
        facts,
        broken,
        readings: BTreeMap::new(),
        written: BTreeMap::new(),
        made: BTreeMap::new(),
        steps: BTreeMap::new(),
        runs: BTreeMap::new(),
    };
    for entry in entries {
        checker.entry(entry.at, &entry.what);
    }
}

impl Checker<'_> {
    fn say(&mut self, rule: Rule, at: u64, what: impl Into<String>) {
        say(self.broken, rule, at, what);
    }

    fn entry(&mut self, at: u64, what: &What) {
        match what {
            What::Made { stream, .. } => {
                self.made.entry(*stream.as_bytes()).or_insert(at);
            }
            What::Written { stream, offset, digest, .. } => {
                self.written.entry((*stream.as_bytes(), *offset)).or_default().push((at, *digest));
            }
            What::Presented { connection, cursor, .. } => {
                let reading = self.readings.entry(*connection).or_default();
                (reading.presented, reading.at) = (*cursor, *cursor);
            }
            What::Event { connection, purpose, id, bad_id, said, digest, .. } => {
                if *bad_id {
                    self.say(
                        Rule::Apart,
                        at,
                        format!("connection {connection}: an id that is not this client's"),
                    );
                }
                self.content(at, *purpose, id.is_some(), said);
                if !self.readings.get(connection).is_some_and(|reading| reading.over) {
                    self.event(at, *connection, *purpose, *id, said, *digest);
                }
            }
            What::Over { connection, purpose, clean, injured } => {
                self.over(at, *connection, *purpose, *clean, *injured);
            }
            What::Failed { connection, injured: false, .. } => {
                self.say(
                    Rule::Unexplained,
                    at,
                    format!("connection {connection} broke before it was answered"),
                );
            }
            What::Status { connection, purpose, method, status, proxy, cursor, answerable } => {
                if !proxy {
                    self.status(at, *connection, *purpose, method, *status, *cursor, *answerable);
                } else if self.plan.is_seamless() {
                    self.say(Rule::Unexplained, at, format!("connection {connection}: no backend took it"));
                }
            }
            _ => {}
        }
    }

    fn model(&self, purpose: Purpose) -> Option<Model> {
        let Purpose::Call(call) = purpose else { return None };
        let client = self.facts.calls.get(&call)?.client;
        self.plan.clients.get(client).map(|client| client.model)
    }

    fn event(
        &mut self,
        at: u64,
        connection: u64,
        purpose: Purpose,
        id: Option<Position>,
        said: &Said,
        digest: u64,
    ) {
        let is_message = *said != Said::Nothing;
        let reading = self.readings.entry(connection).or_default();
        if reading.answered {
            say(self.broken, Rule::OneEnd, at, format!("connection {connection}: {said:?} after the answer"));
        }
        reading.answered |=
            matches!((said, purpose), (Said::Result { .. } | Said::Error { .. }, Purpose::Call(_)));
        let Some(id) = id else {
            // While the store is away a call goes on with who is connected.
            if is_message && !self.facts.store_explains(at, at) {
                say(self.broken, Rule::Shape, at, format!("connection {connection}: {said:?} without an id"));
            }
            return;
        };
        if !reading.shows_id && reading.presented == Some(id) {
            say(
                self.broken,
                Rule::Shape,
                at,
                format!("connection {connection} shows the id that it was given"),
            );
        }
        reading.shows_id = true;
        let before = reading.at.replace(id);
        let standalone = matches!(purpose, Purpose::Standalone(_));
        // What is read of a session whose client has ended it may be a log that somebody made who did not know yet.
        let ended = match purpose {
            Purpose::Standalone(session) => {
                self.facts.deleted.get(&session).is_some_and(|(when, _)| *when <= at)
            }
            _ => false,
        };
        // An error about the stream itself stands in no stream; nor does what a client is told to look at again.
        let beside = match said {
            Said::Error { .. } => before.is_some_and(|before| before.offset == id.offset),
            Said::Aside => standalone,
            _ => false,
        };
        match before {
            Some(before) if beside && before.stream == id.stream => {}
            // The next one of a session's own logs: its client is told to look again at everything, and then gets all of it.
            Some(_) if standalone && *said == Said::Aside && id.offset == 0 => {}
            Some(_) if beside => {
                say(
                    self.broken,
                    Rule::Apart,
                    at,
                    format!("connection {connection} goes on in another stream"),
                );
            }
            Some(before) => {
                let expected = before.offset + u64::from(is_message);
                if before.stream != id.stream {
                    say(
                        self.broken,
                        Rule::Apart,
                        at,
                        format!("connection {connection} goes on in another stream"),
                    );
                } else if id.offset != expected && !ended {
                    let what =
                        format!("connection {connection}: {said:?} is {} instead of {expected}", id.offset);
                    say(self.broken, Rule::Order, at, what);
                }
            }
            None if !standalone && id.offset != u64::from(is_message) => {
                let what = format!("connection {connection} begins with {said:?} at {}", id.offset);
                say(self.broken, Rule::Order, at, what);
            }
            None => {}
        }
        if !beside {
            self.durable(at, connection, id, is_message.then_some(digest));
        }
    }

    /// I6: what the id stands for is in the store, and what was shown is what is there.
    fn durable(&mut self, at: u64, connection: u64, id: Position, digest: Option<u64>) {
        if id.offset == 0 {
            if self.made.get(id.stream.as_bytes()).is_none_or(|made| *made > at) {
                self.say(
                    Rule::Durable,
                    at,
                    format!("connection {connection}: an id of a stream that is not there"),
                );
            }
            return;
        }
        let written = self.written.get(&(*id.stream.as_bytes(), id.offset));
        match written {
            None => self.say(
                Rule::Durable,
                at,
                format!("connection {connection}: id {} of an event that is not there", id.offset),
            ),
            Some(written) => {
                if digest.is_some_and(|digest| !written.iter().any(|(_, known)| *known == digest)) {
                    let what =
                        format!("connection {connection}: event {} is not what the store has", id.offset);
                    self.say(Rule::Order, at, what);
                }
            }
        }
    }

    /// What a message says is its own call's, and in order. One without an id is none that a client can come back behind: where its
    /// connection breaks, it comes again.
    fn content(&mut self, at: u64, purpose: Purpose, has_id: bool, said: &Said) {
        let own = match purpose {
            Purpose::Call(call) => Some(call),
            _ => None,
        };
        match said {
            Said::Progress { call, step, hash, run } => {
                if own != Some(*call) {
                    self.say(Rule::Apart, at, format!("{purpose:?} is told of {said:?}"));
                }
                let last = self.steps.get(call).copied().unwrap_or(0);
                if has_id {
                    self.steps.insert(*call, *step);
                }
                self.run_goes_on(at, *call, *run);
                if *step <= last || *hash != hash_of(*call, *step) {
                    self.say(Rule::Order, at, format!("call {call}: step {step} after step {last}"));
                }
            }
            Said::Question { call } if own != Some(*call) => {
                self.say(Rule::Apart, at, format!("{purpose:?} is asked for call {call}"));
            }
            Said::Shout { call, .. } => {
                let session = self.facts.calls.get(call).map(|call| call.session);
                if session.map(Purpose::Standalone) != Some(purpose) {
                    self.say(Rule::Apart, at, format!("{purpose:?} hears call {call}"));
                }
            }
            Said::Result { request, call, steps, hash } => {
                let known = self.facts.calls.get(call).map(|call| call.request);
                if own != Some(*call) || known != Some(*request) {
                    self.say(Rule::Apart, at, format!("{purpose:?} gets the result of call {call}"));
                }
                if *hash != hash_of(*call, *steps) {
                    self.say(Rule::Order, at, format!("call {call}: a result that its tool did not give"));
                }
            }
            Said::Error { request, .. } => {
                let known = own.and_then(|call| self.facts.calls.get(&call)).map(|call| call.request);
                if known != Some(*request) {
                    self.say(Rule::Apart, at, format!("{purpose:?} gets the error of request {request}"));
                }
            }
            Said::Strange(text) => self.say(Rule::Unexplained, at, format!("{purpose:?} gets {text}")),
            Said::Question { .. } | Said::Nothing | Said::Aside => {}
        }
    }

    /// Once a further run of a call has said something, the run before it says nothing more: it was fenced.
    fn run_goes_on(&mut self, at: u64, call: u64, run: u64) {
        let last = self.runs.insert(call, run).unwrap_or(1);
        let most = 1 + u64::from(self.plan.reruns);
        if run < last {
            self.say(Rule::OneEnd, at, format!("call {call}: run {run} speaks after run {last}"));
        }
        if run > most {
            self.say(Rule::OneRun, at, format!("call {call}: run {run} of at most {most}"));
        }
    }

    fn over(&mut self, at: u64, connection: u64, purpose: Purpose, clean: bool, injured: bool) {
        let primed = self.model(purpose) != Some(Model::Old);
        let reading = self.readings.entry(connection).or_default();
        reading.over = true;
        let (shows_id, answered, is_stream) =
            (reading.shows_id, reading.answered, reading.at.is_some() || reading.presented.is_some());
        if !clean && !injured {
            self.say(
                Rule::Unexplained,
                at,
                format!("connection {connection} of {purpose:?} broke by itself"),
            );
        }
        let is_call = matches!(purpose, Purpose::Call(_));
        if clean && !injured && is_call && primed && is_stream && !answered && !shows_id {
            self.say(Rule::Shape, at, format!("connection {connection} of {purpose:?} ended without an id"));
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one entry")]
    fn status(
        &mut self,
        at: u64,
        connection: u64,
        purpose: Purpose,
        method: &str,
        status: u16,
        cursor: bool,
        answerable: bool,
    ) {
        let tell = |this: &mut Self, rule| {
            let what =
                format!("connection {connection}: {method} for {purpose:?} was answered with {status}");
            this.say(rule, at, what);
        };
        let session = match purpose {
            Purpose::Call(call) => self.facts.calls.get(&call).map(|call| call.session),
            Purpose::Standalone(session) => Some(session),
            Purpose::Other => None,
        };
        if let Some((ended, true)) = session.and_then(|session| self.facts.deleted.get(&session))
            && at > ended + ENDED_EVERYWHERE
            && status != 404
            && !self.facts.explains(None, ended.saturating_sub(2_000), at)
        {
            tell(self, Rule::Ending);
        }
        match status {
            200 | 202 | 204 => {}
            404 if answerable => {
                // Only a store that has lost the session makes it unknown.
                if !self.facts.lost_a_tail(0, at) {
                    tell(self, Rule::Unexplained);
                }
            }
            400 | 404 if !answerable => {}
            503 if !answerable && purpose == Purpose::Other => {
                if !self.facts.explains(None, at.saturating_sub(1_000), at) {
                    tell(self, Rule::Unexplained);
                }
            }
            503 if cursor => {
                // Without keys no cursor can be read.
                if !(self.plan.shared_keys && self.facts.store_explains(at, at)) {
                    tell(self, Rule::Shape);
                }
            }
            503 => {
                if !self.facts.explains(None, at.saturating_sub(1_000), at) && !method_waits(self.plan, at) {
                    tell(self, Rule::Unexplained);
                }
            }
            _ => tell(self, Rule::Unexplained),
        }
    }
}

/// At the very beginning the backends have no key yet where the store keeps it.
fn method_waits(plan: &Plan, at: u64) -> bool {
    plan.shared_keys && at < 3_000
}
