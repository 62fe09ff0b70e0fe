//! Crowds that mean no good: memory stays flat, everyone else is served, and what is refused is told why.

use super::{metrics, resident};
use crate::common::{assert_serves, ping, serve};
use bowline_testkit::{Answer, Program, Raw, Session, initialize};
use serde_json::json;
use std::time::Duration;
use tokio::{net::TcpStream, task::JoinSet, time::Instant};

/// Asserts that somebody who comes now is served, soon.
async fn serves_a_newcomer(program: &Program, what: &str) {
    let before = Instant::now();
    let session = program.client().await;
    for _ in 0..5 {
        assert_serves(&session).await;
    }
    session.delete().await;
    let took = Instant::now() - before;
    eprintln!("{what}: a newcomer took {took:?}, {:.1} MiB", resident(program));
    assert!(took < Duration::from_secs(10), "{what}: a newcomer took {took:?}");
}

/// Opens so many connections.
async fn connections(program: &Program, count: usize) -> Vec<TcpStream> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let mut some = JoinSet::new();
        for _ in 0..200.min(count - all.len()) {
            some.spawn(TcpStream::connect(program.address()));
        }
        while let Some(stream) = some.join_next().await {
            all.push(stream.unwrap().unwrap());
        }
    }
    all
}

#[tokio::test]
async fn ten_thousand_connections_that_say_nothing() {
    // This process holds as many as the program does.
    let limit = bowline_server::raise_file_limit();
    assert!(limit > 10_500, "the limit of open files is {limit}; 10500 are needed here");
    let program = serve("--child shared --max-connections 10000").await;
    let session = program.client().await;
    assert_serves(&session).await;
    let empty = resident(&program);
    let began = Instant::now();
    let silent = connections(&program, 10_000).await;
    eprintln!("opened in {:?}", Instant::now() - began);
    let full = resident(&program);
    serves_a_newcomer(&program, "10,000 silent connections").await;
    assert_serves(&session).await;
    let seen = metrics(&program).await;
    eprintln!(
        "{empty:.1} MiB before, {full:.1} MiB with them, {} displaced",
        seen["bowline_connections_displaced_total"]
    );
    assert!(full - empty < 150.0, "15 KiB each at most: {empty:.1} to {full:.1} MiB");
    assert!(
        seen["bowline_connections"] <= 10_000 && seen["bowline_connections_displaced_total"] > 0,
        "{seen:#?}"
    );
    let began = Instant::now();
    drop(silent);
    let gone = async {
        while metrics(&program).await["bowline_connections"] > 5 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("they are noticed to be gone");
    eprintln!("noticed to be gone in {:?}", Instant::now() - began);
}

#[tokio::test]
async fn heads_and_bodies_that_come_slowly() {
    let program = serve("--child shared --max-connections 200 --body-timeout 2s --header-timeout 3s").await;
    let session = program.client().await;
    let request = session.request("POST", &[("Content-Length", "1000")], &ping().to_string());
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow:";
    let before = resident(&program);
    let (mut bodies, mut heads) = (Vec::new(), Vec::new());
    for _ in 0..150 {
        let mut raw = Raw::connect(program.address()).await;
        raw.send(&request).await;
        bodies.push(raw);
        let mut raw = Raw::connect(program.address()).await;
        raw.send(head).await;
        heads.push(raw);
    }
    serves_a_newcomer(&program, "150 slow bodies, 150 slow heads, 200 places").await;
    for mut raw in bodies {
        let answer = raw.head().await;
        assert_eq!(answer.status, 408, "{}", answer.text);
        let body: serde_json::Value = serde_json::from_slice(&raw.body().await).unwrap();
        assert!(body["error"]["message"].as_str().unwrap().contains("2 s"), "{body}");
    }
    for mut raw in heads {
        assert!(matches!(raw.try_head("POST").await, Ok(None) | Err(_)), "closed without a word");
    }
    let seen = metrics(&program).await;
    assert_eq!(seen[r#"bowline_bound_hits_total{bound="body-timeout"}"#], 150, "{seen:#?}");
    let after = resident(&program);
    assert!(after - before < 30.0, "{before:.1} to {after:.1} MiB");
}

#[tokio::test]
async fn bodies_that_are_too_large() {
    let program = serve("--child shared").await;
    let session = program.client().await;
    serves_a_newcomer(&program, "before").await;
    let before = resident(&program);
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let mut crowd = JoinSet::new();
    for n in 0..40_u32 {
        let address = program.address();
        let (chunk, declared) = (chunk.clone(), n.is_multiple_of(2));
        let framing =
            if declared { ("Content-Length", "1000000000") } else { ("Transfer-Encoding", "chunked") };
        let head = session.request(
            "POST",
            &[framing, ("Content-Length", if declared { "1000000000" } else { "" })],
            "",
        );
        crowd.spawn(async move {
            let mut raw = Raw::connect(address).await;
            raw.send(head).await;
            for _ in 0..6 {
                raw.send(&chunk).await;
            }
            let answer = raw.head().await;
            (answer.status, String::from_utf8(raw.body().await).unwrap())
        });
    }
    serves_a_newcomer(&program, "40 bodies without end").await;
    while let Some(answer) = crowd.join_next().await {
        let (status, body) = answer.unwrap();
        assert!(status == 413 && body.contains("4194304"), "{status} {body}");
    }
    let after = resident(&program);
    eprintln!("{before:.1} to {after:.1} MiB");
    assert!(after - before < 200.0, "20 times 4 MiB may be read at a time: {before:.1} to {after:.1} MiB");
    assert_eq!(metrics(&program).await[r#"bowline_bound_hits_total{bound="body-limit"}"#], 40);
}

/// Opens sessions and leaves them, some with a stream that is torn.
async fn open_and_leave(program: &Program, count: usize) {
    let mut crowd = JoinSet::new();
    for n in 0..20 {
        let address = program.address();
        crowd.spawn(async move {
            for i in 0..count / 20 {
                let session = Session::hello(address, &initialize("2025-11-25")).await;
                if (n + i).is_multiple_of(3) {
                    session.get(None).await.abort();
                }
            }
        });
    }
    while let Some(done) = crowd.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_thousand_sessions_opened_and_left() {
    let program = serve("--child shared --session-ttl 1s --max-sessions 1500").await;
    let mut sizes = Vec::new();
    for _ in 0..4 {
        open_and_leave(&program, 1_000).await;
        let gone = async {
            while metrics(&program).await["bowline_sessions"] > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("what is left expires");
        sizes.push(resident(&program));
    }
    eprintln!("after each thousand sessions: {sizes:.1?} MiB");
    // Tombstones of half an hour are kept on purpose: some 200 bytes each.
    assert!(sizes[3] - sizes[1] < 4.0, "memory grows: {sizes:.1?} MiB");
    serves_a_newcomer(&program, "4,000 sessions came and went").await;
}

#[tokio::test]
async fn more_sessions_than_there_may_be() {
    let program = serve("--child shared --max-sessions 50").await;
    let sessions = open(&program, 50).await;
    let none = Session::none(program.address());
    for _ in 0..20 {
        let mut refused: Answer = none.post(&initialize("2025-11-25")).await;
        assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("5")));
        assert_eq!(refused.json().await["error"]["data"]["reason"], "too_many_sessions");
    }
    for session in &sessions {
        assert_eq!(session.call_for_text("echo", json!({ "text": "mine" })).await, "mine");
    }
}

async fn open(program: &Program, count: usize) -> Vec<Session> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(program.client().await);
    }
    sessions
}
