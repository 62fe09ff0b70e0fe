//! A request that is sent again after its stream broke.

use std::sync::Arc;
use std::time::Duration;

use bowline_gateway::Sharing;
use bowline_server::StaticTokens;
use serde_json::json;

use crate::modern::{Modern, text};
use crate::support::{Log, PATIENCE, Server, fixture, until};

const ADA: &str = "aaaaaaaaaaaaaaaaaaaa";
const BOB: &str = "bbbbbbbbbbbbbbbbbbbb";

fn server(keep: Option<Duration>, sharing: Sharing) -> (Server, Log) {
    let mut options = fixture(&[]);
    options.sharing = sharing;
    options.join_reissued = keep;
    let log = Log::of(&mut options);
    let tokens = StaticTokens::parse(&format!("ada={ADA},bob={BOB}")).unwrap();
    (Server::built(options, |builder| builder.authenticator(Arc::new(tokens))), log)
}

fn client(server: &Server, token: &'static str) -> Modern {
    Modern { token: Some(token), ..Modern::mute(server) }
}

fn calls(log: &Log) -> usize {
    log.methods().iter().filter(|method| *method == "tools/call").count()
}

/// Starts a slow call and leaves it while it runs.
async fn left(client: &Modern, arguments: serde_json::Value) {
    let mut stream = client.with("progressToken", json!("first")).tool("slow", arguments).await;
    assert_eq!(stream.next().await.unwrap()["params"]["progressToken"], "first");
}

#[tokio::test]
async fn the_same_request_joins_the_call_that_was_left() {
    for sharing in [Sharing::PerSession, Sharing::Shared] {
        let (server, log) = server(Some(Duration::from_secs(20)), sharing);
        let ada = client(&server, ADA);
        let arguments = json!({ "ms": 1_500, "progress": 15 });
        left(&ada, arguments.clone()).await;
        // Another id, another token: the same request. What is still to come is told under the new one.
        let again = ada.with("progressToken", json!("second"));
        let params = json!({ "name": "slow", "arguments": arguments });
        let all = again.start(77, "tools/call", params).await.all().await;
        let (response, progress) = all.split_last().unwrap();
        assert_eq!((&response["id"], text(response)), (&json!(77), "slow: 1500 ms, 15 progress".to_owned()));
        assert!(!progress.is_empty());
        assert!(progress.iter().all(|told| told["params"]["progressToken"] == "second"), "{progress:?}");
        assert_eq!(calls(&log), 1);
        assert!(!log.methods().contains(&"notifications/cancelled".to_owned()));
        server.end().await;
    }
}

/// An answer that came when nobody was there is kept for as long.
#[tokio::test]
async fn an_answer_waits_for_the_same_request() {
    let (server, log) = server(Some(Duration::from_secs(20)), Sharing::PerSession);
    let ada = client(&server, ADA);
    let arguments = json!({ "ms": 200, "progress": 2 });
    left(&ada, arguments.clone()).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(ada.text("slow", arguments.clone()).await, "slow: 200 ms, 2 progress");
    assert_eq!(calls(&log), 1);
    // It is joined once.
    ada.text("slow", arguments).await;
    assert_eq!(calls(&log), 2);
    server.end().await;
}

/// What is not provably the same is its own call.
#[tokio::test]
async fn anything_else_is_its_own_call() {
    let (server, log) = server(Some(Duration::from_secs(20)), Sharing::Shared);
    let (ada, bob) = (client(&server, ADA), client(&server, BOB));
    let arguments = json!({ "ms": 800, "progress": 8 });
    left(&ada, arguments.clone()).await;
    bob.text("slow", arguments.clone()).await; // another principal
    ada.text("slow", json!({ "ms": 1, "progress": 8 })).await; // other arguments
    let asked = Modern { capabilities: json!({ "roots": {} }), ..ada.clone() };
    asked.text("slow", arguments.clone()).await; // a client that says something else of itself
    assert_eq!(calls(&log), 4);
    // Two side by side, while the first one is read.
    let (first, second) = tokio::join!(
        ada.text("count", json!({ "file": "/dev/null", "ms": 300 })),
        ada.text("count", json!({ "file": "/dev/null", "ms": 300 }))
    );
    assert_eq!((first.is_empty(), second.is_empty(), calls(&log)), (false, false, 6));
    server.end().await;
}

/// Without the option, and when the time is over, the call is cancelled.
#[tokio::test]
async fn what_nobody_joins_is_cancelled() {
    for keep in [None, Some(Duration::from_millis(300))] {
        let (server, log) = server(keep, Sharing::PerSession);
        let ada = client(&server, ADA);
        left(&ada, json!({ "ms": 60_000, "progress": 600 })).await;
        until(PATIENCE, || log.methods().contains(&"notifications/cancelled".to_owned()).then_some(())).await;
        server.end().await;
    }
}

/// Where nobody says who it is, no two requests are provably of one client.
#[tokio::test]
async fn anonymous_clients_do_not_join() {
    let mut options = fixture(&[]);
    options.join_reissued = Some(Duration::from_secs(20));
    let log = Log::of(&mut options);
    let server = Server::new(options);
    left(&Modern::mute(&server), json!({ "ms": 60_000, "progress": 600 })).await;
    log.find(|message| message["method"] == "notifications/cancelled").await;
    server.end().await;
}
