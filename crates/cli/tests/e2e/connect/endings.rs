//! How it ends: with stdin, with a signal, with a server that says nothing any more.

use super::host::Host;
use crate::common::fixture;
use bowline_testkit::{PATIENCE, eventually, processes};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

#[tokio::test]
async fn the_end_of_stdin_waits_for_answers_and_ends_the_session() {
    let program = fixture().start().await;
    let mut host = Host::start(&[program.url()]);
    host.initialize().await;
    host.calls(1, "slow", json!({ "ms": 1500 })).await;
    host.leaves();
    assert_eq!(host.text(1).await, "slow: 1500 ms, 0 progress");
    assert_eq!(host.end().await.code, Some(0));
    eventually("the end of the session's server", PATIENCE, || program.servers().is_empty()).await;
}

#[tokio::test]
async fn what_runs_too_long_is_cancelled() {
    let program = fixture().start().await;
    let mut host = Host::start(&[program.url(), "--drain-timeout", "500ms"]);
    host.initialize().await;
    host.calls(1, "slow", json!({ "ms": 60_000 })).await;
    program.has_received("the call", |message| message["method"] == "tools/call").await;
    let began = Instant::now();
    assert_eq!(host.end().await.code, Some(0));
    assert!((Instant::now() - began).as_secs() < 10);
    eventually("the end of the session's server", PATIENCE, || program.servers().is_empty()).await;
}

#[tokio::test]
async fn a_signal_ends_it_at_once() {
    let program = fixture().start().await;
    for signal in [Signal::TERM, Signal::INT] {
        let mut host = Host::start(&[program.url()]);
        host.initialize().await;
        host.calls(1, "slow", json!({ "ms": 60_000 })).await;
        program.has_received("the call", |message| message["method"] == "tools/call").await;
        let began = Instant::now();
        host.signal(signal);
        let ended = host.end().await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!((Instant::now() - began).as_secs() < 10);
    }
}

/// DELETE is bounded: the server is there, and says nothing.
#[tokio::test]
async fn a_server_that_hangs_does_not_hold_it() {
    let program = fixture().start().await;
    let mut host = Host::start(&[program.url()]);
    host.initialize().await;
    processes::signal(program.pid(), Signal::STOP);
    eventually("all its threads stand still", PATIENCE, || is_stopped(program.pid())).await;
    let began = Instant::now();
    let ended = host.end().await;
    processes::signal(program.pid(), Signal::CONT);
    assert_eq!(ended.code, Some(0));
    let took = Instant::now() - began;
    assert!((1..8).contains(&took.as_secs()), "it asked, and waited 2 s: {took:?}: {}", ended.stderr);
}

fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.into_iter().all(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
        // A thread that is gone by now does nothing either.
        stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    })
}
