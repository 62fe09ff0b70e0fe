//! B*, SEMANTICS 7.4: sessions that end, servers that go and come back.

use crate::kit::*;
use bowline_client::{CallError, Client, ConnectError, Handlers, List, Target};
use bowline_testkit::scripted::{Act, Scripted, Step, on};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};

fn in_session(step: Step, session: &'static str) -> Step {
    step.when(move |seen| seen.header("mcp-session-id") == session)
}

const GONE: &str = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"Session not found"}}"#;

/// B1: 404, whatever is in it: a new session, and the call once more. The caller does not notice.
#[tokio::test]
async fn a_lost_session_is_replaced_and_the_call_sent_once_more() {
    for body in [
        GONE,
        "",
        "<html>not found</html>",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
    ] {
        let mut steps = with_session([in_session(on("POST", "tools/call"), "s1").json(404, "", body)]);
        steps.extend(handshake("s2"));
        steps.push(in_session(call_done(), "s2"));
        let server = Scripted::start(steps).await;
        let client = connect(&server).await;
        assert_eq!(text(call(&client).await), "done");
        let order: Vec<_> = server
            .seen()
            .iter()
            .map(|seen| (seen.rpc.clone(), seen.header("mcp-session-id").to_owned()))
            .collect();
        let expected = [
            ("initialize", ""),
            ("notifications/initialized", "s1"),
            ("tools/call", "s1"),
            ("initialize", ""),
            ("notifications/initialized", "s2"),
            ("tools/call", "s2"),
        ];
        assert_eq!(order, expected.map(|(rpc, session)| (rpc.to_owned(), session.to_owned())));
    }
}

/// B4: what real servers say instead of 404: one new session, then the truth.
#[tokio::test]
async fn other_words_for_a_lost_session_are_understood_once() {
    let no_session = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    let uninitialized =
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32600,"message":"Server not initialized"}}"#;
    for (status, body) in [(410, ""), (400, no_session), (400, uninitialized)] {
        let mut steps = with_session([on("POST", "tools/call").json(status, "", body)]);
        steps.extend(handshake("s2"));
        steps.push(call_done());
        let server = Scripted::start(steps).await;
        let client = connect(&server).await;
        assert_eq!(text(call(&client).await), "done", "{status}");
        assert_eq!((server.count("POST", "initialize"), server.seen().len()), (2, 6));

        // It goes on like that: it is told to the caller, not tried for ever.
        let mut steps = with_session([on("POST", "tools/call").always().json(status, "", body)]);
        steps.extend(handshake("s2"));
        let server = Scripted::start(steps).await;
        let client = connect(&server).await;
        let error = call(&client).await.unwrap_err();
        assert!(!matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
        assert!(server.seen().len() <= 6, "{} requests", server.seen().len());
    }
}

/// B6: 64 calls meet the dead session at once: one new session for all of them.
#[tokio::test]
async fn many_calls_share_one_new_session() {
    let mut steps =
        with_session([in_session(on("POST", "tools/call"), "s1").always().wait(20).json(404, "", GONE)]);
    let [initialize, initialized] = handshake("s2");
    steps.extend([
        on("POST", "initialize").wait(100).json(
            200,
            "mcp-session-id: s2\r\n",
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
        ),
        initialized,
        in_session(call_done(), "s2").always(),
    ]);
    drop(initialize);
    let server = Scripted::start(steps).await;
    let client = connect(&server).await;
    let results = join_all((0..64).map(|_| call(&client))).await;
    assert!(results.into_iter().all(|result| text(result) == "done"));
    assert_eq!(server.count("POST", "initialize"), 2);
    assert_eq!(server.count("POST", "tools/call"), 128);
}

/// SEMANTICS 7.4: a window in which a proxy says 404 and 502 to everything. The old session is kept, and works afterwards.
#[tokio::test]
async fn a_window_of_a_proxys_404s_is_waited_through() {
    let steps = [
        on("POST", "tools/call").times(3).answer(404, "", "no backend"),
        on("POST", "initialize").answer(502, "", "bad gateway"),
        on("POST", "initialize").times(2).answer(404, "", "no backend"),
        in_session(call_done(), "s1"),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(text(call(&client).await), "done");
    assert_eq!(server.count("POST", "tools/call"), 4);
    // One failure may stand for two attempts that come soon after each other.
    assert!((2..=4).contains(&server.count("POST", "initialize")));
    assert!(server.unexpected().is_empty());
}

/// ... and where it does not end in time, the call fails as one that did not run, and the next one probes again.
#[tokio::test]
async fn a_window_that_is_too_long_fails_the_call_but_not_the_client() {
    let steps = [
        on("POST", "tools/call").when(|seen| seen.body.contains("first")).always().answer(404, "", ""),
        on("POST", "initialize").always().answer(502, "", ""),
        in_session(call_done(), "s1"),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let mut options = options();
    options.outage = Duration::from_millis(600);
    let client = connect_with(&server, options).await;
    let (result, time) = timed(client.call_tool("first", &serde_json::json!({}))).await;
    assert!(matches!(result, Err(CallError::Transport { .. })), "{result:?}");
    assert!(time < AT_ONCE, "{time:?}");
    assert!(server.seen().len() < 30);
    assert_eq!(text(call(&client).await), "done");
}

/// The network, or the server, is gone for a while: what certainly did not run waits, and goes through.
#[tokio::test]
async fn an_absent_server_is_waited_for() {
    let mut steps = with_session([]);
    steps.push(in_session(on("POST", "tools/call"), "s1").json(404, "", GONE));
    steps.extend(handshake("s2"));
    steps.push(in_session(call_done(), "s2"));
    let server = Scripted::start(steps).await;
    let client = connect(&server).await;
    server.down();
    // The client is to notice that its idle connection has ended: before that nobody can know what a broken one took with it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (result, ()) = tokio::join!(call(&client), async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.up().await;
    });
    assert_eq!(text(result), "done");
    assert_eq!(server.count("POST", "tools/call"), 2, "once for each server that answered");
}

/// ... and where it does not come back, the call says that it did not run.
#[tokio::test]
async fn a_server_that_stays_away_is_an_error_that_says_so() {
    let server = Scripted::start(with_session([])).await;
    let mut options = options();
    options.outage = Duration::from_millis(300);
    let client = connect_with(&server, options).await;
    server.down();
    // The client is to notice that its idle connection has ended: before that nobody can know what a broken one took with it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (result, time) = timed(call(&client)).await;
    let Err(error @ CallError::Transport { .. }) = result else { panic!("{result:?}") };
    assert!(!error.may_have_run() && time < AT_ONCE);
}

/// Q1, SEMANTICS 7.4: what is there after the loss may be another server. Lists are asked for again, and the program hears it.
#[tokio::test]
async fn after_a_new_session_the_lists_are_read_again() {
    let list =
        |tool: &str| format!(r#"{{"tools":[{{"name":"{tool}"}}],"ttlMs":600000,"cacheScope":"public"}}"#);
    let mut steps = with_session([
        on("POST", "tools/list").result(&list("a")),
        on("POST", "tools/call").json(404, "", GONE),
    ]);
    steps.extend(handshake("s2"));
    steps.extend([on("POST", "tools/list").result(&list("b")), call_done()]);
    let server = Scripted::start(steps).await;
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let options = options().handler(Handlers::new().on_list_changed(move |list| hears.lock().push(list)));
    let client = connect_with(&server, options).await;
    assert_eq!(client.list_tools().await.unwrap()[0].name, "a");
    assert_eq!(client.list_tools().await.unwrap()[0].name, "a");
    assert_eq!(server.count("POST", "tools/list"), 1, "the second time it is fresh");
    assert_eq!(text(call(&client).await), "done");
    bowline_testkit::eventually("the news", bowline_testkit::PATIENCE, || !heard.lock().is_empty()).await;
    assert_eq!(*heard.lock(), [List::Tools]);
    assert_eq!(client.list_tools().await.unwrap()[0].name, "b");
}

/// Log level and subscriptions are told to the new session.
#[tokio::test]
async fn a_new_session_is_told_what_the_old_one_knew() {
    let mut steps = with_session([
        on("POST", "logging/setLevel").result("{}"),
        on("POST", "resources/subscribe").result("{}"),
        on("POST", "tools/call").json(404, "", GONE),
    ]);
    steps.extend(handshake("s2"));
    steps.extend([
        call_done(),
        in_session(on("POST", "logging/setLevel"), "s2").result("{}"),
        in_session(on("POST", "resources/subscribe"), "s2").result("{}"),
    ]);
    let server = Scripted::start(steps).await;
    let client = connect(&server).await;
    client.set_level("warning").await.unwrap();
    client.subscribe("file:///a").await.unwrap();
    assert_eq!(text(call(&client).await), "done");
    bowline_testkit::eventually("both wishes", bowline_testkit::PATIENCE, || {
        server.count("POST", "logging/setLevel") == 2 && server.count("POST", "resources/subscribe") == 2
    })
    .await;
    assert_eq!(server.of("POST", "logging/setLevel")[1].json()["params"]["level"], "warning");
}

/// B5 c: a DELETE that is never answered does not hold up the end.
#[tokio::test]
async fn close_does_not_wait_for_ever() {
    let server = Scripted::start(with_session([on("DELETE", "").then(Act::Hold)])).await;
    let mut options = options();
    options.close_timeout = Duration::from_millis(200);
    let client = connect_with(&server, options).await;
    let ((), time) = timed(client.close()).await;
    assert!(time < Duration::from_millis(1_900), "as it was told, not as usual: {time:?}");
    assert_eq!(server.count("DELETE", ""), 1);
    assert_eq!(bowline_client::ClientOptions::new("a", "1").close_timeout, Duration::from_secs(2));
}

/// A client that is dropped ends its session too.
#[tokio::test]
async fn a_dropped_client_ends_its_session() {
    let server = Scripted::start(with_session([on("DELETE", "").answer(405, "", "")])).await;
    drop(connect(&server).await);
    bowline_testkit::eventually("the DELETE", bowline_testkit::PATIENCE, || server.count("DELETE", "") == 1)
        .await;
}

/// N3: anything 2xx is an answer to a notification.
#[tokio::test]
async fn any_success_answers_a_notification() {
    let answers = [
        on("POST", "notifications/initialized").answer(200, "", ""),
        on("POST", "notifications/initialized").json(200, "", "null"),
        on("POST", "notifications/initialized").json(200, "", r#"{"jsonrpc":"2.0","result":{}}"#),
        on("POST", "notifications/initialized").answer(202, "content-type: text/plain\r\n", "Accepted"),
        on("POST", "notifications/initialized").answer(204, "", ""),
        on("POST", "notifications/initialized").stream().close(),
        on("POST", "notifications/initialized").answer(200, "content-type: text/html\r\n", "<p>ok"),
    ];
    for answer in answers {
        let [initialize, _] = handshake("s");
        let server = Scripted::start([initialize, answer, call_done()]).await;
        assert_eq!(text(call(&connect(&server).await).await), "done");
    }
}

/// N4: a redirect within the origin is followed with body and headers; others are refused and named.
#[tokio::test]
async fn redirects_stay_at_home() {
    for status in [307, 308] {
        let away = on("POST", "").when(|seen| seen.path == "/mcp").always().answer(
            status,
            "location: /mcp/\r\n",
            "",
        );
        let mut steps = vec![away];
        steps.extend(with_session([call_done()]));
        let server = Scripted::start(steps).await;
        assert_eq!(text(call(&connect(&server).await).await), "done");
        assert_eq!(server.of("POST", "tools/call").last().unwrap().path, "/mcp/");
    }
    for location in ["http://localhost:1/mcp", "https://127.0.0.1/", "//evil/"] {
        let server =
            Scripted::start([on("POST", "").answer(307, &format!("location: {location}\r\n"), "")]).await;
        let failed = Client::connect(Target::http(&server.url()).unwrap(), options()).await;
        let Err(ConnectError::Failed { message, .. }) = failed else { panic!("{failed:?}") };
        assert!(message.contains("another origin"), "{message}");
        assert_eq!(server.seen().len(), 1);
    }
}
