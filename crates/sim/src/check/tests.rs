//! The checker is given traces with one thing wrong, and has to complain of that and of nothing else.

use super::{Rule, check};
use crate::{
    handler::hash_of,
    plan::{Mutation, Plan, Style},
    trace::{End, Entry, FaultKind, Left, Position, Purpose, Said, What},
};
use bowline_proto::cursor::StreamId;

const STREAM: StreamId = StreamId::from_bytes([7; 16]);
const CALL: Purpose = Purpose::Call(1);

fn plan() -> Plan {
    let mut plan = Plan::of(0, Mutation::None);
    plan.style = Style::Rough;
    plan.shared_keys = false;
    plan.reruns = 1;
    plan.clients.truncate(1);
    plan.clients[0].model = crate::plan::Model::Ideal;
    plan
}

fn position(offset: u64, poll: u64) -> Position {
    Position { stream: STREAM, epoch: 1, offset, poll }
}

fn event(connection: u64, offset: u64, poll: u64, said: Said) -> What {
    let digest = if said == Said::Nothing { 0 } else { offset };
    let id = Some(position(offset, poll));
    What::Event { connection, purpose: CALL, id, bad_id: false, said, digest, retry: None }
}

fn written(offset: u64, seal: bool) -> What {
    What::Written { stream: STREAM, epoch: 1, offset, seal, digest: offset, again: false }
}

fn status(connection: u64, method: &'static str, status: u16, cursor: bool) -> What {
    What::Status { connection, purpose: CALL, method, status, proxy: false, cursor, answerable: true }
}

fn progress(step: u64) -> Said {
    Said::Progress { call: 1, step, hash: hash_of(1, step), run: 1 }
}

fn result() -> Said {
    Said::Result { request: 5, call: 1, steps: 2, hash: hash_of(1, 2) }
}

fn over(connection: u64) -> What {
    What::Over { connection, purpose: CALL, clean: true, injured: false }
}

/// One call on two connections.
fn sound() -> Vec<(u64, What)> {
    vec![
        (0, What::Called { call: 1, request: 5, session: 1, client: 0, repeatable: false }),
        (1, What::RunBegan { call: 1, run: 1, backend: 0, incarnation: 1 }),
        (2, What::Made { stream: STREAM, standalone: false }),
        (3, status(1, "POST", 200, false)),
        (4, event(1, 0, 1, Said::Nothing)),
        (5, written(1, false)),
        (6, event(1, 1, 1, progress(1))),
        (7, event(1, 1, 2, Said::Nothing)),
        (8, over(1)),
        (9, written(2, false)),
        (10, What::RunEnded { call: 1, run: 1, how: End::Result }),
        (11, written(3, true)),
        (12, status(2, "GET", 200, true)),
        (13, What::Presented { connection: 2, purpose: CALL, cursor: Some(position(1, 2)) }),
        (14, event(2, 1, 3, Said::Nothing)),
        (15, event(2, 2, 3, progress(2))),
        (16, event(2, 3, 3, result())),
        (17, over(2)),
        (90_000, What::End),
    ]
}

fn rules(entries: Vec<(u64, What)>) -> Vec<Rule> {
    let entries: Vec<Entry> = entries.into_iter().map(|(at, what)| Entry { at, what }).collect();
    let mut rules: Vec<Rule> = check(&plan(), &entries).into_iter().map(|broken| broken.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

/// The sound trace with one entry replaced.
fn with(index: usize, what: What) -> Vec<Rule> {
    let mut entries = sound();
    entries[index].1 = what;
    rules(entries)
}

/// The sound trace with an entry more, at its time.
fn and(at: u64, what: What) -> Vec<Rule> {
    let mut entries = sound();
    let index = entries.iter().position(|entry| entry.0 > at).unwrap();
    entries.insert(index, (at, what));
    rules(entries)
}

fn without(indices: std::ops::Range<usize>) -> Vec<Rule> {
    let mut entries = sound();
    entries.drain(indices);
    rules(entries)
}

#[test]
fn a_sound_trace_is_sound() {
    assert_eq!(rules(sound()), []);
}

#[test]
fn gaps_and_repeats() {
    assert_eq!(without(15..16), [Rule::Order], "an event is missing");
    assert_eq!(with(15, event(2, 1, 3, progress(1))), [Rule::Order], "an event comes again");
    assert_eq!(and(15, event(2, 2, 3, progress(2))), [Rule::Order]);
    let other = Said::Progress { call: 1, step: 2, hash: 0, run: 1 };
    assert_eq!(with(15, event(2, 2, 3, other)), [Rule::Order], "not what its tool said");
    let mut changed = sound();
    if let What::Event { digest, .. } = &mut changed[15].1 {
        *digest = 99;
    }
    assert_eq!(rules(changed), [Rule::Order], "not what the store has");
}

#[test]
fn ends() {
    assert_eq!(and(16, event(2, 3, 3, result())), [Rule::Order, Rule::OneEnd]);
    let second = What::Written { stream: STREAM, epoch: 2, offset: 4, seal: true, digest: 4, again: false };
    assert_eq!(and(20, second), [Rule::OneEnd], "a second seal");
    assert_eq!(and(20, written(4, false)), [Rule::OneEnd], "an append after the seal");
    let mut sleeper = sound();
    sleeper[9].1 =
        What::Written { stream: STREAM, epoch: 2, offset: 2, seal: false, digest: 2, again: false };
    assert_eq!(rules(sleeper), [Rule::OneEnd], "a writer behind the fence");
}

#[test]
fn time() {
    assert_eq!(without(11..18), [Rule::InTime], "no end at all");
    let late = |fault: Option<What>| {
        let mut entries = sound();
        for entry in &mut entries[12..18] {
            entry.0 += 80_000;
        }
        entries.extend(fault.map(|fault| (11, fault)));
        entries.sort_by_key(|entry| entry.0);
        rules(entries)
    };
    assert_eq!(late(None), [Rule::InTime]);
    let fault = What::Fault { kind: FaultKind::Pause, backend: Some(0), until: 60_000 };
    assert_eq!(late(Some(fault)), [], "a fault takes its time");
}

#[test]
fn runs() {
    assert_eq!(
        and(9, What::RunBegan { call: 1, run: 2, backend: 1, incarnation: 1 }),
        [Rule::InTime, Rule::OneRun]
    );
}

/// A call that may run again, and does where its backend was killed.
fn run_again() -> Vec<(u64, What)> {
    let mut entries = sound();
    entries[0].1 = What::Called { call: 1, request: 5, session: 1, client: 0, repeatable: true };
    entries[10].1 = What::RunEnded { call: 1, run: 1, how: End::Killed };
    entries[15].1 = event(2, 2, 3, Said::Progress { call: 1, step: 2, hash: hash_of(1, 2), run: 2 });
    let later =
        |offset, seal| What::Written { stream: STREAM, epoch: 2, offset, seal, digest: offset, again: false };
    (entries[9].1, entries[11].1) = (later(2, false), later(3, true));
    let taken = [
        (9, What::Fault { kind: FaultKind::Crash, backend: Some(0), until: 20 }),
        (9, What::TakenOver { stream: STREAM, epoch: 2 }),
        (9, What::RunBegan { call: 1, run: 2, backend: 1, incarnation: 1 }),
    ];
    entries.splice(9..9, taken);
    entries.insert(14, (11, What::RunEnded { call: 1, run: 2, how: End::Result }));
    entries
}

#[test]
fn further_runs() {
    assert_eq!(rules(run_again()), []);
    let without = |unwanted: fn(&What) -> bool| {
        let mut entries = run_again();
        entries.retain(|(_, what)| !unwanted(what));
        rules(entries)
    };
    let well = without(|what| matches!(what, What::Fault { .. }));
    assert_eq!(well, [Rule::OneRun], "its backend was well");
    let mut entries = run_again();
    entries[0].1 = What::Called { call: 1, request: 5, session: 1, client: 0, repeatable: false };
    assert_eq!(rules(entries), [Rule::OneRun], "it may not run again");
    let mut entries = run_again();
    entries.insert(13, (10, What::RunEnded { call: 1, run: 3, how: End::Result }));
    entries.insert(13, (10, What::RunBegan { call: 1, run: 3, backend: 0, incarnation: 2 }));
    assert_eq!(rules(entries.clone()), [Rule::OneRun], "nor for a third time");
    let failover = What::Fault { kind: FaultKind::Failover, backend: None, until: 9 };
    entries.insert(9, (9, failover));
    assert_eq!(rules(entries), [], "but where the store may have lost that it was given away");
    let mut entries = run_again();
    let old = What::Written { stream: STREAM, epoch: 1, offset: 2, seal: false, digest: 2, again: false };
    let at = entries.iter().position(|(_, what)| matches!(what, What::TakenOver { .. })).unwrap();
    entries.insert(at + 1, (9, old));
    assert_eq!(rules(entries), [Rule::OneEnd], "the former owner writes");
    let mut entries = run_again();
    let last = entries
        .iter()
        .position(|(_, what)| matches!(what, What::Event { said, .. } if *said == result()))
        .unwrap();
    let said = Said::Progress { call: 1, step: 3, hash: hash_of(1, 3), run: 1 };
    entries.insert(
        last,
        (
            16,
            What::Event {
                connection: 2,
                purpose: CALL,
                id: None,
                bad_id: false,
                said,
                digest: 9,
                retry: None,
            },
        ),
    );
    entries.insert(9, (9, What::Fault { kind: FaultKind::Outage, backend: None, until: 20 }));
    assert_eq!(rules(entries), [Rule::OneEnd], "the former owner is heard");
    let mut entries = run_again();
    entries.insert(8, (8, What::CancelSent { call: 1, taken: true }));
    for entry in entries.iter_mut().skip(9).take(10) {
        entry.0 += 40_000;
    }
    entries.sort_by_key(|entry| entry.0);
    assert!(rules(entries).contains(&Rule::Ending), "its client had cancelled it");
}

/// The session's own log is dropped and made again: its client is told, and then gets all of the next one.
#[test]
fn own_logs_that_follow_one_another() {
    const FIRST: StreamId = StreamId::from_bytes([8; 16]);
    const NEXT: StreamId = StreamId::from_bytes([9; 16]);
    let own = Purpose::Standalone(1);
    let heard = |stream, connection, offset, poll, said: Said| What::Event {
        connection,
        purpose: own,
        id: Some(Position { stream, epoch: 1, offset, poll }),
        bad_id: false,
        digest: if said == Said::Nothing { 0 } else { offset },
        said,
        retry: None,
    };
    let shout = |step| Said::Shout { call: 1, step };
    let made = |stream| What::Made { stream, standalone: true };
    let kept = |stream, offset| What::Written {
        stream,
        epoch: 1,
        offset,
        seal: false,
        digest: offset,
        again: false,
    };
    let told = vec![
        (20, made(FIRST)),
        (20, kept(FIRST, 1)),
        (21, heard(FIRST, 8, 0, 1, Said::Nothing)),
        (21, heard(FIRST, 8, 1, 1, shout(1))),
        (22, What::Over { connection: 8, purpose: own, clean: true, injured: false }),
        (23, What::Evicted { stream: FIRST }),
        (24, made(NEXT)),
        (24, kept(NEXT, 1)),
        (24, kept(NEXT, 2)),
        (
            25,
            What::Presented {
                connection: 9,
                purpose: own,
                cursor: Some(Position { stream: FIRST, epoch: 1, offset: 1, poll: 1 }),
            },
        ),
        (26, heard(FIRST, 9, 1, 2, Said::Nothing)),
        (27, heard(NEXT, 9, 0, 2, Said::Aside)),
        (28, heard(NEXT, 9, 1, 2, shout(2))),
        (29, heard(NEXT, 9, 2, 2, shout(3))),
    ];
    let with = |own: Vec<(u64, What)>| {
        let mut entries = sound();
        entries.retain(|(at, _)| *at < 18);
        entries.extend(own);
        entries.push((90_000, What::End));
        rules(entries)
    };
    assert_eq!(with(told.clone()), []);
    let mut silent = told.clone();
    silent.remove(11);
    assert_eq!(with(silent), [Rule::Apart], "nobody tells");
    let mut skipped = told.clone();
    skipped.remove(12);
    assert_eq!(with(skipped), [Rule::Order], "an event is left out");
    let mut late = told;
    late[11].1 = heard(NEXT, 9, 1, 2, Said::Aside);
    late.remove(12);
    assert!(with(late).contains(&Rule::Apart), "it goes on somewhere in the middle");
}

#[test]
fn strangers() {
    let other = Said::Progress { call: 2, step: 2, hash: hash_of(2, 2), run: 1 };
    assert_eq!(with(15, event(2, 2, 3, other)), [Rule::Apart]);
    let mut foreign = sound();
    if let What::Event { bad_id, id, .. } = &mut foreign[14].1 {
        (*bad_id, *id) = (true, None);
    }
    assert_eq!(rules(foreign), [Rule::Apart]);
    assert_eq!(and(20, What::Answered { call: 1, said: Some(2) }), [Rule::Apart]);
    assert_eq!(and(20, What::Answered { call: 1, said: Some(1) }), []);
    assert_eq!(and(20, What::Trespass { what: "it", status: 404, leaked: false }), []);
    assert_eq!(and(20, What::Trespass { what: "it", status: 200, leaked: true }), [Rule::Apart]);
    let shout = What::Event {
        connection: 9,
        purpose: Purpose::Standalone(2),
        id: None,
        bad_id: false,
        said: Said::Shout { call: 1, step: 1 },
        digest: 0,
        retry: None,
    };
    assert!(and(20, shout).contains(&Rule::Apart), "it is another session's");
}

#[test]
fn ids_before_their_time() {
    let mut early = sound();
    early.swap(5, 6);
    assert_eq!(rules(early), [Rule::Durable], "an event");
    let mut early = sound();
    early.swap(2, 4);
    assert_eq!(rules(early), [Rule::Durable], "a stream");
}

#[test]
fn errors_need_a_reason() {
    let lost = || event(2, 3, 3, Said::Error { request: 5, reason: "owner_lost".into() });
    assert_eq!(with(16, lost()), [Rule::Unexplained]);
    let mut explained = sound();
    explained[16].1 = lost();
    for (backend, expected) in [(0, &[][..]), (1, &[Rule::Unexplained])] {
        let mut entries = explained.clone();
        let fault = What::Fault { kind: FaultKind::Crash, backend: Some(backend), until: 12 };
        entries.insert(11, (11, fault));
        assert_eq!(rules(entries), expected, "backend {backend}");
    }
    for left in [Left::Nothing, Left::Budget, Left::PollRefused(404), Left::Polls, Left::NoId] {
        assert_eq!(with(16, What::Left { call: 1, why: left }), [Rule::Unexplained], "{left:?}");
    }
    let broke = What::Over { connection: 1, purpose: CALL, clean: false, injured: false };
    assert_eq!(with(8, broke), [Rule::Unexplained]);
}

#[test]
fn shapes() {
    assert_eq!(with(14, event(2, 1, 2, Said::Nothing)), [Rule::Shape], "the id that was presented");
    assert_eq!(and(12, status(3, "GET", 503, true)), [Rule::Shape]);
    assert_eq!(and(12, status(3, "GET", 404, true)), [Rule::Unexplained]);
    assert_eq!(and(12, status(3, "POST", 500, false)), [Rule::Unexplained]);
    let mut idless = sound();
    idless.drain(14..17);
    idless.insert(14, (14, What::Left { call: 1, why: Left::Cancelled }));
    idless.insert(14, (14, What::CancelSent { call: 1, taken: false }));
    assert_eq!(rules(idless), [Rule::Shape], "a poll without an id");
}

#[test]
fn what_is_ended_ends() {
    let ended = What::DeleteSent { session: 1, taken: true };
    let late = status(3, "GET", 200, true);
    let mut entries = sound();
    entries.insert(18, (3_000, late));
    entries.insert(18, (20, ended));
    assert_eq!(rules(entries), [Rule::Ending]);
    let mut entries = sound();
    entries.retain(|(_, what)| !matches!(what, What::RunEnded { .. }));
    entries.truncate(9);
    entries.push((9, What::CancelSent { call: 1, taken: true }));
    entries.push((9, What::Left { call: 1, why: Left::Cancelled }));
    entries.push((40_000, What::RunEnded { call: 1, run: 1, how: End::Result }));
    entries.push((90_000, What::End));
    assert_eq!(rules(entries), [Rule::Ending], "a cancel that did nothing");
}
