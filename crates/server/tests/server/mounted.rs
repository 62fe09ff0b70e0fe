//! An endpoint as a service in somebody else's router, over real sockets.

use crate::{client::Server, client::initialize};
use bowline_server::Principal;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

async fn post(address: std::net::SocketAddr, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_mounts_in_an_axum_router_behind_its_layers() {
    let server = Server::new();
    let who = axum::middleware::map_request(|mut request: axum::extract::Request| async move {
        request.extensions_mut().insert(Principal("alice".into()));
        request
    });
    let router = axum::Router::new()
        .route_service("/mcp", server.endpoint.clone())
        .layer(who)
        .route("/", axum::routing::get(|| async { "a page of mine" }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });

    let answer = post(address, "/mcp", &initialize("2025-11-25").to_string()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("mcp-session-id: "), "{answer}");
    let peer = server.script.peers.lock()[0].clone();
    assert_eq!(peer.principal(), Some("alice"));
    assert!(post(address, "/elsewhere", "{}").await.starts_with("HTTP/1.1 404"));
}
