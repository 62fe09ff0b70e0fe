//! D, as far as it concerns one process.

use crate::common::{fixture, serve};
use bowline_testkit::{Session, initialize};
use serde_json::{Value, json};

#[tokio::test]
async fn d12_a_client_that_never_sends_a_session_id_is_served_and_leaves_nothing() {
    let program = serve("--session-mode stateless").await;
    let nobody = Session::none(program.address());
    let mut processes = 0;
    for round in 0..60 {
        let mut hello = nobody.post(&initialize("2025-06-18")).await;
        assert_eq!((hello.status(), hello.header("mcp-session-id")), (200, None));
        assert!(hello.json().await["result"].is_object());
        assert_eq!(nobody.notify("notifications/initialized", json!({})).await.status(), 202);
        let mut list = nobody.ask("tools/list", json!({})).await;
        assert_eq!(list.status(), 200);
        assert!(list.json().await["result"]["tools"].is_array());
        assert_eq!(nobody.call_for_text("echo", json!({ "text": "x" })).await, "x");
        assert_eq!(nobody.get(None).await.status(), 405);
        assert_eq!(nobody.delete().await.status(), 405);
        if round == 10 {
            processes = program.servers().len();
        }
    }
    assert!(program.servers().len() <= processes.max(2), "no process for a request");
}

#[tokio::test]
async fn d13_a_list_is_waited_for_while_the_server_comes_up() {
    let program = fixture().server_args("--slow-init 1.5").with("--session-mode stateless").start().await;
    let mut answer = Session::none(program.address()).ask("tools/list", json!({})).await;
    let body = answer.response().await;
    assert!(body["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 5), "{body}");
    // One that does not come up is an error, not an empty list.
    let broken = fixture()
        .server_args("--slow-init 600")
        .with("--session-mode stateless --init-timeout 500ms")
        .start()
        .await;
    let body: Value = Session::none(broken.address()).ask("tools/list", json!({})).await.response().await;
    assert!(body["error"].is_object(), "{body}");
}
