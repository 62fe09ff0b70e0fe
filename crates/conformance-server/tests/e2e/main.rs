//! The built fixture over sockets: both eras on one endpoint, and its end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use bowline_testkit::{Answer, RealClient, Session, eventually, modern, patiently};
use serde_json::{Value, json};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The server on a free port; killed when the test is over.
struct Fixture {
    child: Child,
    address: SocketAddr,
}

impl Fixture {
    async fn start() -> Self {
        let address = {
            let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            probe.local_addr().unwrap()
        };
        let child = Command::new(env!("CARGO_BIN_EXE_bowline-conformance-server"))
            .args(["--port", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the server listens", Duration::from_secs(20), || TcpStream::connect(address).is_ok())
            .await;
        Self { child, address }
    }

    /// Tells it to end.
    fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn fifty_clients_of_each_era_at_once_get_their_own_answers() {
    let fixture = Fixture::start().await;
    let address = fixture.address;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..50_u64 {
        all.spawn(async move {
            let session = Session::start(address, "2025-11-25").await;
            let mut answer = session.call("test_tool_with_progress", json!({})).await;
            let message = if answer.is_stream() { answer.response().await } else { answer.json().await };
            assert_eq!(message["result"]["resultType"], Value::Null, "{message}");
            assert!(message["result"]["content"][0]["text"].as_str().unwrap().starts_with("Done"));
            assert_eq!(session.delete().await.status(), 204);
        });
        all.spawn(async move {
            let asked = modern::tool(address, n, "test_input_required_result_elicitation", json!({})).await;
            assert_eq!((&asked["id"], &asked["result"]["resultType"]), (&json!(n), &json!("input_required")));
            let name = format!("client {n}");
            let next = json!({
                "requestState": asked["result"]["requestState"],
                "inputResponses": { "user_name": { "action": "accept", "content": { "name": name } } },
            });
            let done = modern::tool(address, n + 1_000, "test_input_required_result_elicitation", next).await;
            assert_eq!(done["id"], n + 1_000);
            assert_eq!(done["result"]["content"][0]["text"], format!("Hello, {name}!"));
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// Real clients in each of their modern modes: tools, questions in rounds, a listening stream.
#[tokio::test]
async fn real_clients_are_served_in_their_modern_modes() {
    let fixture = Fixture::start().await;
    let url = format!("http://{}/mcp", fixture.address);
    for (client, mode) in [
        (RealClient::TypeScript2, "modern"),
        (RealClient::TypeScript2, "auto"),
        (RealClient::Python, "modern"),
        (RealClient::Python, "auto"),
        (RealClient::Rmcp, "discover"),
        (RealClient::Rmcp, "auto"),
    ] {
        let scenario = format!("facade --mode {mode} --revision 2026-07-28");
        client.run(&url, &scenario, Duration::from_secs(60)).await.passed();
    }
}

#[tokio::test]
async fn a_listener_hears_what_a_legacy_client_causes_and_is_told_of_the_end() {
    let mut fixture = Fixture::start().await;
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    let mut stream = modern::request(fixture.address, 7, "subscriptions/listen", listen).await;
    assert!(stream.is_stream());
    let message = |block: bowline_testkit::Block| block.message();
    let acknowledged = stream.block().await.and_then(message).unwrap();
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));

    let session = Session::start(fixture.address, "2025-06-18").await;
    assert_eq!(session.call_for_text("test_trigger_tool_change", json!({})).await, "Announced");
    let told = stream.block().await.and_then(message).unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);

    fixture.terminate();
    let last = stream.block().await.and_then(message).unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert!(stream.block().await.is_none(), "nothing follows");
    drop(session);
    let ended = patiently("the server ends", async {
        loop {
            if let Some(status) = fixture.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_place() {
    let fixture = Fixture::start().await;
    // As many listeners as there are connections in a browser, again and again: none of them stays.
    for round in 0..20_u64 {
        let mut streams = Vec::new();
        for n in 0..6 {
            let wish = json!({ "notifications": { "promptsListChanged": true } });
            let mut stream =
                modern::request(fixture.address, round * 6 + n, "subscriptions/listen", wish).await;
            assert!(stream.block().await.is_some());
            streams.push(stream);
        }
        streams.into_iter().for_each(Answer::abort);
    }
    // What was left behind holds nothing up.
    let answer = modern::tool(fixture.address, 1, "test_trigger_prompt_change", json!({})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Announced");
}

#[tokio::test]
async fn a_header_that_a_proxy_changed_is_noticed() {
    let fixture = Fixture::start().await;
    let mut params = json!({ "name": "test_simple_text" });
    let mut answer = modern::request(fixture.address, 1, "tools/call", params.clone()).await;
    assert_eq!((answer.status(), answer.json().await["result"]["isError"].clone()), (200, Value::Null));
    params["name"] = json!("test_custom_header");
    params["arguments"] = json!({ "value": "Hello" });
    let mut answer = modern::request(fixture.address, 2, "tools/call", params).await;
    assert_eq!((answer.status(), answer.json().await["error"]["code"].clone()), (400, json!(-32020)));
}
