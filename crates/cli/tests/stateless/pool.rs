//! The processes that serve requests without sessions.

use crate::client::{Client, serve, stateless};
use bowline_testkit::{Program, eventually, processes};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

const SOON: Duration = Duration::from_secs(10);

fn pids(program: &Program) -> BTreeSet<u32> {
    program.servers().iter().map(|server| server.pid).collect()
}

/// Has the pool work until each process has had something to do.
async fn pool_of(program: &Program, size: usize) -> BTreeSet<u32> {
    let limit = Instant::now() + SOON;
    loop {
        let ledger = program.dir().join("warm");
        let calls = (0..size).map(|_| {
            let (client, ledger) = (Client::of(program), ledger.clone());
            tokio::spawn(async move { client.text("count", json!({ "file": ledger, "ms": 100 })).await })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        let by = worked(program, "warm").into_iter().rev().take(size).collect::<BTreeSet<_>>();
        if by.len() == size {
            assert_eq!(by, pids(program));
            return by;
        }
        assert!(Instant::now() < limit, "{by:?} of {size}");
    }
}

/// Which process does `count` run in: those lines start with its id.
fn worked(program: &Program, ledger: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(program.dir().join(ledger)).unwrap_or_default();
    text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn never_a_process_for_a_request() {
    let program = serve("").await;
    let pool = pool_of(&program, 2).await;
    let client = Client::of(&program);
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                assert_eq!(
                    client.text("echo", json!({ "text": number.to_string() })).await,
                    number.to_string()
                );
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(pids(&program), pool);
}

#[tokio::test]
async fn the_least_busy_one_works() {
    let program = serve("--pool 3").await;
    let pool = pool_of(&program, 3).await;
    let client = Client::of(&program);
    let ledger = program.dir().join("ledger");
    let mut calls = Vec::new();
    for started in 1..=6 {
        let (client, ledger) = (client.clone(), ledger.clone());
        calls.push(tokio::spawn(async move {
            client.call("count", json!({ "file": ledger, "ms": 900 })).await.response().await
        }));
        eventually("the call is running", SOON, || worked(&program, "ledger").len() == started).await;
    }
    let by: Vec<u32> = worked(&program, "ledger");
    for pid in pool {
        assert_eq!(by.iter().filter(|by| **by == pid).count(), 2, "{by:?}");
    }
    for call in calls {
        assert!(call.await.unwrap()["result"].is_object());
    }
}

/// Ids and tokens of different clients are the same, and do not meet.
#[tokio::test]
async fn equal_ids_and_tokens_do_not_meet() {
    let program = serve("--json-hold 50ms").await;
    pool_of(&program, 2).await;
    let calls: Vec<_> = (1..=8)
        .map(|number| {
            let client = Client::of(&program);
            tokio::spawn(async move {
                let ms = 400 + 10 * number;
                let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                    "name": "slow", "arguments": { "ms": ms, "progress": number },
                    "_meta": { "progressToken": "the same" } } });
                let messages = client.post(&call).await.messages().await;
                assert_eq!(messages.len(), number + 1, "{messages:?}");
                for message in &messages[..number] {
                    assert_eq!(message["params"]["progressToken"], "the same");
                    assert_eq!(message["params"]["total"], number);
                }
                let text = format!("slow: {ms} ms, {number} progress");
                assert_eq!(messages[number]["id"], 1);
                assert_eq!(messages[number]["result"]["content"][0]["text"], text);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

/// A process that dies takes the calls that it has and no others, and is replaced meanwhile.
#[tokio::test]
async fn one_that_dies_is_replaced_while_the_other_works() {
    let program = serve("").await;
    let pool = pool_of(&program, 2).await;
    let client = Client::of(&program);
    let ledger = program.dir().join("ledger");
    let long = client.clone();
    let long = tokio::spawn(async move {
        long.call("count", json!({ "file": ledger, "ms": 3_000 })).await.response().await
    });
    eventually("the call is running", SOON, || worked(&program, "ledger").len() == 1).await;
    let busy = worked(&program, "ledger")[0];
    let lost = client.call("die", json!({ "how": "kill" })).await.response().await;
    assert_eq!(lost["error"]["data"]["reason"], "upstream_lost", "{lost}");
    assert_eq!(lost["error"]["data"]["outcome"], "unknown", "{lost}");
    // At once, by the one that is left: nobody waits for the replacement.
    for number in 0..20 {
        assert_eq!(client.text("echo", json!({ "text": number.to_string() })).await, number.to_string());
    }
    eventually("it is replaced", SOON, || {
        let now = pids(&program);
        now.len() == 2 && now.contains(&busy) && now != pool
    })
    .await;
    assert_eq!(long.await.unwrap()["result"]["content"][0]["text"], "1");
    assert_eq!(program.ledger("ledger"), 1);
}

/// A process that hangs keeps the call that it has; others go elsewhere.
#[tokio::test]
async fn one_that_hangs_gets_no_more_work() {
    let program = serve("--call-timeout 6s").await;
    let pool = pool_of(&program, 2).await;
    let client = Client::of(&program);
    let hung = client.clone();
    let hung =
        tokio::spawn(async move { hung.call("die", json!({ "how": "silent" })).await.response().await });
    program.has_received("the call", |message| message["params"]["name"] == "die").await;
    // Long enough for its silence to be noticed.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut by = BTreeSet::new();
    for round in 0..5 {
        let calls: Vec<_> = (0..10)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let info = tokio::time::timeout(SOON, client.info()).await;
                    info.unwrap_or_else(|_| {
                        panic!("call {number} of round {round} went to the one that hangs")
                    })
                })
            })
            .collect();
        for call in calls {
            by.insert(call.await.unwrap()["pid"].as_u64().unwrap());
        }
    }
    assert_eq!(by.len(), 1, "{by:?}");
    assert_eq!(pids(&program), pool);
    // Its own call is ended by its own limit.
    let response: Value = hung.await.unwrap();
    assert!(response["error"].is_object(), "{response}");
}

#[tokio::test]
async fn a_command_that_does_not_come_up_is_an_error() {
    let program = stateless().server_args("--crash-loop").start().await;
    let client = Client::of(&program);
    let began = Instant::now();
    let refused = client.initialize().await.response().await;
    assert_eq!(refused["error"]["data"]["reason"], "upstream_unavailable", "{refused}");
    // A start that failed is told at once; a call waits for the next ones, until it is plain that they fail too.
    assert!((Instant::now() - began) < Duration::from_secs(15), "{:?}", (Instant::now() - began));
    let error = client.call("echo", json!({ "text": "x" })).await.response().await;
    assert_eq!(error["error"]["data"]["reason"], "upstream_unavailable", "{error}");
}

#[tokio::test]
async fn the_processes_end_with_the_program() {
    let program = serve("--pool 4").await;
    pool_of(&program, 4).await;
    program.kill();
    for pid in pids(&program) {
        processes::gone(pid, SOON).await;
    }
    program.assert_none_left(SOON).await;
}
