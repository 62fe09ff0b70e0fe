//! One machine: an old and a new process share an address and a store file.

use super::{
    Fleet,
    calls::{End, arguments, job},
    ledger, long, new_ledger,
};
use crate::{
    common::{assert_serves, fixture},
    support::Served,
};
use bowline_testkit::{Dir, Session, free_port, patiently, text_of};
use rustix::process::Signal;
use serde_json::json;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

const OPTIONS: &str = "--json-hold 100ms --max-connection 700ms --retry 200ms";

fn on(dir: &Dir, options: &str) -> String {
    format!("--store sqlite:{} {OPTIONS} {options}", dir.join("store.db").display())
}

/// A new process beside the old one, then the old one is told to leave, again and again, under clients that make connection after
/// connection. Nothing is refused, nothing is reset, nothing is lost.
#[tokio::test]
async fn a_rolling_restart_drops_nothing() {
    let rounds = if long() { 20 } else { 3 };
    let dir = Dir::new();
    let options = on(&dir, "--reuse-port --drain-timeout 20s");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut current = fixture().with(&options).listen(address).start().await;
    let (_folder, file) = new_ledger();
    let (over, number) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for worker in 0..6_u64 {
        let session = Session::start(address, "2025-11-25").await;
        let (over, number, file) = (over.clone(), number.clone(), file.clone());
        clients.push(tokio::spawn(async move {
            let (mut jobs, mut quick) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                if worker < 3 {
                    let key = format!("k{}", number.fetch_add(1, Ordering::Relaxed));
                    let ms = 50 + 400 * (jobs % 5);
                    let ended = job(&session, &[address], 0, arguments(&file, &key, ms)).await;
                    assert_eq!(ended.unanswered, 0, "{ended:?}");
                    match &ended.end {
                        End::Response(response) => assert_eq!(text_of(response), format!("job {key}: -")),
                        other => panic!("{key}: {other:?}"),
                    }
                    jobs += 1;
                } else {
                    let text = format!("{worker}.{quick}");
                    assert_eq!(session.call_for_text("echo", json!({ "text": text })).await, text);
                    quick += 1;
                }
            }
            (jobs, quick)
        }));
    }
    let (mut longest, began) = (Duration::ZERO, Instant::now());
    for _ in 0..rounds {
        let next = fixture().with(&options).listen(address).start().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left = Instant::now();
        current.terminate();
        assert_eq!(current.wait().await.code(), Some(0), "{}", current.said());
        longest = longest.max(Instant::now() - left);
        current = next;
        assert!(clients.iter().all(|client| !client.is_finished()), "the clients work all the time");
    }
    over.store(true, Ordering::Relaxed);
    let (mut jobs, mut quick) = (0, 0);
    for client in clients {
        let (of_jobs, of_quick) = client.await.expect("nothing is dropped");
        jobs += of_jobs;
        quick += of_quick;
    }
    eprintln!(
        "{rounds} restarts in {:?}, none took more than {longest:?}: {jobs} jobs, {quick} quick calls",
        (Instant::now() - began)
    );
    let ledger = ledger(&file);
    assert_eq!(ledger.len() as u64, jobs);
    assert!(ledger.values().all(|job| *job == (1, 1)), "{ledger:?}");
    assert!(jobs > 10 && quick > 10);
}

/// SIGKILL, and a new process on the same file: sessions live on, results that were there are given out, and calls that ran end with an
/// error.
#[tokio::test]
async fn a_killed_process_leaves_its_sessions_and_results() {
    let dir = Dir::new();
    let mut fleet = Fleet::start(1, &on(&dir, "")).await;
    let address = fleet.addresses()[0];
    let (_folder, file) = new_ledger();
    let session = Session::start(address, "2025-11-25").await;
    let other = Session::start(address, "2025-06-18").await;
    let mut parked = Vec::new();
    for (key, ms) in [("done", 300), ("runs", 60_000)] {
        let mut answer = session.post(&session.tool("job", &arguments(&file, key, ms))).await;
        let cursor = answer.block().await.expect("a priming event").id.expect("with an id");
        answer.abort();
        parked.push(cursor);
    }
    bowline_testkit::eventually("one has ended", Duration::from_secs(10), || {
        ledger(&file).get("done").is_some_and(|job| job.1 == 1)
    })
    .await;
    // Its result is on its way into the store.
    patiently("its result is kept", async {
        while crate::production::metrics(&fleet.backends[0]).await["bowline_calls"] > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    fleet.backends[0].kill();
    let killed = Instant::now();
    patiently("its end", fleet.backends[0].wait()).await;
    fleet.replace(0).await;
    eprintln!("back after {:?}", Instant::now() - killed);
    assert_serves(&session).await;
    assert_serves(&other).await;
    let result = session.finish(session.get(Some(&parked[0])).await).await;
    assert_eq!(text_of(&result), "job done: -");
    let (messages, _) = session.poll(session.get(Some(&parked[1])).await).await;
    let error = &messages.last().unwrap()["error"];
    assert_eq!(error["data"], json!({ "reason": "owner_lost", "outcome": "unknown" }), "{messages:?}");
    let took = Instant::now() - killed;
    eprintln!("told {took:?} after the kill");
    assert!(took < Duration::from_secs(21), "{took:?}");
    assert_serves(&session).await;
    assert_eq!(ledger(&file)["runs"].0, 1);
}

/// A socket that is handed over as systemd does it, to one process after the other, as `systemctl restart` does it: whoever connects
/// meanwhile waits, and is served.
#[tokio::test]
async fn a_socket_that_is_handed_over_refuses_nobody() {
    let dir = Dir::new();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (_folder, file) = new_ledger();
    let fixture = bowline_testkit::repository().join("tests/fixtures/fixture_server.py");
    let start = || {
        let mut command = tokio::process::Command::new("sh");
        // The first socket is descriptor 3, and it is for the process of this id only.
        command
            .args(["-c", "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"", "sh"])
            .arg(std::env::var_os("BOWLINE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_bowline").into()))
            .arg("serve")
            .args(on(&dir, "--drain-timeout 20s").split(' ').filter(|word| !word.is_empty()))
            .args(["--", "python3", "-B"])
            .arg(&fixture)
            .stdin(std::os::fd::OwnedFd::from(socket.try_clone().unwrap()))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        Served::spawn(command)
    };
    let first = start().await;
    let session = Session::start(address, "2025-11-25").await;
    let mut running = session.post(&session.tool("job", &arguments(&file, "over", 2_000))).await;
    let cursor = running.block().await.expect("a priming event").id.expect("with an id");
    first.signal(Signal::TERM);
    running.blocks().await;
    // From now on until the second one is there, nobody accepts.
    let waiting: Vec<_> = (0..20)
        .map(|number| {
            let session = session.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(200 * number)).await;
                let text = number.to_string();
                assert_eq!(session.call_for_text("echo", json!({ "text": text })).await, text);
            })
        })
        .collect();
    let ended = first.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let second = start().await;
    for client in waiting {
        client.await.expect("nobody is refused");
    }
    let result = session.finish(session.get(Some(&cursor)).await).await;
    assert_eq!(text_of(&result), "job over: -");
    assert_eq!(ledger(&file)["over"], (1, 1));
    second.signal(Signal::TERM);
    assert_eq!(second.end().await.code, Some(0));
}
