//! `bowline demo` as a stranger runs it.

use crate::support::{bowline, run};

#[tokio::test]
async fn it_ends_well_and_a_pipe_gets_plain_text() {
    let mut command = bowline(&["demo", "--seconds", "2"]);
    // What would force colours into a pipe.
    command.env_remove("CLICOLOR_FORCE");
    let ended = run(command).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    for part in ["CUT", "hangs up", "Nothing lost, nothing twice.", "bowline serve -- npx"] {
        assert!(ended.stdout.contains(part), "no `{part}` in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\x1b'), "{:?}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| line.len() <= 100), "{}", ended.stdout);
}

#[tokio::test]
async fn wrong_usage_is_2() {
    for args in [&["demo", "--seconds", "1"][..], &["demo", "--fast", "--seconds", "5"]] {
        let ended = run(bowline(args)).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("--seconds"), "{}", ended.stderr);
    }
}

/// Processes are started, killed and told to leave; what is left is a verdict.
#[tokio::test]
async fn a_killed_backend_costs_an_error_and_nothing_else() {
    let ended = run(bowline(&["demo", "--kill", "--fast"])).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    for part in [
        "the wire is CUT",
        "A is KILLED",
        "owner_lost, outcome unknown",
        "B has left, exit code 0",
        "RESULT: 210",
        "RESULT: 6",
        "Nothing lost in silence, nothing run twice.",
    ] {
        assert!(ended.stdout.contains(part), "no `{part}` in {}", ended.stdout);
    }
    assert!(ended.stdout.lines().all(|line| line.len() <= 100), "{}", ended.stdout);
}
