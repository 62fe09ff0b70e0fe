//! Requests of the server: sampling, elicitation, roots.

use serde_json::{Value, json};

use crate::support::{Log, Server, fixture};

/// J7: asked on the call's stream, answered by another POST, passed back raw under the server's own id.
#[tokio::test]
async fn questions_go_there_and_back() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = server.connected().await;
    for (tool, method, answer) in [
        ("ask", "elicitation/create", json!({ "action": "accept", "content": { "name": "Ada" }, "x": 1.5 })),
        ("sample", "sampling/createMessage", json!({ "role": "assistant", "model": "m", "content": [] })),
        ("roots", "roots/list", json!({ "roots": [{ "uri": "file:///x" }] })),
    ] {
        let mut stream = client.tool(tool, tool, json!({})).await;
        let question = stream.next().await.unwrap();
        assert_eq!(question["method"], method);
        let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
        assert_eq!(client.post(&reply).await.status, 202);
        assert_eq!(client.post(&reply).await.status, 202); // twice: harmless
        let response = stream.next().await.unwrap();
        let text: Value =
            serde_json::from_str(response["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&response["id"], text), (&json!(tool), answer));
        assert_eq!(stream.next().await, None);
    }
    let answered = |message: &&Value| message["id"].as_str().is_some_and(|id| id.starts_with("fixture-"));
    assert_eq!(log.messages().iter().filter(answered).count(), 3);
    server.end().await;
}

/// A client that never said that it can be asked would let the tool wait: it is refused in its place, at once.
#[tokio::test]
async fn a_client_is_not_asked_what_it_did_not_declare() {
    let server = Server::new(fixture(&[]));
    for capabilities in [json!({}), json!({ "sampling": null, "roots": true, "x": {} })] {
        let mut client = server.client();
        client.initialize_with(capabilities).await;
        for tool in ["ask", "sample", "roots"] {
            let answer = client.tool(tool, tool, json!({})).await.next().await.unwrap();
            assert_eq!(
                (&answer["id"], &answer["result"]["isError"]),
                (&json!(tool), &json!(true)),
                "{answer}"
            );
            let error: Value =
                serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(error["code"], -32601, "{error}");
        }
    }
    let mut client = server.client();
    client.initialize_with(json!({ "roots": {} })).await;
    assert_eq!(client.tool(1, "roots", json!({})).await.next().await.unwrap()["method"], "roots/list");
    server.end().await;
}

#[tokio::test]
async fn an_error_of_the_client_goes_back_as_it_is() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let mut stream = client.tool(1, "ask", json!({})).await;
    let question = stream.next().await.unwrap();
    let error = json!({ "code": -1, "message": "no", "data": { "why": [1] } });
    client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error })).await;
    let response = stream.next().await.unwrap();
    let text: Value =
        serde_json::from_str(response["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&response["result"]["isError"], text), (&json!(true), error));
    server.end().await;
}

/// A question that the server gives up is cancelled under the id that the client knows.
#[tokio::test]
async fn a_question_that_is_given_up_is_cancelled() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let mut stream = client.tool(1, "ask", json!({})).await;
    let question = stream.next().await.unwrap();
    let cancel = json!({ "method": "notifications/cancelled", "params": { "requestId": "fixture-1", "reason": "late" } });
    client.text(2, "emit", cancel).await;
    let told = stream.until_method("notifications/cancelled").await;
    assert_eq!(told["params"], json!({ "requestId": question["id"], "reason": "late" }));
    // An answer that comes all the same is not passed on, and harms nobody.
    client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": {} })).await;
    assert_eq!(client.text(3, "echo", json!({ "text": "x" })).await, "x");
    server.end().await;
}

/// `ping` is answered by the gateway; a question too many is refused.
#[tokio::test]
async fn pings_are_answered_here_and_questions_are_bounded() {
    let mut options = fixture(&[]);
    options.max_questions = 1;
    let server = Server::new(options);
    let client = server.connected().await;
    assert_eq!(client.text(1, "request", json!({ "method": "ping" })).await, "{}");
    let mut first = client.tool(2, "ask", json!({})).await;
    first.next().await.unwrap();
    let refused = client.tool(3, "ask", json!({})).await.response().await;
    assert_eq!(refused["result"]["isError"], true);
    let error: Value =
        serde_json::from_str(refused["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("too_many_requests")));
    server.end().await;
}

/// With several calls running nobody knows whose question it is: a reader of the standalone stream gets it.
#[tokio::test]
async fn among_several_calls_the_standalone_stream_is_asked() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let mut standalone = client.get().await;
    let busy = client.clone();
    let _other = tokio::spawn(async move { busy.tool(1, "slow", json!({ "ms": 10_000 })).await.all().await });
    let asker = client.clone();
    let asked = tokio::spawn(async move { asker.text(2, "ask", json!({})).await });
    let question = standalone.until_method("elicitation/create").await;
    client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "cancel" } })).await;
    assert_eq!(asked.await.unwrap(), r#"{"action": "cancel"}"#);
    server.end().await;
}
