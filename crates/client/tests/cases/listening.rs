//! [`Client::listen`]: what is asked for, what is heard, and that nothing is missed for good. SEMANTICS 4 and 7.

use crate::{eras::discovered, kit::*};
use bowline_client::{
    CallError, Change, Client, ClientOptions, Era, Handlers, List, ListenFilter, Listening,
};
use bowline_testkit::scripted::{Act, Scripted, Step, on};
use serde_json::json;
use std::{sync::Arc, time::Duration};

fn modern() -> ClientOptions {
    options().era(Era::Modern)
}

async fn serve(steps: impl IntoIterator<Item = Step>) -> Scripted {
    Scripted::start([discovered()].into_iter().chain(steps)).await
}

/// A notification of the stream.
fn note(method: &str, params: &str) -> String {
    format!(
        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{{params}\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":$ID}}}}}}\n\n"
    )
}

fn acknowledges(filter: &str) -> String {
    note("subscriptions/acknowledged", &format!("\"notifications\":{filter},"))
}

const GOODBYE: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"resultType\":\"complete\"}}\n\n";

async fn next(listening: &mut Listening) -> Change {
    let change = tokio::time::timeout(Duration::from_secs(10), listening.next()).await;
    change.expect("a change in time").expect("no error").expect("it goes on")
}

/// The server agrees to less than what was asked for, tells of it, says goodbye, and later breaks off: each opening but the first is
/// followed by a refresh of what it agreed to.
#[tokio::test]
async fn changes_are_heard_and_made_up_for() {
    let server = serve([
        on("POST", "subscriptions/listen")
            .stream()
            .raw(acknowledges(r#"{"toolsListChanged":true,"resourceSubscriptions":["a:"]}"#))
            .raw(note("tools/list_changed", ""))
            .raw(note("resources/updated", "\"uri\":\"a:\","))
            .raw(note("own/thing", "\"x\":1,"))
            .raw(GOODBYE)
            .close(),
        on("POST", "subscriptions/listen").answer(503, "", ""),
        on("POST", "subscriptions/listen")
            .stream()
            .raw(acknowledges(r#"{"toolsListChanged":true}"#))
            .wait(50)
            .raw(note("tools/list_changed", ""))
            .then(Act::Hold),
    ])
    .await;
    let heard = Arc::new(parking_lot::Mutex::new(0));
    let hears = Arc::clone(&heard);
    let handlers = Handlers::new().on_notification(move |_| *hears.lock() += 1);
    let client = connect_with(&server, modern().handler(handlers)).await;
    let filter = ListenFilter::lists().resource("a:").resource("b:");
    let mut listening = client.listen(filter).await.unwrap();
    let accepted = listening.accepted();
    assert_eq!(accepted, ListenFilter::new().list(List::Tools).resource("a:"));
    assert_eq!(next(&mut listening).await, Change::List(List::Tools));
    assert_eq!(next(&mut listening).await, Change::Resource("a:".into()));
    let Change::Other(other) = next(&mut listening).await else { panic!("of an extension") };
    assert_eq!(
        (&*other.method, other.params.unwrap().member("x").unwrap().as_str()),
        ("notifications/own/thing", "1")
    );
    assert_eq!(
        next(&mut listening).await,
        Change::List(List::Tools),
        "what was missed, by the second acknowledgement"
    );
    assert_eq!(next(&mut listening).await, Change::List(List::Tools));
    assert_eq!(listening.accepted(), ListenFilter::new().list(List::Tools));
    assert_eq!(*heard.lock(), 0, "it is a stream of its own");
    let asked = server.of("POST", "subscriptions/listen");
    assert_eq!(asked.len(), 3);
    for request in &asked {
        let params = &request.json()["params"];
        assert_eq!(
            params["notifications"],
            json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a:", "b:"] })
        );
        assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(request.header("mcp-method"), "subscriptions/listen");
    }
    client.close().await;
    assert!(matches!(listening.next().await, Ok(None)), "the client was closed");
}

/// Who does not take what is told does not hold up the stream, and misses nothing for good.
#[tokio::test]
async fn a_slow_listener_is_refreshed() {
    let server = serve([
        on("POST", "subscriptions/listen")
            .stream()
            .raw(acknowledges(r#"{"toolsListChanged":true,"promptsListChanged":true}"#))
            .raw(note("tools/list_changed", "").repeat(1_000))
            .raw(note("prompts/list_changed", ""))
            .then(Act::Until("tools/call"))
            .raw(note("tools/list_changed", ""))
            .then(Act::Hold),
        call_done(),
    ])
    .await;
    let client = connect_with(&server, modern()).await;
    let mut listening = client.listen(ListenFilter::lists()).await.unwrap();
    // Everything was read by the time that the stream is quiet for a while.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut seen = Vec::new();
    while let Ok(change) = tokio::time::timeout(Duration::from_millis(200), listening.next()).await {
        seen.push(change.unwrap().unwrap());
    }
    assert!(seen.len() <= 258, "{}", seen.len());
    assert!(seen.contains(&Change::List(List::Prompts)), "the one for which there was no room");
    assert_eq!(text(call(&client).await), "done");
    assert_eq!(next(&mut listening).await, Change::List(List::Tools));
}

#[tokio::test]
async fn a_refusal_is_told_and_so_is_what_has_no_such_request() {
    let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no such method"}}"#;
    for (step, said) in [
        (on("POST", "subscriptions/listen").json(404, "", unknown), "error -32601: no such method"),
        (on("POST", "subscriptions/listen").json(200, "", unknown), "error -32601: no such method"),
        (
            on("POST", "subscriptions/listen").stream().raw(format!("data: {unknown}\n\n")).close(),
            "no such method",
        ),
        (on("POST", "subscriptions/listen").answer(503, "", ""), "status 503"),
        (on("POST", "subscriptions/listen").answer(401, "", ""), "401"),
        (on("POST", "subscriptions/listen").result("{}"), "before it said what it will tell of"),
        (on("POST", "subscriptions/listen").stream().close(), "before the server said what it will tell of"),
        (on("POST", "subscriptions/listen").reset(), "connection"),
    ] {
        let server = serve([step]).await;
        let client = connect_with(&server, modern()).await;
        let error = client.listen(ListenFilter::lists()).await.unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert_eq!(server.count("POST", "subscriptions/listen"), 1, "{said}");
    }
    let server = Scripted::start(with_session([])).await;
    let client = connect(&server).await;
    let error = client.listen(ListenFilter::lists()).await.unwrap_err();
    assert!(matches!(&error, CallError::Invalid { message } if message.contains("2025-11-25")), "{error}");
    assert!(matches!(client.listen(ListenFilter::new()).await, Err(CallError::Invalid { .. })));
    client.close().await;
    assert!(matches!(client.listen(ListenFilter::lists()).await, Err(CallError::Closed)));
}

/// A server that refuses later on is left, with its reason.
#[tokio::test]
async fn a_later_refusal_ends_it() {
    let gone = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no more"}}"#;
    let server = serve([on("POST", "subscriptions/listen")
        .stream()
        .raw(acknowledges(r#"{"toolsListChanged":true}"#))
        .raw(format!("data: {gone}\n\n"))
        .close()])
    .await;
    let client = connect_with(&server, modern()).await;
    let mut listening = client.listen(ListenFilter::lists()).await.unwrap();
    let (error, _) = timed(listening.next()).await;
    assert!(error.unwrap_err().to_string().contains("no more"));
    assert!(matches!(listening.next().await, Ok(None)));
}

/// The end of the connection tells the server, whether it is closed or dropped.
#[tokio::test]
async fn the_end_closes_the_connection() {
    for dropped in [false, true] {
        let server = serve([on("POST", "subscriptions/listen")
            .stream()
            .raw(acknowledges(r#"{"toolsListChanged":true}"#))
            .then(Act::Drip(": still here\n\n".repeat(200).into_bytes()))
            .then(Act::Hold)])
        .await;
        let client: Client = connect_with(&server, modern()).await;
        let listening = client.listen(ListenFilter::lists()).await.unwrap();
        if dropped {
            drop(listening);
        } else {
            timed(listening.close()).await;
        }
        assert_eq!(server.count("POST", "subscriptions/listen"), 1);
        // Nothing comes back by itself.
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(server.count("POST", "subscriptions/listen"), 1);
    }
}
