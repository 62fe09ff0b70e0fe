//! The journals put in order: what is known of each call, each session and each client.

use crate::journal::{Event, FaultKind, How, Intent, Line, Parting, Plan, Sample, client_of, session_of};
use std::collections::BTreeMap;

/// All that was written down of one call.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// When it was sent, and as what.
    pub(super) sent: Option<Sent>,
    /// Progress: when, the call that it names, the number.
    pub(super) progress: Vec<(u64, String, u64)>,
    /// When responses came.
    pub(super) responses: Vec<u64>,
    /// How it ended for its client; once, if all is well.
    pub(super) ends: Vec<(u64, How)>,
    /// When it began to run, and in which process; once at most, if all is well.
    pub(super) starts: Vec<(u64, u32)>,
    /// When it had run to its end.
    pub(super) finishes: Vec<u64>,
    /// When it was told that it is cancelled.
    pub(super) stopped: Vec<u64>,
    /// When its client's cancel was taken.
    pub(super) cancel_taken: Option<u64>,
    /// How often its stream was asked for again.
    pub(super) resumes: u64,
}

/// How a call was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// When.
    pub(super) t: u64,
    /// What it asked for.
    pub(super) plan: Plan,
    /// What its client meant to do.
    pub(super) intent: Intent,
    /// Within so many milliseconds it has to have ended.
    pub(super) bound_ms: u64,
}

/// What is known of one session.
#[derive(Debug, Default)]
pub(super) struct SessionRecord {
    /// When it was opened.
    pub(super) opened: Option<u64>,
    /// When a DELETE of it was answered.
    pub(super) deleted: Option<u64>,
    /// The processes that have worked for it.
    pub(super) pids: Vec<u32>,
}

/// What the network did to a client: when, what, and how long before that the connection had shown an event id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// When.
    pub(super) t: u64,
    /// What.
    pub(super) kind: FaultKind,
    /// The age of the first event id, in milliseconds.
    pub(super) id_ms: Option<u64>,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// By name.
    pub(super) calls: BTreeMap<String, Record>,
    /// By name.
    pub(super) sessions: BTreeMap<String, SessionRecord>,
    /// Sessions that were opened.
    pub(super) opened: u64,
    /// By client, in order.
    pub(super) faults: BTreeMap<String, Vec<Fault>>,
    /// When processes of the tool were killed.
    pub(super) child_kills: Vec<(u64, u32)>,
    /// When processes of clients were killed.
    pub(super) client_kills: Vec<(u64, String)>,
    /// Questions and log messages: the session that they came in, the call that they name, what they are.
    pub(super) heard: Vec<(String, String, String)>,
    /// Answers to those who asked for what is not theirs.
    pub(super) probes: Vec<u16>,
    /// Sessions that were gone: name, for how long they had not been used.
    pub(super) gone: Vec<(String, u64)>,
    /// What may not come.
    pub(super) odd: Vec<String>,
    /// What the program looked like.
    pub(super) samples: Vec<(u64, Sample)>,
    /// What was left at the end, and how the program ended.
    pub(super) left: Option<(Vec<String>, Option<i32>)>,
}

impl Story {
    /// Puts the lines in order.
    #[must_use]
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut story = Self::default();
        for line in lines {
            story.take(line.t, &line.event);
        }
        story
    }

    fn take(&mut self, t: u64, event: &Event) {
        match event {
            Event::Opened { session } => {
                self.opened += 1;
                self.session(session).opened.get_or_insert(t);
            }
            Event::Closed { session, parting } => {
                if *parting == Parting::Deleted {
                    self.session(session).deleted.get_or_insert(t);
                }
            }
            Event::Sent { call, plan, intent, bound_ms } => {
                let sent = Sent { t, plan: plan.clone(), intent: *intent, bound_ms: *bound_ms };
                let before = self.call(call).sent.replace(sent);
                if before.is_some() {
                    self.odd.push(format!("{call} was sent twice: the clients' names are mixed up"));
                }
            }
            Event::Progress { call, of, n } => self.call(call).progress.push((t, of.clone(), *n)),
            Event::Response { call } => self.call(call).responses.push(t),
            Event::Resumed { call } => self.call(call).resumes += 1,
            Event::CancelTaken { call } => self.call(call).cancel_taken = Some(t),
            Event::End { call, how } => self.call(call).ends.push((t, how.clone())),
            Event::Heard { session, of, what } => {
                self.heard.push((session.clone(), of.clone(), what.clone()));
            }
            Event::Probe { status } => self.probes.push(*status),
            Event::Gone { session, idle_ms } => self.gone.push((session.clone(), *idle_ms)),
            Event::Odd { what } => self.odd.push(what.clone()),
            Event::Start { call, pid } => {
                self.call(call).starts.push((t, *pid));
                self.session(session_of(call)).pids.push(*pid);
            }
            Event::Finish { call, .. } => self.call(call).finishes.push(t),
            Event::Stopped { call, .. } => self.call(call).stopped.push(t),
            Event::Fault { client, kind, id_ms } => {
                let fault = Fault { t, kind: *kind, id_ms: *id_ms };
                self.faults.entry(client.clone()).or_default().push(fault);
            }
            Event::ChildKilled { pid } => self.child_kills.push((t, *pid)),
            Event::ClientKilled { process } => self.client_kills.push((t, process.clone())),
            Event::Sample(sample) => self.samples.push((t, sample.clone())),
            Event::Left { processes, exit } => self.left = Some((processes.clone(), *exit)),
        }
    }

    fn call(&mut self, name: &str) -> &mut Record {
        self.calls.entry(name.to_owned()).or_default()
    }

    fn session(&mut self, name: &str) -> &mut SessionRecord {
        self.sessions.entry(name.to_owned()).or_default()
    }

    /// What the network did to the client of a call, or a session, between two moments.
    pub(super) fn faults_between(&self, name: &str, from: u64, to: u64) -> impl Iterator<Item = &Fault> {
        let faults = self.faults.get(client_of(name)).map(Vec::as_slice).unwrap_or_default();
        faults.iter().filter(move |fault| (from..=to).contains(&fault.t))
    }

    /// The calls of one session, with their names.
    pub(super) fn calls_of(&self, session: &str) -> impl Iterator<Item = (&String, &Record)> {
        let first = format!("{session}.");
        let end = format!("{session}/");
        self.calls.range(first..end)
    }
}
