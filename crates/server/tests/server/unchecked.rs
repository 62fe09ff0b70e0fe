//! What `2026-07-28` demands and the official suite does not check, each under its requirement. Where another file has the test:
//!
//! | requirement | test |
//! |---|---|
//! | a notification is answered with 202 | `modern::a_notification_is_accepted_and_a_response_is_not` |
//! | two streams may listen at once | `listening::two_listen_at_once_each_for_itself` |
//! | a listening stream ends with a result when the server ends it | `listening::it_ends_in_order_when_the_server_leaves` |
//! | `requestState` is bound to the user, the request and a time, and is used once where that matters | `rounds::a_state_is_of_use_to_its_principal_for_its_request_and_for_a_time`, `rounds::answers_are_spent_once_where_the_handler_asks_for_it_on_every_backend` |
//! | `notifications/tasks` is what `tasks/get` would have said | `tasks::who_listens_is_told_of_every_state_with_all_that_a_get_would_say` |
//! | a handle goes out when its task can be asked for, and not before | `fleet::tasks::no_handle_goes_out_without_a_log` |
//! | a key of `inputRequests` is never used again in a task | `tasks::it_asks_by_its_state_and_is_answered_in_parts` |
//! | sentinels, literals that look like them, integers as numbers, annotations that cannot be reached | `bowline_proto::modern::params`, and `modern` of the tests of `bowline` |

use crate::{
    client::Server,
    modern_script::META,
    script::{progress, raw},
};
use bowline_proto::jsonrpc::Notification;
use http::Method;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[tokio::test(start_paused = true)]
async fn closing_the_post_stream_cancels_the_work_and_nothing_more_is_said() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let mut answer = client.call("count", json!({ "n": 1_000, "every": 0.5 })).await;
    assert_eq!(answer.event().await.unwrap().data.unwrap()["method"], "notifications/progress");
    drop(answer);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.script.finished.load(Ordering::SeqCst), 0, "it was dropped");
    let metrics = server.endpoint.metrics();
    assert_eq!((metrics.calls.get(), metrics.calls_cancelled.get()), (0, 1));

    // Nor by whoever still holds the call when it was answered.
    client.call("keep", json!({})).await;
    let call = server.script.kept.lock().pop().unwrap();
    assert!(!call.notify(&progress(&json!("t"), 1)));
}

#[tokio::test(start_paused = true)]
async fn get_and_delete_are_405_and_the_headers_of_older_revisions_are_ignored() {
    let server = Server::modern();
    let client = server.modern_client().client;
    for method in [Method::GET, Method::DELETE] {
        let headers = [VERSION, ("mcp-session-id", "s"), ("last-event-id", "e")];
        assert_eq!(client.send(method.clone(), &headers, "".into()).await.status, 405, "{method}");
    }
    let mut modern = server.modern_client();
    let body = modern.request("tools/call", json!({ "name": "echo" })).to_string();
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "echo"));
    let headers = [VERSION, method, name, ("mcp-session-id", "unknown"), ("last-event-id", "unknown")];
    let answer = client.send(Method::POST, &headers, body.into()).await;
    assert_eq!((answer.status.as_u16(), answer.headers.get("mcp-session-id")), (200, None));
    assert_eq!(answer.json().await["result"]["name"], "echo");
}

#[tokio::test(start_paused = true)]
async fn streams_tell_proxies_not_to_buffer() {
    let server = Server::modern();
    let mut client = server.modern_client();
    for answer in [
        client.tool("slow", json!({})).await,
        client.call("subscriptions/listen", json!({ "notifications": {} })).await,
    ] {
        assert!(answer.is_stream());
        assert_eq!(answer.headers["x-accel-buffering"].to_str().unwrap(), "no");
        assert_eq!(answer.headers["cache-control"].to_str().unwrap(), "no-cache, no-transform");
    }
}

#[tokio::test(start_paused = true)]
async fn mcp_name_is_checked_wherever_something_is_named_and_may_be_base64() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let encoded = "=?base64?ZmlsZTovLy9hIGIudHh0?=";
    for (method, member, value, name, matches) in [
        ("resources/read", "uri", "file:///a b.txt", "file:///a b.txt", true),
        ("resources/read", "uri", "file:///a b.txt", encoded, true),
        ("resources/read", "uri", "file:///a b.txt", "file:///a%20b.txt", false),
        ("prompts/get", "name", "p", "p", true),
        ("prompts/get", "name", "p", "=?base64?cA==?=", true),
        ("prompts/get", "name", "p", "q", false),
        // What only looks like a sentinel is what it says.
        ("prompts/get", "name", "=?base64?cA==", "=?base64?cA==", true),
        ("prompts/get", "name", "=?base64?cA==?=", "=?base64?cA==?=", false),
        ("tools/call", "name", "echo", "=?base64?ZWNobw==?=", true),
        ("tools/call", "name", "echo", "=?base64?ZWNobw?=", false),
    ] {
        let request = client.request(method, json!({ member: value }));
        let headers = [VERSION, ("mcp-method", method), ("mcp-name", name)];
        let answer = client.client.send(Method::POST, &headers, request.to_string().into()).await;
        let code = answer.json().await["error"]["code"].clone();
        assert_eq!(code != -32020, matches, "{method} {value} {name}: {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_of_lists_and_resources_under_the_id_of_its_request() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let wanted = json!({ "resourcesListChanged": true, "resourceSubscriptions": ["a:1", "a:2"] });
    let request = client.request("subscriptions/listen", json!({ "notifications": wanted }));
    let mut answer = client.send(&request).await;
    let mut next = async || -> Value {
        loop {
            if let Some(message) = answer.event().await.unwrap().data {
                return message;
            }
        }
    };
    let acknowledged = next().await;
    assert_eq!(acknowledged["params"]["notifications"], wanted);
    let peer = server.script.peers.lock()[0].clone();
    let tell =
        |method: &'static str, params: Value| peer.notify(&Notification::new(method, Some(raw(&params))));
    tell("notifications/resources/list_changed", json!({}));
    for uri in ["a:1", "a:3", "a:2"] {
        tell("notifications/resources/updated", json!({ "uri": uri }));
    }
    let told = [next().await, next().await, next().await];
    let about: Vec<_> = told.iter().map(|message| message["params"]["uri"].as_str()).collect();
    assert_eq!(about, [None, Some("a:1"), Some("a:2")]);
    for message in told.iter().chain([&acknowledged]) {
        assert_eq!(message["params"]["_meta"][format!("{META}/subscriptionId")], request["id"]);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_with_another_revision_is_told_which_are_served() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let mut request = client.request("tools/list", json!({}));
    request["params"]["_meta"][format!("{META}/protocolVersion")] = json!("2031-01-01");
    let headers = [("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")];
    let answer = client.client.send(Method::POST, &headers, request.to_string().into()).await;
    assert_eq!(answer.status, 400);
    let error = answer.json().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!("2031-01-01")));
    assert_eq!(error["data"]["supported"].as_array().unwrap().len(), 5);
}
