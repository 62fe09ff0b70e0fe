//! The ways a server dies (J3), and the starts that fail.

use std::time::Duration;

use bowline_gateway::child::{Child, ChildSpec, Environment, ExitReason, Guard, SendError, SpawnError};
use tokio::time::Instant;

use crate::support::{Dir, PATIENCE, all_gone, line, rest, sh, spawn, start_guard};

/// Answers one line and then dies in the given way. Returns how, and how long it took to notice.
async fn die(guard: &Guard, death: &str) -> (ExitReason, Duration) {
    let (child, mut lines) = spawn(&format!("read x; echo \"got $x\"; read y; echo last; {death}"), guard);
    child.send("one".into()).await.unwrap();
    assert_eq!(line(&mut lines).await, "got one");
    assert_eq!(child.exit(), None);
    child.send("two".into()).await.unwrap();
    assert_eq!(line(&mut lines).await, "last");
    let start = Instant::now();
    let (left, exit) = rest(&mut lines).await;
    let noticed = Instant::now() - start;
    assert_eq!(left, [""; 0]);
    assert!(!exit.requested);
    assert_eq!(child.exit().as_ref(), Some(&exit));
    let refused = child.send("three".into()).await.unwrap_err();
    assert_eq!(refused, SendError::Closed { name: "sh".into() });
    all_gone(&[child.pid()], PATIENCE).await;
    (exit.reason, noticed)
}

#[tokio::test]
async fn every_death_is_told_within_a_second() {
    for guard in [Guard::none(), start_guard()] {
        for (death, reason) in [
            ("exit 0", ExitReason::Code(0)),
            ("exit 1", ExitReason::Code(1)),
            ("exit 127", ExitReason::Code(127)),
            ("kill -9 $$", ExitReason::Signal(9)),
            ("exec >&-; sleep 600", ExitReason::StdoutClosed),
        ] {
            let mut noticed = Vec::new();
            // The machine may be busy: what is told too late is so every time.
            while noticed.len() < 3 && noticed.last().is_none_or(|noticed| *noticed >= Duration::from_secs(1))
            {
                let (told, after) = die(&guard, death).await;
                assert_eq!(told, reason, "{death}");
                noticed.push(after);
            }
            assert!(
                noticed[noticed.len() - 1] < Duration::from_secs(1),
                "{death} was told after {noticed:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_silent_process_is_not_a_dead_one_and_can_be_stopped() {
    let (child, mut lines) = spawn("echo up; exec sleep 600", &Guard::none());
    line(&mut lines).await;
    assert!(tokio::time::timeout(Duration::from_millis(400), lines.recv()).await.is_err());
    assert_eq!(child.exit(), None);
    let exit = child.shutdown(Duration::ZERO).await;
    assert_eq!((exit.reason.clone(), exit.requested), (ExitReason::Signal(15), true));
    assert_eq!(rest(&mut lines).await, (vec![], exit));
}

#[tokio::test]
async fn lines_written_before_the_exit_come_before_it_also_to_a_slow_receiver() {
    let mut spec =
        sh("i=0; while [ $i -lt 2000 ]; do echo \"line $i\"; i=$((i+1)); done; printf 'no line end'");
    spec.queue.receive_lines = 1;
    let (child, mut lines) = Child::spawn(spec, &Guard::none()).unwrap();
    let mut got = Vec::new();
    for _ in 0..1900 {
        got.push(line(&mut lines).await); // by now the process may be through, with a full pipe behind it
    }
    // Longer than the time for which stdout is read after the exit.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (left, exit) = rest(&mut lines).await;
    got.extend(left);
    assert_eq!(got.len(), 2001);
    assert_eq!(
        (got[0].as_str(), got[1999].as_str(), got[2000].as_str()),
        ("line 0", "line 1999", "no line end")
    );
    assert_eq!(exit.reason, ExitReason::Code(0));
    assert_eq!(child.stats().lines, 2001);
}

#[tokio::test]
async fn last_words_on_stderr_are_kept() {
    let (_child, mut lines) =
        spawn("echo first >&2; echo 'cannot find config.json' >&2; exit 3", &Guard::none());
    let (_, exit) = rest(&mut lines).await;
    assert_eq!(exit.stderr_tail, "first\ncannot find config.json");
    assert!(exit.to_string().starts_with("exited with code 3 after "), "{exit}");
}

#[tokio::test]
async fn programs_that_cannot_run_say_why() {
    let dir = Dir::new();
    let none = [] as [&str; 0];
    let lost = dir.script("lost-interpreter", b"#!/no/such/interpreter\n");
    let alien = dir.script("alien", b"\x7fELFnot for this machine");
    for (path, words) in
        [(&lost, "interpreter named in its first line"), (&alien, "not a program this machine can run")]
    {
        let plain = Child::spawn(ChildSpec::new(path, none), &Guard::none()).unwrap_err();
        assert!(matches!(plain, SpawnError::Refused { .. }) && plain.to_string().contains(words), "{plain}");
    }
    let (_child, mut lines) = Child::spawn(ChildSpec::new(&lost, none), &start_guard()).unwrap();
    let (left, exit) = rest(&mut lines).await;
    assert_eq!(left, [""; 0]);
    let expected = "interpreter named in its first line";
    assert!(matches!(&exit.reason, ExitReason::NotStarted(why) if why.contains(expected)), "{exit}");
    let missing = Child::spawn(ChildSpec::new("no-such-server", none), &start_guard()).unwrap_err();
    assert!(missing.to_string().contains("\"no-such-server\" was not found in PATH"), "{missing}");
}

#[tokio::test]
async fn environment_and_directory_are_those_of_the_spec() {
    let dir = Dir::new();
    for guard in [Guard::none(), start_guard()] {
        let mut spec = sh("pwd; echo \"$A-$HOME-$#\"");
        spec.environment = Environment::only(["PATH"]).set("A", "b c");
        spec.cwd = Some(dir.0.clone());
        let (_child, mut lines) = Child::spawn(spec, &guard).unwrap();
        let (left, _) = rest(&mut lines).await;
        assert_eq!(left, [dir.0.canonicalize().unwrap().to_str().unwrap(), "b c--0"]);
    }
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let error = Child::spawn(sh("true"), &Guard::none()).unwrap_err();
    assert!(matches!(error, SpawnError::NoRuntime { .. }));
}
