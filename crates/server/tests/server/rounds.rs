//! SEMANTICS 4: questions to a modern client end the round; the handler runs again, or its call stays open.

use crate::{client::Server, modern_script::next_round};
use bowline_proto::cursor::Keyring;
use bowline_server::Options;
use bowline_store::MemoryStore;
use serde_json::{Value, json};
use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

fn roots(name: &str) -> Value {
    json!({ "roots": [{ "uri": format!("file:///{name}") }] })
}

#[tokio::test(start_paused = true)]
async fn a_handler_runs_again_with_every_answer_until_it_has_all() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let (status, first) = client.outcome("rerun", json!({ "arguments": { "x": 1 } })).await;
    assert_eq!(
        (status, &first["inputRequests"]),
        (200, &json!({ "first": { "method": "roots/list", "params": {} } }))
    );
    assert_eq!((&first["ttlMs"], first["requestState"].is_string()), (&Value::Null, true));

    let mut next = next_round(&first, json!({ "first": roots("a"), "never asked": roots("x") }));
    next["arguments"] = json!({ "x": 1 });
    let (_, second) = client.outcome("rerun", next.clone()).await;
    assert_eq!(second["inputRequests"], json!({ "second": { "method": "roots/list", "params": {} } }));
    assert_ne!(first["requestState"], second["requestState"]);

    let mut last = next_round(&second, json!({ "second": roots("b") }));
    last["arguments"] = json!({ "x": 1 });
    let (_, done) = client.outcome("rerun", last).await;
    assert_eq!(done["answers"], json!([roots("a"), roots("b")]));
    assert_eq!((&done["kept"], &done["resultType"]), (&json!("kept"), &json!("complete")));
    assert_eq!(server.script.calls.load(Ordering::SeqCst), 3);
    // A retry that was lost comes back with the same state.
    let (_, again) = client.outcome("rerun", next).await;
    assert_eq!(again["inputRequests"], second["inputRequests"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_asked_for_again() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let (_, first) = client.outcome("rerun", json!({})).await;
    for answers in [json!({}), json!({ "other": roots("a") }), json!({ "first": 12_345 }), Value::Null] {
        let (_, again) = client.outcome("rerun", next_round(&first, answers)).await;
        assert_eq!(again["inputRequests"], first["inputRequests"]);
    }
    let (status, error) = client.outcome("rerun", next_round(&first, json!([]))).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32602)));
}

#[tokio::test(start_paused = true)]
async fn a_state_is_of_use_to_its_principal_for_its_request_and_for_a_time() {
    let key = || Keyring::from_bytes(&[[7; 32]]).unwrap();
    let server = Server::modern_with(|builder| builder.keyring(key()));
    let mut client = server.modern_client();
    client.client.principal = Some("alice");
    let (_, asked) = client.outcome("rerun", json!({ "arguments": { "x": 1 } })).await;
    let mut good = next_round(&asked, json!({ "first": roots("a") }));
    good["arguments"] = json!({ "x": 1 });

    let refused = |outcome: (u16, Value)| assert_eq!((outcome.0, &outcome.1["code"]), (400, &json!(-32602)));
    let mut forged = good.clone();
    forged["requestState"] = json!(format!("{}-TAMPERED", asked["requestState"].as_str().unwrap()));
    refused(client.outcome("rerun", forged).await);
    let mut other_arguments = good.clone();
    other_arguments["arguments"] = json!({ "x": 2 });
    refused(client.outcome("rerun", other_arguments).await);
    refused(client.outcome("rerun_once", good.clone()).await);
    let mut bob = server.modern_client();
    bob.client.principal = Some("bob");
    refused(bob.outcome("rerun", good.clone()).await);

    // Another backend with the same key goes on.
    let other = Server::modern_with(|builder| builder.keyring(key()));
    let mut moved = other.modern_client();
    moved.client.principal = Some("alice");
    let (_, second) = moved.outcome("rerun", good.clone()).await;
    assert_eq!(second["resultType"], "input_required");

    tokio::time::sleep(Duration::from_secs(10 * 60 + 1)).await;
    refused(client.outcome("rerun", good).await);
}

#[tokio::test(start_paused = true)]
async fn answers_are_spent_once_where_the_handler_asks_for_it_on_every_backend() {
    let store = Arc::new(MemoryStore::default());
    let key = || Keyring::from_bytes(&[[7; 32]]).unwrap();
    let backend = || Server::modern_with(|builder| builder.keyring(key()).store(store.clone()));
    let (one, other) = (backend(), backend());
    let mut client = one.modern_client();
    let (_, first) = client.outcome("rerun_once", json!({})).await;
    let (_, second) = client.outcome("rerun_once", next_round(&first, json!({ "first": roots("a") }))).await;
    let last = next_round(&second, json!({ "second": roots("b") }));
    let (_, done) = client.outcome("rerun_once", last.clone()).await;
    assert_eq!(done["resultType"], "complete");
    let (_, refused) = other.modern_client().outcome("rerun_once", last).await;
    assert_eq!(refused["code"], -32602);
    // Answers that nobody asked for cannot be spent.
    let early = json!({ "inputResponses": { "first": roots("a"), "second": roots("b") } });
    let (_, refused) = client.outcome("rerun_once", early.clone()).await;
    assert_eq!(refused["code"], -32602);
    let (_, done) = client.outcome("rerun", early).await;
    assert_eq!(done["resultType"], "complete");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_be_asked_is_told_what_it_lacks() {
    let server = Server::modern();
    let mut client = server.modern_client();
    client.capabilities = json!({ "elicitation": {} });
    for tool in ["rerun", "ask"] {
        let (status, error) = client.outcome(tool, json!({})).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{tool}");
        assert_eq!(error["data"]["requiredCapabilities"], json!({ "roots": {} }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_run_again_stays_open_and_is_joined() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let (_, asked) = client.outcome("ask_again", json!({})).await;
    assert_eq!(asked["inputRequests"], json!({ "q1": { "method": "roots/list", "params": {} } }));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, asked) = client.outcome("ask_again", next_round(&asked, json!({ "q1": roots("a") }))).await;
    assert_eq!(asked["inputRequests"], json!({ "q2": { "method": "roots/list", "params": {} } }));
    let last = next_round(&asked, json!({ "q2": roots("b") }));
    let (_, done) = client.outcome("ask_again", last.clone()).await;
    assert_eq!(done["answers"], json!([roots("a"), roots("b")]));
    assert_eq!(done["resultType"], "complete");
    // It is over, and nothing of it is left.
    let (status, error) = client.outcome("ask_again", last).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32602)));
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_moment_are_one_round_and_what_is_not_answered_is_asked_again() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let (_, asked) = client.outcome("ask_both", json!({})).await;
    assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 2);
    let (_, asked) = client.outcome("ask_both", next_round(&asked, json!({ "q2": roots("b") }))).await;
    assert_eq!(asked["inputRequests"], json!({ "q1": { "method": "roots/list", "params": {} } }));
    let answer = client.tool("ask_both", next_round(&asked, json!({ "q1": roots("a") }))).await;
    assert_eq!(answer.json().await["result"], json!([roots("a"), roots("b")]));
}

#[tokio::test(start_paused = true)]
async fn the_round_that_joined_has_the_stream_and_its_end_is_the_end_of_the_call() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let (_, asked) = client.outcome("ask_slowly", json!({})).await;
    let next = next_round(&asked, json!({ "q1": roots("a") }));
    let mut answer = client.tool("ask_slowly", next.clone()).await;
    assert!(answer.is_stream());
    // Nobody joins a call that somebody is with.
    let (status, _) = client.outcome("ask_slowly", next).await;
    assert_eq!(status, 400);
    let messages = answer.messages().await;
    assert_eq!(messages.iter().filter(|message| message["method"] == "notifications/progress").count(), 3);
    assert_eq!(messages.last().unwrap()["result"]["roots"], roots("a")["roots"]);
}

/// Every round is a request of its own, and an SDK knows no token but that of the request it waits for.
#[tokio::test(start_paused = true)]
async fn progress_goes_by_the_token_of_the_round_that_waits() {
    let server = Server::modern();
    let mut client = server.modern_client();
    for (first, second) in
        [(Some("t"), Some("u")), (Some("t"), Some("t")), (Some("t"), None), (None, Some("u"))]
    {
        let with = |mut params: Value, token: Option<&str>| {
            if let Some(token) = token {
                params["_meta"]["progressToken"] = json!(token);
            }
            params
        };
        let (_, asked) = client.outcome("ask_slowly", with(json!({}), first)).await;
        let next = with(next_round(&asked, json!({ "q1": roots("a") })), second);
        let messages = client.tool("ask_slowly", next).await.messages().await;
        let progress = messages.iter().filter(|message| message["method"] == "notifications/progress");
        let seen: Vec<_> = progress.map(|message| message["params"]["progressToken"].clone()).collect();
        assert_eq!(seen, second.map_or(vec![], |token| vec![json!(token); 3]), "{first:?}, {second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn open_calls_are_bounded_in_number_and_time() {
    let mut options = Options::default();
    (options.max_held_calls, options.input_ttl) = (1, Duration::from_secs(60));
    let server = Server::modern_options(options);
    let mut client = server.modern_client();
    let (_, asked) = client.outcome("ask", json!({})).await;
    let (_, refused) = client.outcome("ask", json!({})).await;
    assert_eq!(refused["data"]["reason"], "too_many_held_calls");
    tokio::time::sleep(Duration::from_secs(62)).await;
    let (status, error) = client.outcome("ask", next_round(&asked, json!({ "q1": roots("a") }))).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32602)));
    // Its place is free again.
    let (_, asked) = client.outcome("ask", json!({})).await;
    assert_eq!(asked["resultType"], "input_required");
}

#[tokio::test(start_paused = true)]
async fn one_principal_leaves_places_for_the_others() {
    let mut options = Options::default();
    options.max_calls_per_session = 1;
    let server = Server::modern_options(options);
    let mut alice = server.modern_client();
    alice.client.principal = Some("alice");
    let mut bob = server.modern_client();
    bob.client.principal = Some("bob");
    assert_eq!(alice.outcome("ask", json!({})).await.1["resultType"], "input_required");
    assert_eq!(alice.outcome("ask", json!({})).await.1["data"]["reason"], "too_many_held_calls");
    assert_eq!(bob.outcome("ask", json!({})).await.1["resultType"], "input_required");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_round_cancels_the_call() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let (_, asked) = client.outcome("ask_slowly", json!({})).await;
    let next = next_round(&asked, json!({ "q1": roots("a") }));
    let answer = client.tool("ask_slowly", next.clone()).await;
    drop(answer);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let (status, _) = client.outcome("ask_slowly", next).await;
    assert_eq!(status, 400, "the call is over");
}
