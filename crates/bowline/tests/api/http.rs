//! Served over HTTP: the same server value, mounted and on its own listener.

use axum::{Router, body::Body, middleware};
use bowline::{Call, NoInput, Options, Server, testing::Client};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

#[derive(Clone)]
struct User(&'static str);

fn server() -> Server {
    Server::builder("s", "1")
        .tool("who", "Says who you are", |ctx: Call, _: NoInput| async move {
            let user = ctx.parts().and_then(|parts| parts.extensions.get::<User>()).map(|user| user.0);
            let header = ctx.parts().and_then(|parts| parts.headers.get("x-a")).and_then(|a| a.to_str().ok());
            format!("{user:?} {header:?}")
        })
        .tool("poll", "Lets go of its connection", |ctx: Call, _: NoInput| async move {
            ctx.close_connection();
            tokio::time::sleep(Duration::from_secs(1)).await;
            "fetched"
        })
        .build()
        .unwrap()
}

fn post(session: Option<&str>, body: &Value) -> Request<Body> {
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("x-a", "b");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.body(Body::from(body.to_string())).unwrap()
}

fn initialize() -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn call(tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool } })
}

async fn text<B: http_body_util::BodyExt<Error: std::fmt::Debug>>(response: Response<B>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn mounted_in_axum_a_handler_sees_what_layers_put_in() {
    use tower_service::Service as _;
    let mut app = Router::new().route_service("/mcp", server().http().into_endpoint()).layer(
        middleware::from_fn(async |mut request: axum::extract::Request, next: middleware::Next| {
            request.extensions_mut().insert(User("ann"));
            next.run(request).await
        }),
    );
    let hello = app.call(post(None, &initialize())).await.unwrap();
    let session = hello.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let answer: Value =
        serde_json::from_str(&text(app.call(post(Some(&session), &call("who"))).await.unwrap()).await)
            .unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], r#"Some("ann") Some("b")"#);
    let elsewhere = app.call(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(elsewhere.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_let_go_of_is_closed_and_the_result_is_fetched() {
    let endpoint = server().http().options(Options::default()).into_endpoint();
    let hello = endpoint.handle(post(None, &initialize())).await;
    let session = hello.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let stream = text(endpoint.handle(post(Some(&session), &call("poll"))).await).await;
    assert!(!stream.contains("fetched"), "{stream}");
    assert!(stream.contains("retry:"), "{stream}");
    let cursor = stream.lines().filter_map(|line| line.strip_prefix("id:")).next_back().unwrap().trim();
    let resume = Request::get("/mcp")
        .header("host", "localhost")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("last-event-id", cursor);
    let stream = text(endpoint.handle(resume.body(Body::empty()).unwrap()).await).await;
    assert!(stream.contains("fetched"), "{stream}");
}

#[tokio::test(start_paused = true)]
async fn one_server_is_served_in_several_places() {
    let server = server();
    let endpoint = server.http().stateless().path("/other").into_endpoint();
    let mut request = post(None, &call("who"));
    *request.uri_mut() = "/other".parse().unwrap();
    let answer = endpoint.handle(request).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(text(answer).await.contains("None Some"), "the tool ran without a session");
    let client = Client::connect(&server).await;
    assert_eq!(client.call_tool("who", json!({})).await.unwrap()["content"][0]["text"], "None None");
}

#[tokio::test]
async fn its_own_listener_serves_until_it_is_stopped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let http = server().http().drain_timeout(Duration::from_secs(1));
    let serving = tokio::spawn(http.serve_on(listener, async { drop(stopped.await) }));
    let body = initialize().to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(r#""name":"s""#), "{answer}");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
