//! How it ends: with stdin, with a signal, with a server that says nothing any more.

use super::host::Host;
use crate::{
    common::fixture,
    support::{bowline, soon},
};
use bowline_testkit::{PATIENCE, eventually, processes};
use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::json;
use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
    process::Stdio,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::Instant,
};

#[tokio::test]
async fn the_end_of_stdin_waits_for_answers_and_ends_the_session() {
    let program = fixture().start().await;
    let mut host = Host::start(&[program.url(), "--era", "legacy"]);
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
    let mut host = Host::start(&[program.url(), "--era", "legacy", "--drain-timeout", "500ms"]);
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

/// Without a terminal there is none that was closed, and nothing to read again.
#[tokio::test]
async fn a_hang_up_is_ignored_without_a_terminal() {
    let program = fixture().start().await;
    let mut host = Host::start(&[program.url(), "--era", "legacy"]);
    host.initialize().await;
    host.calls(1, "slow", json!({ "ms": 300 })).await;
    host.signal(Signal::HUP);
    assert_eq!(host.text(1).await, "slow: 300 ms, 0 progress");
    let ended = host.end().await;
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("SIGHUP is ignored"), "{}", ended.stderr);
}

/// The terminal of whoever started it was closed.
#[tokio::test]
async fn a_hang_up_of_its_terminal_ends_it() {
    let program = fixture().start().await;
    let (person, terminal) = terminal();
    let mut command = bowline(&["connect", program.url(), "--era", "legacy"]);
    let mut process = command.stdin(Stdio::piped()).stderr(terminal).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "h", "version": "1" } } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "slow", "arguments": { "ms": 60_000 } } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    stdin.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    let mut stdout = BufReader::new(process.stdout.take().unwrap()).lines();
    soon("an answer", stdout.next_line()).await.unwrap().unwrap();
    stdin.write_all(format!("{ready}\n{call}\n").as_bytes()).await.unwrap();
    program.has_received("the call", |message| message["method"] == "tools/call").await;
    processes::signal(process.id().unwrap(), Signal::HUP);
    assert_eq!(soon("its end", process.wait()).await.unwrap().code(), Some(0));
    drop((stdin, person));
    eventually("the end of the session's server", PATIENCE, || program.servers().is_empty()).await;
}

/// The two sides of a terminal.
fn terminal() -> (OwnedFd, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let path = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
    let flags = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
    let terminal = File::options().read(true).write(true).custom_flags(flags).open(path).unwrap();
    (person, terminal)
}

/// DELETE is bounded: the server is there, and says nothing.
#[tokio::test]
async fn a_server_that_hangs_does_not_hold_it() {
    let program = fixture().start().await;
    let mut host = Host::start(&[program.url(), "--era", "legacy"]);
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
