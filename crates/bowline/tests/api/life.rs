//! What happens while a call runs: progress, log messages, cancellation, a connection that is let go of.

use bowline::{
    Call, CancelReason, Level, NoInput, Options, PipeOptions, Server, SessionMode, StaleSession,
    testing::Client,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

type Seen = Arc<Mutex<Vec<CancelReason>>>;

fn server() -> (Server<Seen>, Seen) {
    let seen = Seen::default();
    let server = Server::builder("s", "1")
        .with_state(seen.clone())
        .tool("work", "Works", |ctx: Call<Seen>, _: NoInput| async move {
            let heard = ctx.progress(0.5, None);
            ctx.progress_with_message(1.0, 2.0, "half \"way\"");
            ctx.progress(f64::NAN, None);
            tokio::time::sleep(Duration::from_secs(60)).await;
            ctx.progress(2.0, 2.0);
            format!("{heard}")
        })
        .tool("log", "Logs", |ctx: Call<Seen>, _: NoInput| async move {
            ctx.log(Level::Debug, "debug");
            ctx.log_as("part", Level::Info, json!({ "n": 1 }));
            ctx.log(Level::Error, "error");
        })
        .tool("wait", "Waits until it is cancelled", |ctx: Call<Seen>, _: NoInput| async move {
            let reason = ctx.cancelled().await;
            ctx.shared().lock().push(reason);
        })
        .tool("poll", "Lets go of its connection", |ctx: Call<Seen>, _: NoInput| async move {
            ctx.close_connection();
            tokio::time::sleep(Duration::from_secs(60)).await;
            "fetched"
        })
        .tool("meta", "Says what it was told", |ctx: Call<Seen>, _: NoInput| async move {
            format!("{} {} {:?}", ctx.meta().len(), ctx.revision(), ctx.parts().is_some())
        })
        .build()
        .unwrap();
    (server, seen)
}

async fn methods(client: &Client) -> Vec<(Value, Value)> {
    client.notifications().await.into_iter().map(|mut n| (n["method"].take(), n["params"].take())).collect()
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_result_if_it_was_asked_for() {
    for revision in crate::revisions() {
        let client = Client::builder().revision(revision).connect(&server().0).await;
        let params = json!({ "name": "work", "_meta": { "progressToken": "t" } });
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], "true", "{revision}");
        let progress: Vec<_> = methods(&client).await.into_iter().map(|(_, params)| params).collect();
        let mut half = json!({ "progressToken": "t", "progress": 1, "total": 2 });
        // The first revision has no text with progress.
        if revision != "2024-11-05" {
            half["message"] = json!("half \"way\"");
        }
        assert_eq!(
            progress,
            [
                json!({ "progressToken": "t", "progress": 0.5 }),
                half,
                json!({ "progressToken": "t", "progress": 2, "total": 2 }),
            ],
            "{revision}"
        );
        assert_eq!(client.call_tool("work", json!({})).await.unwrap()["content"][0]["text"], "false");
        assert!(client.notifications().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn log_messages_keep_to_the_level() {
    let client = Client::connect(&server().0).await;
    let logged = async |level: Option<&str>| {
        if let Some(level) = level {
            assert_eq!(
                client.request("logging/setLevel", json!({ "level": level })).await.unwrap(),
                json!({})
            );
        }
        client.call_tool("log", json!({})).await.unwrap();
        let messages = methods(&client).await;
        assert!(messages.iter().all(|(method, _)| method == "notifications/message"));
        messages.into_iter().map(|(_, params)| params).collect::<Vec<_>>()
    };
    let info = json!({ "level": "info", "logger": "part", "data": { "n": 1 } });
    let error = json!({ "level": "error", "data": "error" });
    assert_eq!(logged(None).await, [info.clone(), error.clone()]);
    assert_eq!(logged(Some("debug")).await.len(), 3);
    assert_eq!(logged(Some("error")).await, [error]);
    assert!(logged(Some("emergency")).await.is_empty());
    assert_eq!(
        client.request("logging/setLevel", json!({ "level": "loud" })).await.unwrap_err().code,
        -32602
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_session_log_messages_stay_here() {
    let stateless = SessionMode::Stateless { resumable: false, stale_session: StaleSession::default() };
    let options = PipeOptions::default().session_mode(stateless);
    let client = Client::builder().pipe_options(options).connect(&server().0).await;
    client.call_tool("log", json!({})).await.unwrap();
    assert!(client.notifications().await.is_empty());
    assert_eq!(
        client.call_tool("meta", json!({})).await.unwrap()["content"][0]["text"],
        "0 2025-11-25 false"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_told_and_not_answered() {
    let (server, seen) = server();
    let client = Client::connect(&server).await;
    let (id, response) = client.begin("tools/call", json!({ "name": "wait" })).await;
    client.cancel(&id).await;
    // Nothing is answered, whatever else happens in between.
    let waited = tokio::time::timeout(Duration::from_secs(30), response).await;
    assert!(waited.is_err(), "{waited:?}");
    assert_eq!(*seen.lock(), [CancelReason::Client]);
    // The session lives on.
    assert!(client.request("ping", json!({})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_cancelled_and_answered() {
    let (server, seen) = server();
    let mut options = Options::default();
    options.call_timeout = Duration::from_secs(5);
    let options = PipeOptions::default().options(options);
    let client = Client::builder().pipe_options(options).connect(&server).await;
    let error = client.call_tool("wait", json!({})).await.unwrap_err();
    assert_eq!(error.data.unwrap().member("reason").unwrap().string().unwrap(), "timeout");
    tokio::task::yield_now().await;
    assert_eq!(*seen.lock(), [CancelReason::TimedOut]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_let_go_of_costs_nobody_the_result() {
    for revision in crate::revisions() {
        let client = Client::builder().revision(revision).connect(&server().0).await;
        let result = client.call_tool("poll", json!({})).await.unwrap();
        assert_eq!(result["content"][0]["text"], "fetched", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_knows_what_it_was_sent() {
    let client = Client::builder().revision("2025-06-18").connect(&server().0).await;
    let params = json!({ "name": "meta", "_meta": { "a": 1, "b": 2 } });
    let result = client.request("tools/call", params).await.unwrap();
    assert_eq!(result["content"][0]["text"], "2 2025-06-18 false");
}
