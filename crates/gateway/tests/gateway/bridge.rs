//! Modern clients in front of a legacy server.

use std::time::Duration;

use bowline_gateway::Sharing;
use bowline_server::StaticTokens;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio::time::timeout;

use crate::modern::{Modern, text};
use crate::support::{Log, PATIENCE, Server, fixture, until};

#[tokio::test]
async fn what_the_server_is_is_said_in_this_revision() {
    let server = Server::new(fixture(&[]));
    let client = Modern::of(&server);
    let found = client.request("server/discover", json!({})).await;
    let result = &found["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28", "{found}");
    assert_eq!(result["capabilities"]["tools"], json!({ "listChanged": true }));
    assert_eq!(result["instructions"], "A server for tests.");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fixture");
    let tools = client.request("tools/list", json!({})).await;
    let result = &tools["result"];
    assert_eq!((&result["resultType"], result["ttlMs"].is_u64()), (&json!("complete"), true), "{tools}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fixture");
    assert_eq!(client.text("echo", json!({ "text": "x" })).await, "x");
    assert_eq!(server.gateway.stats().started, 1);
    server.end().await;
}

/// The server is initialised with what the client says of itself, in the server's revision, and sees nothing else of the modern one.
#[tokio::test]
async fn the_server_sees_a_legacy_client() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let client = Modern::of(&server)
        .with("traceparent", json!(trace))
        .with("tracestate", json!("a=b"))
        .with("baggage", json!("k=v"));
    assert_eq!(client.text("echo", json!({ "text": "x" })).await, "x");
    let messages = log.messages();
    let hello = &messages[0]["params"];
    assert_eq!(
        (&hello["protocolVersion"], &hello["clientInfo"]["name"]),
        (&json!("2025-11-25"), &json!("modern-test"))
    );
    assert_eq!(hello["capabilities"], json!({ "sampling": {}, "elicitation": {}, "roots": {} }));
    let call = messages.iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(
        call["params"],
        json!({
            "name": "echo", "arguments": { "text": "x" },
            "_meta": { "traceparent": trace, "tracestate": "a=b", "baggage": "k=v" },
        })
    );
    server.end().await;
}

/// Sampling, elicitation and roots become rounds while the server's call stays open.
#[tokio::test]
async fn questions_are_rounds() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = Modern::of(&server);
    for (tool, method, answer) in [
        ("ask", "elicitation/create", json!({ "action": "accept", "content": { "name": "Ada" } })),
        (
            "sample",
            "sampling/createMessage",
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "x" } }),
        ),
        ("roots", "roots/list", json!({ "roots": [{ "uri": "file:///x" }] })),
    ] {
        let asked = client.tool(tool, json!({})).await.response().await;
        let question = asked["result"]["inputRequests"].as_object().unwrap().values().next().unwrap();
        assert_eq!(question["method"], method);
        let ended = client.go_on(tool, json!({}), &asked, answer.clone()).await;
        let said: Value = serde_json::from_str(&text(&ended)).unwrap();
        assert_eq!((said, &ended["id"]), (answer, &json!(2)));
    }
    let calls = log.methods().into_iter().filter(|method| method == "tools/call").count();
    assert_eq!((calls, server.gateway.stats().started), (3, 1), "each tool ran once, all in one process");
    server.end().await;
}

/// A call that takes long becomes a task where the client can have one; the server runs it like any other, once.
#[tokio::test]
async fn long_calls_become_tasks() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let mut client = Modern::of(&server);
    client.capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    let created = client.tool("slow", json!({ "ms": 1_500 })).await.response().await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let id = created["result"]["taskId"].clone();
    let ended = timeout(PATIENCE, async {
        loop {
            let task = client.request("tasks/get", json!({ "taskId": id })).await;
            if task["result"]["status"] != "working" {
                break task;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let ended = ended.await.expect("the task ends");
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    assert!(ended["result"]["result"]["content"][0]["text"].is_string(), "{ended}");
    // Without the capability the answer stays on its connection.
    let plain = Modern::of(&server).tool("slow", json!({ "ms": 1_100 })).await.response().await;
    assert_eq!(plain["result"]["resultType"], "complete", "{plain}");
    assert_eq!(log.methods().into_iter().filter(|method| method == "tools/call").count(), 2);
    server.end().await;
}

/// Who cannot be asked is not, and the server hears of it.
#[tokio::test]
async fn who_cannot_be_asked_is_not() {
    let server = Server::new(fixture(&[]));
    let refused = Modern::mute(&server).tool("ask", json!({})).await.response().await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    server.end().await;
}

/// Ten clients are asked at the same time, and each question reaches the one whose call asks it.
#[tokio::test]
async fn questions_reach_the_call_that_asks() {
    let mut options = fixture(&[]);
    options.max_modern_children = 4;
    let server = Server::new(options);
    let mut calls = Vec::new();
    for n in 0..10 {
        let client = Modern::of(&server);
        calls.push(tokio::spawn(async move {
            let arguments = json!({ "message": format!("who is {n}?") });
            let asked = client.tool("ask", arguments.clone()).await.response().await;
            let question = asked["result"]["inputRequests"].as_object().unwrap().values().next().unwrap();
            assert_eq!(question["params"]["message"], format!("who is {n}?"));
            let answer = json!({ "action": "accept", "content": { "name": format!("{n}") } });
            let ended = client.go_on("ask", arguments, &asked, answer.clone()).await;
            assert_eq!(serde_json::from_str::<Value>(&text(&ended)).unwrap(), answer);
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    assert!(server.gateway.stats().started <= 4, "{:?}", server.gateway.stats());
    server.end().await;
}

/// Calls that can be asked nothing and want no log messages share a process; ids and tokens do not meet.
#[tokio::test]
async fn equal_ids_and_tokens_do_not_meet() {
    let server = Server::new(fixture(&[]));
    let mut calls = Vec::new();
    for n in 0..5_u64 {
        let client = Modern::mute(&server).with("progressToken", json!(1));
        calls.push(tokio::spawn(async move {
            let all = client.tool("slow", json!({ "ms": 400, "progress": 2 + n })).await.all().await;
            let (response, progress) = all.split_last().unwrap();
            assert_eq!(
                (text(response), progress.len() as u64),
                (format!("slow: 400 ms, {} progress", 2 + n), 2 + n)
            );
            for message in progress {
                assert_eq!(
                    (&message["params"]["progressToken"], &message["params"]["total"]),
                    (&json!(1), &json!(2 + n))
                );
            }
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(server.gateway.stats().started, 1);
    server.end().await;
}

/// Each request has a level of its own.
#[tokio::test]
async fn log_messages_are_those_of_the_call_that_wants_them() {
    let server = Server::new(fixture(&[]));
    let client = Modern::mute(&server);
    for (level, said, heard) in [
        (None, "info", 0),
        (Some("info"), "info", 2),
        (Some("error"), "info", 0),
        (Some("debug"), "debug", 2),
    ] {
        let client = level.map_or_else(|| client.clone(), |level| client.with_level(level));
        let all = client.tool("log", json!({ "n": 2, "level": said })).await.all().await;
        assert_eq!(all.len(), heard + 1, "{level:?}: {all:?}");
    }
    server.end().await;
}

/// A client that leaves cancels its call, in the process too, and at once.
#[tokio::test]
async fn leaving_cancels_at_the_server() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = Modern::of(&server).with("progressToken", json!("t"));
    let mut stream = client.tool("slow", json!({ "ms": 60_000, "progress": 600 })).await;
    stream.next().await.unwrap();
    drop(stream);
    let call = log.find(|message| message["method"] == "tools/call").await;
    let cancel = log.find(|message| message["method"] == "notifications/cancelled").await;
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    // What was given up could still ask: the next call that can be asked has another process.
    assert_eq!(Modern::of(&server).text("echo", json!({ "text": "x" })).await, "x");
    assert_eq!(server.gateway.stats().started, 2);
    server.end().await;
}

/// Listeners hear of what they asked for; the process is subscribed once for two of them, and as long as one is left.
#[tokio::test]
async fn listeners_hear_what_they_asked_for() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = Modern::of(&server);
    let uri = "fixture://counter";
    let mut first = client.listen(json!({ "toolsListChanged": true, "resourceSubscriptions": [uri] })).await;
    let mut second = client.listen(json!({ "resourceSubscriptions": [uri] })).await;
    log.find(|message| message["method"] == "resources/subscribe").await;
    assert_eq!(client.text("update", json!({})).await, "told");
    for stream in [&mut first, &mut second] {
        let told = stream.next().await.unwrap();
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen");
    }
    client.text("swap", json!({})).await;
    assert_eq!(first.next().await.unwrap()["method"], "notifications/tools/list_changed");
    drop(first);
    client.text("swap", json!({})).await;
    assert_eq!(client.text("update", json!({})).await, "told");
    assert_eq!(second.next().await.unwrap()["method"], "notifications/resources/updated");
    let count = |method: &str| log.methods().iter().filter(|said| *said == method).count();
    assert_eq!((count("resources/subscribe"), count("resources/unsubscribe")), (1, 0));
    drop(second);
    log.find(|message| message["method"] == "resources/unsubscribe").await;
    server.end().await;
}

/// A process that nobody uses ends; the next request has a new one.
#[tokio::test]
async fn processes_that_are_not_used_end() {
    let mut options = fixture(&[]);
    options.modern_idle = Duration::from_millis(200);
    let server = Server::new(options);
    let client = Modern::mute(&server);
    client.text("echo", json!({ "text": "x" })).await;
    until(PATIENCE, || (server.gateway.stats().children == 0).then_some(())).await;
    assert_eq!(client.text("echo", json!({ "text": "y" })).await, "y");
    assert_eq!(server.gateway.stats().started, 2);
    server.end().await;
}

/// No process serves two principals, whatever they say of themselves.
#[tokio::test]
async fn principals_share_nothing() {
    let tokens = StaticTokens::parse("ada=aaaaaaaaaaaaaaaaaaaa,bob=bbbbbbbbbbbbbbbbbbbb").unwrap();
    let server = Server::built(fixture(&[]), |builder| builder.authenticator(Arc::new(tokens)));
    let mut pids = Vec::new();
    for token in ["aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaaaaaa"] {
        let client = Modern { token: Some(token), ..Modern::mute(&server) };
        let info: Value = serde_json::from_str(&client.text("info", json!({})).await).unwrap();
        pids.push(info["pid"].as_u64().unwrap());
    }
    assert_eq!(pids[0], pids[2]);
    assert_ne!(pids[0], pids[1]);
    server.end().await;
}

/// Who says to be many kinds of clients, and keeps a process of each, leaves places for other principals.
#[tokio::test]
async fn one_principal_leaves_places_for_the_others() {
    let tokens = StaticTokens::parse("ada=aaaaaaaaaaaaaaaaaaaa,bob=bbbbbbbbbbbbbbbbbbbb").unwrap();
    let mut options = fixture(&[]);
    options.max_modern_children = 4;
    let server = Server::built(options, |builder| builder.authenticator(Arc::new(tokens)));
    let mut held = Vec::new();
    for kind in ["none", "roots", "sampling", "elicitation"] {
        let capabilities = if kind == "none" { json!({}) } else { json!({ kind: {} }) };
        let ada = Modern { token: Some("aaaaaaaaaaaaaaaaaaaa"), capabilities, ..Modern::of(&server) };
        held.push(ada.listen(json!({ "toolsListChanged": true })).await);
    }
    until(PATIENCE, || (server.gateway.stats().children == 3).then_some(())).await;
    let bob = Modern { token: Some("bbbbbbbbbbbbbbbbbbbb"), ..Modern::mute(&server) };
    assert_eq!(bob.text("echo", json!({ "text": "x" })).await, "x");
    assert_eq!(server.gateway.stats().children, 4, "three of ada, one of bob");
    drop(held);
    server.end().await;
}

/// A process that does not come up costs its callers an error, and the next one is tried.
#[tokio::test]
async fn a_server_that_does_not_start_is_an_error() {
    let server = Server::new(fixture(&["--crash-loop"]));
    let answer = Modern::of(&server).request("server/discover", json!({})).await;
    assert_eq!(answer["error"]["data"]["reason"], "upstream_unavailable", "{answer}");
    server.end().await;
}

/// One process for all, and a pool: calls work, listeners hear, questions are refused.
#[tokio::test]
async fn shared_processes_serve_modern_clients_too() {
    for sharing in [Sharing::Shared, Sharing::Pool(NonZeroUsize::new(2).unwrap())] {
        let mut options = fixture(&[]);
        options.sharing = sharing;
        let log = Log::of(&mut options);
        let server = Server::new(options);
        let client = Modern::of(&server);
        let mut stream = client
            .listen(json!({ "toolsListChanged": true, "resourceSubscriptions": ["fixture://counter"] }))
            .await;
        let processes = if sharing == Sharing::Shared { 1 } else { 2 };
        let subscribed = || log.methods().iter().filter(|said| *said == "resources/subscribe").count();
        until(PATIENCE, || (subscribed() == processes).then_some(())).await;
        client.text("swap", json!({})).await;
        assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed");
        assert_eq!(client.text("update", json!({})).await, "told");
        assert_eq!(stream.next().await.unwrap()["method"], "notifications/resources/updated");
        let refused = client.tool("ask", json!({})).await.response().await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        drop(stream);
        let unsubscribed = || log.methods().iter().filter(|said| *said == "resources/unsubscribe").count();
        until(PATIENCE, || (unsubscribed() == processes).then_some(())).await;
        server.end().await;
    }
}
