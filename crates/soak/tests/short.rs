//! A short soak with everything in it: clients of all kinds, cuts, kills. It has to be clean; and the checker, given the same journals
//! with one line doctored, has to complain.
//!
//! The seed is fixed; `BOWLINE_E2E_SEED` gives another one.

use bowline_soak::{
    check::check,
    journal::{Event, How, Line, read},
    options::Tempo,
};
use bowline_testkit::Dir;
use std::process::Command;

#[test]
fn a_short_soak_is_clean_and_its_checker_can_fail() {
    let dir = Dir::new();
    let seed = std::env::var("BOWLINE_E2E_SEED").unwrap_or_else(|_| "20261130".into());
    let mut soak = Command::new(env!("CARGO_BIN_EXE_bowline-soak"));
    soak.args(["--minutes", "0.33", "--clients", "24", "--seed", &seed, "--logs"]).arg(dir.path());
    let output = soak.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        // Kept: what happened has to be there to be looked at.
        std::mem::forget(dir);
        panic!("{}:\n{said}", output.status);
    }

    let lines = read(dir.path()).unwrap();
    assert!(check(&lines, &Tempo::QUICK).is_empty());
    let mut doctored_some = false;
    for group in ["raw-", "ts1-", "ts2-", "py-", "rmcp-"] {
        let results = lines.iter().filter(|line| {
            matches!(&line.event, Event::End { call, how: How::Result { .. } } if call.starts_with(group))
        });
        let results: Vec<_> = results.collect();
        // A process of two clients that is killed early may have none; that its clients work at all has to be seen.
        let opened =
            |line: &Line| matches!(&line.event, Event::Opened { session } if session.starts_with(group));
        assert!(lines.iter().any(opened), "{group} has opened no session:\n{said}");
        // Where the client was killed just afterwards, losing the result would be excused.
        if let Some(line) = results.into_iter().find(|line| !is_killed_after(&lines, line)) {
            doctored(&lines, line);
            doctored_some = true;
        }
    }
    assert!(doctored_some);
    let killed = lines.iter().filter(|line| matches!(line.event, Event::ChildKilled { .. })).count();
    let resumed = lines.iter().filter(|line| matches!(line.event, Event::Resumed { .. })).count();
    let cut =
        lines.iter().filter(|line| matches!(&line.event, Event::Fault { kind, .. } if kind.cuts())).count();
    assert!(killed > 3 && resumed > 5 && cut > 10, "{killed} killed, {resumed} resumed, {cut} cut:\n{said}");
}

/// Whether the process of a call's client was killed after it.
fn is_killed_after(lines: &[Line], result: &Line) -> bool {
    let Event::End { call, .. } = &result.event else { panic!("{result:?}") };
    lines.iter().any(|line| match &line.event {
        Event::ClientKilled { process } => line.t >= result.t && call.starts_with(&format!("{process}.")),
        _ => false,
    })
}

/// The journals with one of these changes are wrong.
fn doctored(lines: &[Line], result: &Line) {
    let Event::End { call, .. } = &result.event else { panic!("{result:?}") };
    let again = |wanted: fn(&Event, &str) -> bool| {
        let line = lines.iter().find(|line| wanted(&line.event, call));
        line.unwrap_or_else(|| panic!("nothing of {call} to repeat")).clone()
    };
    let mut lost = lines.to_vec();
    lost.retain(|line| line != result);
    let mut foreign = lines.to_vec();
    foreign.push(Line {
        t: result.t,
        event: Event::Progress { call: call.clone(), of: "raw-9.9/0.1.1".into(), n: 1 },
    });
    let mut twice = lines.to_vec();
    twice.push(again(|event, call| matches!(event, Event::Response { call: name } if name == call)));
    let mut run_twice = lines.to_vec();
    run_twice.push(again(|event, call| matches!(event, Event::Start { call: name, .. } if name == call)));
    for (what, lines) in [("lost", lost), ("foreign", foreign), ("twice", twice), ("run twice", run_twice)] {
        let wrong = check(&lines, &Tempo::QUICK);
        assert!(wrong.iter().any(|said| said.contains(call.as_str())), "{what}: {call} is not in {wrong:?}");
    }
}
