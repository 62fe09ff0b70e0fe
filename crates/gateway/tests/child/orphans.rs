//! Nothing is left of a process (J4): wrappers, grandchildren, those that ignore SIGTERM.

use std::time::Duration;

use bowline_gateway::child::{ExitReason, Guard, Lines};
use tokio::time::Instant;

use crate::support::{PATIENCE, all_gone, line, rest, spawn, start_guard};

/// A wrapper and a sleeping grandchild, both deaf to SIGTERM and to the end of stdin. Prints the grandchild's pid.
pub(crate) const DEAF: &str = "trap '' TERM; sleep 600 & echo $!; sleep 600; wait";

async fn grandchild(lines: &mut Lines) -> u32 {
    line(lines).await.parse().unwrap()
}

#[tokio::test]
async fn shutdown_ends_the_whole_group() {
    for guard in [Guard::none(), start_guard()] {
        let (child, mut lines) = spawn(DEAF, &guard);
        let grandchild = grandchild(&mut lines).await;
        let exit = child.shutdown(Duration::from_millis(50)).await;
        assert_eq!((exit.reason, exit.requested), (ExitReason::Signal(9), true));
        all_gone(&[child.pid(), grandchild], PATIENCE).await;
    }
}

#[tokio::test]
async fn drop_ends_the_whole_group_in_the_background() {
    let (child, mut lines) = spawn(DEAF, &Guard::none());
    let pids = [child.pid(), grandchild(&mut lines).await];
    let start = Instant::now();
    let asked = child.shutdown(Duration::ZERO);
    drop(tokio::time::timeout(Duration::ZERO, asked).await); // once polled it goes on without its caller
    drop(child);
    assert!(Instant::now() - start < Duration::from_secs(1));
    all_gone(&pids, PATIENCE).await;
    assert!(rest(&mut lines).await.1.requested);
}

#[tokio::test]
async fn plain_drop_is_a_shutdown_with_the_usual_grace() {
    let (child, mut lines) = spawn("echo up; cat; echo bye; exit 7", &Guard::none());
    line(&mut lines).await;
    let pid = child.pid();
    drop(child);
    let (left, exit) = rest(&mut lines).await;
    assert_eq!((left, exit.reason, exit.requested), (vec!["bye".to_owned()], ExitReason::Code(7), true));
    all_gone(&[pid], PATIENCE).await;
}

#[test]
fn a_dropped_runtime_kills_and_reaps() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (pids, mut lines, _child) = runtime.block_on(async {
        let (child, mut lines) = spawn(DEAF, &Guard::none());
        ([child.pid(), grandchild(&mut lines).await], lines, child)
    });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(all_gone(&pids, PATIENCE));
    let (_, exit) = runtime.block_on(rest(&mut lines));
    assert_eq!(exit.reason, ExitReason::Lost);
}

#[tokio::test]
async fn survivors_of_the_leader_are_ended_and_do_not_hold_up_its_exit() {
    for guard in [Guard::none(), start_guard()] {
        // The grandchild keeps stdout open and ignores SIGTERM.
        let (child, mut lines) = spawn("trap '' TERM; sleep 600 & echo $!; echo last; exit 5", &guard);
        let grandchild = grandchild(&mut lines).await;
        let start = Instant::now();
        let (left, exit) = rest(&mut lines).await;
        assert!(Instant::now() - start < Duration::from_secs(10));
        assert_eq!((left, exit.reason), (vec!["last".to_owned()], ExitReason::Code(5)));
        all_gone(&[child.pid(), grandchild], PATIENCE).await;
    }
}

#[tokio::test]
async fn a_wrapped_server_gets_time_to_leave_after_sigterm() {
    // The wrapper dies of SIGTERM at once; the server behind it has something to save first.
    let script = "(trap 'sleep 0.1; echo saved; exit 0' TERM; echo $$; while :; do sleep 0.02; done) & wait";
    let (child, mut lines) = {
        let mut spec = crate::support::sh(script);
        spec.kill_grace = Duration::from_secs(10);
        bowline_gateway::child::Child::spawn(spec, &Guard::none()).unwrap()
    };
    line(&mut lines).await;
    child.shutdown(Duration::ZERO).await;
    assert_eq!(rest(&mut lines).await.0, ["saved"]);
}

#[tokio::test]
async fn a_hundred_cycles_leave_nothing() {
    let guard = start_guard();
    for _ in 0..100 {
        let (child, mut lines) = spawn("sleep 600 & echo $!; cat", &guard);
        let grandchild = grandchild(&mut lines).await;
        child.shutdown(Duration::from_secs(5)).await;
        all_gone(&[child.pid(), grandchild], PATIENCE).await;
    }
}
