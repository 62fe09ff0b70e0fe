//! B3, G*: the standalone stream, which never harms a call.

use crate::kit::*;
use bowline_client::{ClientOptions, Handlers};
use bowline_testkit::scripted::{Act, Scripted, Step, on};
use std::{sync::Arc, time::Duration};

fn standing() -> ClientOptions {
    let mut options = options();
    options.standalone = true;
    options
}

async fn settle(server: &Scripted, gets: usize) {
    bowline_testkit::eventually("the GETs", bowline_testkit::PATIENCE, || server.count("GET", "") >= gets)
        .await;
}

/// B3: 404 to a GET with a session means the session; and where every GET is answered so, it is asked twice, not for ever.
#[tokio::test]
async fn a_404_to_the_get_means_the_session() {
    let mut steps = with_session([on("GET", "").times(2).answer(404, "", "")]);
    steps.extend(handshake("s2"));
    steps.push(call_done().always());
    let server = Scripted::start(steps).await;
    let client = connect_with(&server, standing()).await;
    settle(&server, 2).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!((server.count("POST", "initialize"), server.count("GET", "")), (2, 2));
    assert_eq!(text(call(&client).await), "done");
    assert!(server.unexpected().is_empty());
}

/// G2: 405 is remembered for the session.
#[tokio::test]
async fn a_405_is_the_last_word() {
    let steps = [on("GET", "").answer(405, "allow: POST\r\n", ""), call_done().always()];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect_with(&server, standing()).await;
    for _ in 0..3 {
        assert_eq!(text(call(&client).await), "done");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.count("GET", ""), 1);
}

/// G2: Retry-After.
#[tokio::test]
async fn retry_after_delays_the_get() {
    let steps = [on("GET", "").answer(429, "retry-after: 1\r\n", ""), on("GET", "").answer(405, "", "")];
    let server = Scripted::start(with_session(steps)).await;
    let _client = connect_with(&server, standing()).await;
    settle(&server, 2).await;
    let gets = server.of("GET", "");
    assert!(gets[1].at - gets[0].at >= Duration::from_secs(1));
}

/// G1, G4, G9: whatever the GET does, calls work, and the GETs get rare.
#[tokio::test]
async fn a_get_that_fails_for_ever_is_asked_rarely_and_harms_nothing() {
    let cases: [(&str, Step, usize); 4] = [
        ("200 text/plain", on("GET", "").answer(200, "content-type: text/plain\r\n", "hello"), 1),
        ("empty streams", on("GET", "").stream().close(), 8),
        ("502", on("GET", "").answer(502, "", ""), 8),
        ("reset", on("GET", "").reset(), 8),
    ];
    for (what, step, most) in cases {
        let server = Scripted::start(with_session([step.always(), call_done().always()])).await;
        let client = connect_with(&server, standing()).await;
        let (gets, time) = timed(async {
            for _ in 0..20 {
                assert_eq!(text(call(&client).await), "done", "{what}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            server.count("GET", "")
        })
        .await;
        // One second here is twenty of a client as it comes.
        let most = most * usize::try_from(time.as_secs().max(1)).unwrap();
        assert!(gets <= most, "{what}: {gets} in {time:?}");
        assert_eq!(server.count("POST", "initialize"), 1, "{what}");
    }
}

/// G9: a GET whose head never comes does not hold up anything.
#[tokio::test]
async fn a_get_that_hangs_harms_nothing() {
    let server = Scripted::start(with_session([on("GET", "").then(Act::Hold), call_done()])).await;
    let (client, time) = timed(connect_with(&server, standing())).await;
    assert!(time < AT_ONCE, "{time:?}");
    assert_eq!(text(call(&client).await), "done");
}

/// What is said there is heard, questions are answered by POST, and the stream goes on after the last id.
#[tokio::test]
async fn what_comes_on_the_stream_is_heard_and_answered() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"one"}}"#;
    let second = note.replace("one", "two");
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","default":"x"}}}}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    let steps = [
        on("GET", "").stream().raw(format!("id: g1\nretry: 50\ndata:\n\n{}", event("g2", note))).close(),
        on("GET", "")
            .stream()
            .raw([event("g2", note), event("g3", &second), event("g4", ask), event("g5", ping)].concat())
            .then(Act::Hold),
        on("POST", "-").times(2).answer(202, "", ""),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let handlers = Handlers::new()
        .on_log(move |line| hears.lock().push(line.data.to_string()))
        .elicitation(|_| async { Ok(bowline_client::ElicitReply::Accept(None)) });
    let _client = connect_with(&server, standing().handler(handlers)).await;
    bowline_testkit::eventually("both answers", bowline_testkit::PATIENCE, || server.count("POST", "") == 4)
        .await;
    assert_eq!(*heard.lock(), ["\"one\"", "\"two\""], "each once, in order");
    assert_eq!(server.of("GET", "")[1].header("last-event-id"), "g2");
    let answers: Vec<_> = server.of("POST", "").into_iter().filter(|seen| seen.rpc.is_empty()).collect();
    let of = |id: &str| answers.iter().find(|seen| seen.json()["id"] == id).unwrap().json()["result"].clone();
    assert_eq!(of("q"), serde_json::json!({ "action": "accept", "content": { "a": "x" } }));
    assert_eq!(of("p"), serde_json::json!({}));
    assert!(answers.iter().all(|seen| seen.header("mcp-session-id") == "s1"));
    assert_eq!(
        server.of("POST", "initialize")[0].json()["params"]["capabilities"],
        serde_json::json!({ "elicitation": { "form": {} } })
    );
}

/// A server that pings on and takes no answer holds so many answers and no more.
#[tokio::test]
async fn a_flood_of_pings_is_answered_within_bounds() {
    let ping = |n: usize| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"ping\"}}\n\n");
    let flood: String = (0..500).map(ping).collect();
    let after = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"after\"}}\n\n";
    let steps = with_session([
        on("GET", "").stream().raw(flood + after).then(Act::Hold),
        on("POST", "").when(|seen| seen.body.contains("\"result\"")).always().then(Act::Hold),
    ]);
    let server = Scripted::start(steps).await;
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let options = standing().handler(Handlers::new().on_log(move |line| hears.lock().push(line.data)));
    let client = connect_with(&server, options).await;
    bowline_testkit::eventually("what follows", bowline_testkit::PATIENCE, || *heard.lock() == ["after"])
        .await;
    let answers = || server.seen().iter().filter(|seen| seen.body.contains("\"result\"")).count();
    bowline_testkit::eventually("the answers", bowline_testkit::PATIENCE, || answers() >= 64).await;
    client.close().await;
    assert_eq!(answers(), 64);
}
