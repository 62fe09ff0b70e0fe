//! A checker that cannot fail is worthless: journals in which all is well, doctored one by one.

use super::*;
use crate::journal::{Ask, Event, FaultKind, How, Intent, Parting, Phase, Plan, Sample};
use std::collections::BTreeMap;

const CALL: &str = "raw-0.1/0.1.1";
const SESSION: &str = "raw-0.1/0.1";
const OTHER: &str = "raw-1.0/0.1.1";

/// A moment at which the first call runs.
const MIDDLE: u64 = 1_500;

fn line(t: u64, event: Event) -> Line {
    Line { t, event }
}

fn sample(t: u64, phase: Phase, calls_succeeded: u64) -> Line {
    let gauges = [
        "sessions",
        "calls",
        "streams_open",
        "calls_parked",
        "calls_streaming",
        "results_waiting",
        "children",
        "gateway_sessions",
        "handshakes",
    ];
    let mut metrics: BTreeMap<String, u64> = gauges.map(|gauge| (gauge.to_owned(), 0)).into();
    let counters = [
        ("sessions_opened", 2),
        ("children_started", 2),
        ("children_died", 0),
        ("calls_succeeded", calls_succeeded),
    ];
    metrics.extend(counters.map(|(name, value)| (name.to_owned(), value)));
    line(t, Event::Sample(Sample { phase, rss_kib: 8_000, fds: 20, children: 0, cpu_ms: 10, metrics }))
}

/// A call from its POST to its result, with three notifications of progress.
fn call(name: &str, pid: u32, from: u64) -> Vec<Line> {
    let plan = Plan { ms: 900, progress: 3, size: 100, ask: Ask::None, log: false };
    let name = name.to_owned();
    let progress = |t, n| line(t, Event::Progress { call: name.clone(), of: name.clone(), n });
    let how = How::Result { of: name.clone(), good: true, asked: "none".into() };
    vec![
        line(from, Event::Sent { call: name.clone(), plan, intent: Intent::Finish, bound_ms: 5_000 }),
        line(from + 1, Event::Start { call: name.clone(), pid }),
        progress(from + 300, 1),
        progress(from + 600, 2),
        progress(from + 900, 3),
        line(from + 901, Event::Finish { call: name.clone(), pid }),
        line(from + 902, Event::Response { call: name.clone() }),
        line(from + 903, Event::End { call: name.clone(), how }),
    ]
}

/// A run in which all is well.
fn well() -> Vec<Line> {
    let mut lines = vec![
        sample(0, Phase::Warm, 0),
        line(900, Event::Opened { session: SESSION.into() }),
        line(901, Event::Opened { session: session_of(OTHER).into() }),
    ];
    lines.extend(call(CALL, 11, 1_000));
    lines.extend(call(OTHER, 12, 1_200));
    lines.push(line(2_500, Event::Closed { session: SESSION.into(), parting: Parting::Left }));
    lines.push(sample(9_000, Phase::End, 2));
    lines.push(line(9_500, Event::Left { processes: Vec::new(), exit: Some(0) }));
    lines
}

fn checked(mut lines: Vec<Line>) -> Vec<String> {
    lines.sort_by_key(|line| line.t);
    check(&lines, &Tempo::QUICK)
}

/// Whether something is wrong, and it is this.
#[track_caller]
fn assert_wrong(lines: Vec<Line>, what: &str) {
    let wrong = checked(lines);
    assert!(wrong.iter().any(|said| said.contains(what)), "{what:?} is not in {wrong:#?}");
}

#[track_caller]
fn assert_well(lines: Vec<Line>) {
    let wrong = checked(lines);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn is_of(event: &Event, call: &str) -> bool {
    match event {
        Event::Sent { call: name, .. }
        | Event::Progress { call: name, .. }
        | Event::Response { call: name }
        | Event::End { call: name, .. }
        | Event::Start { call: name, .. }
        | Event::Finish { call: name, .. } => name == call,
        _ => false,
    }
}

/// The run without what `lost` takes of the first call.
fn without(lost: impl Fn(&Event) -> bool) -> Vec<Line> {
    let mut lines = well();
    lines.retain(|line| !(is_of(&line.event, CALL) && lost(&line.event)));
    lines
}

/// The run with more.
fn with(more: impl IntoIterator<Item = Line>) -> Vec<Line> {
    let mut lines = well();
    lines.extend(more);
    lines
}

/// The run in which the first call ended otherwise, without a result.
fn ending(how: How) -> Vec<Line> {
    let mut lines = without(|event| matches!(event, Event::Response { .. } | Event::End { .. }));
    lines.push(line(1_950, Event::End { call: CALL.into(), how }));
    lines
}

fn fault(t: u64, client: &str, kind: FaultKind, id_ms: Option<u64>) -> Line {
    line(t, Event::Fault { client: client.into(), kind, id_ms })
}

fn lost() -> How {
    How::Lost { why: "reset".into() }
}

fn error(reason: &str, outcome: Option<&str>) -> How {
    let (reason, outcome) = (Some(reason.to_owned()), outcome.map(str::to_owned));
    How::Error { code: -32603, reason, outcome, message: "the process ended".into() }
}

#[test]
fn a_run_in_which_all_is_well() {
    assert_well(well());
    assert!(figures(&well()).contains("2 results"), "{}", figures(&well()));
}

#[test]
fn a_lost_result() {
    assert_wrong(without(|event| matches!(event, Event::End { .. })), "it never ended for its client");
    assert_wrong(ending(lost()), "no cut explains it");
    assert_wrong(ending(How::Timeout), "no cut explains it");
    assert_wrong(ending(How::Nothing), "nothing was left of it");
    assert_wrong(ending(How::Deleted), "nobody had ended it");
    assert_wrong(ending(How::Cancelled), "as if it were cancelled");
    assert_wrong(ending(How::Left), "without meaning to");
}

#[test]
fn a_cut_excuses_where_no_id_was_shown_and_nowhere_else() {
    let cut = |t, client, id_ms| {
        let mut lines = ending(lost());
        lines.push(fault(t, client, FaultKind::CutDown, id_ms));
        lines
    };
    assert_well(cut(MIDDLE, "raw-0.1", None));
    assert_well(cut(MIDDLE, "raw-0.1", Some(3)));
    assert_wrong(cut(MIDDLE, "raw-0.1", Some(1_000)), "no cut explains it");
    assert_wrong(cut(MIDDLE, "raw-1.0", None), "no cut explains it");
    assert_wrong(cut(500, "raw-0.1", None), "no cut explains it");
    let mut slow = ending(lost());
    slow.push(fault(MIDDLE, "raw-0.1", FaultKind::Slow, None));
    assert_wrong(slow, "no cut explains it");
    // A client that follows the protocol does not give up.
    let mut patient = ending(How::Timeout);
    patient.push(fault(MIDDLE, "raw-0.1", FaultKind::CutDown, None));
    assert_wrong(patient, "it never ended, and no cut explains it");
}

/// The run with the first call made by a client on an SDK.
fn by(client: &str, how: How) -> Vec<Line> {
    let text = serde_json::to_string(&ending(how)).unwrap();
    serde_json::from_str(&text.replace("raw-0.1", client)).unwrap()
}

#[test]
fn the_sdks_are_excused_where_they_are_known_to_give_up() {
    let cuts = |client: &str, how: How, count: u64, id_ms| {
        let mut lines = by(client, how);
        lines.extend((0..count).map(|n| fault(MIDDLE + n, client, FaultKind::CutAfter, id_ms)));
        lines
    };
    assert_well(cuts("py-0.1", lost(), 3, Some(900)));
    assert_wrong(cuts("py-0.1", lost(), 2, Some(900)), "no cut explains it");
    assert_wrong(cuts("ts1-0.1", lost(), 3, Some(900)), "no cut explains it");
    assert_well(cuts("ts1-0.1", How::Timeout, 1, None));
    assert_wrong(cuts("ts1-0.1", How::Timeout, 1, Some(900)), "no cut explains it");
    // What writes for a session of the Python SDK ends with a POST that is cut: later calls are not sent.
    let mut later = cuts("py-0.1", lost(), 0, None);
    later.push(fault(920, "py-0.1", FaultKind::CutUp, None));
    assert_wrong(later.clone(), "no cut explains it");
    later.retain(|line| !matches!(&line.event, Event::Start { call, .. } | Event::Finish { call, .. } if call.starts_with("py")));
    later.retain(|line| !matches!(&line.event, Event::Progress { call, .. } if call.starts_with("py")));
    assert_well(later);
}

#[test]
fn a_client_that_was_killed_is_excused_and_others_are_not() {
    let mut lines = by("ts1-0.1", lost());
    lines.retain(|line| !matches!(&line.event, Event::End { call, .. } if call.starts_with("ts1")));
    assert_wrong(lines.clone(), "it never ended for its client");
    let killed = |t, process: &str| {
        let mut lines = lines.clone();
        lines.push(line(t, Event::ClientKilled { process: process.into() }));
        lines
    };
    assert_well(killed(MIDDLE, "ts1-0"));
    assert_wrong(killed(MIDDLE, "ts1-1"), "it never ended for its client");
    assert_wrong(killed(900, "ts1-0"), "it never ended for its client");
    assert_wrong(killed(8_500, "ts1-0"), "it never ended for its client");
    // What has come is not lost any more.
    let mut come = killed(5_000, "ts1-0");
    come.push(line(1_940, Event::Response { call: CALL.replace("raw-0.1", "ts1-0.1") }));
    assert_wrong(come, "it never ended for its client");
}

#[test]
fn a_double_result() {
    let again = line(1_999, Event::Response { call: CALL.into() });
    assert_wrong(with([again]), "2 responses came");
    let how = How::Result { of: CALL.into(), good: true, asked: "none".into() };
    assert_wrong(with([line(1_999, Event::End { call: CALL.into(), how })]), "it ended 2 times");
}

#[test]
fn a_double_run() {
    assert_wrong(with([line(1_100, Event::Start { call: CALL.into(), pid: 12 })]), "it ran 2 times");
    let twice = [
        line(1_100, Event::Start { call: CALL.into(), pid: 11 }),
        line(1_950, Event::Finish { call: CALL.into(), pid: 11 }),
    ];
    assert_wrong(with(twice), "it ran 2 times");
    let strange = line(1_100, Event::Start { call: "raw-7.7/0.1.1".into(), pid: 11 });
    assert_wrong(with([strange]), "nobody has sent it");
}

#[test]
fn a_result_that_is_not_the_calls_own() {
    let result = |of: &str, good, asked: &str| How::Result { of: of.into(), good, asked: asked.into() };
    let ending = |how| {
        let mut lines = ending(how);
        lines.push(line(1_949, Event::Response { call: CALL.into() }));
        lines
    };
    assert_well(ending(result(CALL, true, "none")));
    assert_wrong(ending(result(OTHER, true, "none")), "that of another call");
    assert_wrong(ending(result(CALL, false, "none")), "not what the tool has written");
    assert_wrong(ending(result(CALL, true, "foreign")), "the answer to another one");
    assert_wrong(ending(result(CALL, true, "answered")), "answered without a question");
    assert_wrong(ending(result(CALL, true, "unanswered")), "nothing explains it");
    assert_wrong(
        without(|event| matches!(event, Event::Finish { .. })),
        "it has a result without having run to its end",
    );
    assert_wrong(without(|event| matches!(event, Event::Response { .. })), "that no response has brought");
}

#[test]
fn progress_that_is_repeated_foreign_or_out_of_order() {
    let progress = |t, of: &str, n| line(t, Event::Progress { call: CALL.into(), of: of.into(), n });
    assert_wrong(with([progress(1_650, CALL, 2)]), "progress 2 came after 2");
    assert_wrong(with([progress(1_950, CALL, 1)]), "progress 1 came after 3");
    assert_wrong(with([progress(1_950, CALL, 4)]), "progress 4 of 3 came");
    assert_wrong(with([progress(1_250, OTHER, 1)]), "progress of another call came");
    let missing = without(|event| matches!(event, Event::Progress { n: 2, .. }));
    assert_wrong(missing, "1 notifications of progress are missing");
}

#[test]
fn a_foreign_message() {
    let heard =
        |of: &str| line(1_300, Event::Heard { session: SESSION.into(), of: of.into(), what: "log".into() });
    assert_well(with([heard(CALL)]));
    assert_wrong(with([heard(OTHER)]), "log of another session came");
    assert_wrong(with([line(1_300, Event::Probe { status: 200 })]), "a session that is not his");
    assert_wrong(with([line(1_300, Event::Odd { what: "half a block".into() })]), "half a block");
}

#[test]
fn a_killed_process_ends_its_call_with_an_unknown_outcome() {
    let killed = |how: How, pid| {
        let mut lines = ending(how);
        lines.retain(|line| !(is_of(&line.event, CALL) && matches!(line.event, Event::Finish { .. })));
        lines.push(line(MIDDLE, Event::ChildKilled { pid }));
        lines
    };
    assert_well(killed(error("upstream_lost", Some("unknown")), 11));
    assert_wrong(killed(error("upstream_lost", Some("unknown")), 12), "an error that nothing explains");
    assert_wrong(killed(error("upstream_lost", None), 11), "an error that nothing explains");
    assert_wrong(killed(error("abandoned", Some("unknown")), 11), "an error that nothing explains");
    assert_wrong(ending(error("upstream_lost", Some("unknown"))), "an error that nothing explains");
}

#[test]
fn a_kind_of_client_that_is_always_excused() {
    let mut lines = well();
    for n in 2..14 {
        let name = format!("{SESSION}.{n}");
        lines.extend(call(&name, 11, 3_000 + n));
        lines.retain(|line| {
            !(is_of(&line.event, &name) && matches!(line.event, Event::Response { .. } | Event::End { .. }))
        });
        lines.push(line(3_900, Event::End { call: name, how: lost() }));
    }
    lines.push(fault(3_800, "raw-0.1", FaultKind::CutDown, None));
    assert_wrong(lines, "of 14 calls of clients raw only 2 had a result");
}

#[test]
fn what_is_refused_does_not_run() {
    assert_wrong(ending(How::Refused { status: 429 }), "it was refused, and ran");
}

#[test]
fn work_is_not_dropped_and_stops_when_it_is_told() {
    let dropped = |intent: Intent| {
        let mut lines = without(|event| {
            matches!(event, Event::Finish { .. } | Event::Response { .. } | Event::End { .. })
        });
        for line in &mut lines {
            if let Event::Sent { call, intent: sent, .. } = &mut line.event
                && call == CALL
            {
                *sent = intent;
            }
        }
        lines.push(line(1_600, Event::Stopped { call: CALL.into(), pid: 11 }));
        let how = if intent == Intent::Leave { How::Left } else { How::Cancelled };
        lines.push(line(1_600, Event::End { call: CALL.into(), how }));
        lines
    };
    assert_well(dropped(Intent::Cancel));
    assert_wrong(dropped(Intent::Leave), "it began to run and was dropped");

    let late = |taken: Event| {
        let mut lines = well();
        lines.push(line(1_100, taken));
        for line in &mut lines {
            if let Event::Finish { call, .. } = &line.event
                && call == CALL
            {
                line.t = 8_000;
            }
        }
        lines
    };
    assert_wrong(late(Event::CancelTaken { call: CALL.into() }), "ran on after a cancel");
    let deleted = Event::Closed { session: SESSION.into(), parting: Parting::Deleted };
    assert_wrong(late(deleted), "ran on after a DELETE");
}

#[test]
fn what_takes_longer_than_its_bound_is_late() {
    let mut lines = well();
    for line in &mut lines {
        if is_of(&line.event, CALL) && matches!(line.event, Event::End { .. } | Event::Response { .. }) {
            line.t = 8_500;
        }
    }
    assert_wrong(lines, "its bound was 5000 ms");
}

#[test]
fn a_session_that_is_gone_too_early() {
    let gone = |idle_ms| line(3_000, Event::Gone { session: SESSION.into(), idle_ms });
    assert_well(with([gone(Tempo::QUICK.session_ttl + 10)]));
    assert_wrong(with([gone(Tempo::QUICK.session_ttl - 10)]), "gone after");
    assert_wrong(ending(How::Expired { idle_ms: Tempo::QUICK.session_ttl - 10 }), "gone too early");
    assert_well(ending(How::Expired { idle_ms: Tempo::QUICK.session_ttl }));
}

/// The run with an hour of samples, `of` what they show at each minute.
fn long(of: impl Fn(u64) -> (u64, u64, u64)) -> Vec<Line> {
    let samples = (0..60).map(|minute| {
        let mut line = sample(10_000 + minute * 60_000, Phase::Load, 2);
        if let Event::Sample(sample) = &mut line.event {
            (sample.rss_kib, sample.fds, sample.children) = of(minute);
        }
        line
    });
    let mut lines = with(samples);
    for line in &mut lines {
        let end = matches!(&line.event, Event::Sample(Sample { phase: Phase::End, .. }) | Event::Left { .. });
        line.t += if end { 4_000_000 } else { 0 };
    }
    lines
}

#[test]
fn what_the_program_holds_stays_the_same() {
    // It may grow until all is warm, and go up and down.
    assert_well(long(|minute| (40_000 + minute.min(10) * 2_000 + minute % 7 * 500, 100 + minute % 5, 50)));
    assert_wrong(long(|minute| (40_000 + minute * 400, 100, 50)), "memory grew by 400 KiB a minute");
    assert_wrong(long(|minute| (if minute == 20 { 900_000 } else { 40_000 }, 100, 50)), "memory went from");
    assert_wrong(long(|minute| (40_000, 100 + minute * 10, 50)), "descriptors went from");
    assert_wrong(long(|minute| (40_000, 100, 50 + minute * 5)), "processes of the tool went from");
}

#[test]
fn numbers_that_do_not_agree_and_what_is_left() {
    let doctored = |name: &str, value: u64| {
        let mut lines = well();
        for line in &mut lines {
            if let Event::Sample(sample) = &mut line.event
                && sample.phase == Phase::End
            {
                sample.metrics.insert(name.to_owned(), value);
            }
        }
        lines
    };
    assert_wrong(doctored("sessions", 1), "at the end sessions is Some(1)");
    assert_wrong(doctored("calls", 2), "at the end calls is Some(2)");
    assert_wrong(doctored("results_waiting", 1), "at the end results_waiting is Some(1)");
    assert_wrong(doctored("calls_succeeded", 1), "calls_succeeded is 1, but clients have seen 2");
    assert_wrong(doctored("sessions_opened", 1), "sessions_opened is 1");
    assert_wrong(doctored("children_died", 1), "0 were killed");
    assert_wrong(doctored("panics", 1), "1 handlers panicked");
    let ended = |processes: &[&str], exit| {
        let mut lines = well();
        lines.retain(|line| !matches!(line.event, Event::Left { .. }));
        let processes = processes.iter().map(|&process| process.to_owned()).collect();
        lines.push(line(9_900, Event::Left { processes, exit }));
        lines
    };
    assert_wrong(ended(&["7 bowline-soak-tool"], Some(0)), "10 s after the end there was still");
    assert_wrong(ended(&[], Some(1)), "the program ended with Some(1)");
    assert_wrong(ended(&[], None), "the program ended with None");
    let mut endless = well();
    endless.retain(|line| !matches!(line.event, Event::Left { .. }));
    assert_wrong(endless, "the run has no end");
    assert_wrong(vec![], "nobody has called");
}
