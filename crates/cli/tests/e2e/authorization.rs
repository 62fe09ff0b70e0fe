//! An MCP server that wants a login, with its authorization server, and a person's browser.

use crate::support::soon;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// The only token that the server takes.
const TOKEN: &str = "good-token";

pub(crate) struct Guarded {
    address: SocketAddr,
    logins: Arc<AtomicUsize>,
}

impl Guarded {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let logins = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&logins);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, address, Arc::clone(&counted)));
            }
        });
        Self { address, logins }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How many tokens were given out.
    pub(crate) fn logins(&self) -> usize {
        self.logins.load(Ordering::Relaxed)
    }
}

/// Says yes to the login that a text asks for; what the page says then.
pub(crate) async fn browse(text: &str) -> String {
    let start = text.find("http://").unwrap();
    let url = text[start..].split_whitespace().next().unwrap();
    let query = url.split_once('?').unwrap().1;
    let part = |name: &str| {
        let found = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        decoded(found.unwrap_or_else(|| panic!("no {name} in {url}")))
    };
    assert_eq!((part("response_type").as_str(), part("code_challenge_method").as_str()), ("code", "S256"));
    let (redirect, state) = (part("redirect_uri"), part("state"));
    let rest = redirect.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let port: u16 = host.rsplit_once(':').unwrap().1.parse().unwrap();
    soon("the page", async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!(
            "GET /{path}?code=abc&state={state} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    })
    .await
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

async fn serve(mut stream: TcpStream, address: SocketAddr, logins: Arc<AtomicUsize>) {
    let mut read = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => read.extend_from_slice(&chunk[..bytes]),
        }
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let allowed = head.to_ascii_lowercase().contains(&format!("authorization: bearer {TOKEN}"));
    let base = format!("http://{address}");
    let (status, extra, answer) = match (method, path.split('?').next().unwrap()) {
        (_, "/mcp") if !allowed => {
            let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
            (
                "401 Unauthorized",
                format!("WWW-Authenticate: Bearer resource_metadata=\"{metadata}\"\r\n"),
                Value::Null,
            )
        }
        ("POST", "/mcp") => mcp(&body),
        (_, "/mcp") => ("405 Method Not Allowed", "Allow: POST\r\n".into(), Value::Null),
        ("GET", path) if path.starts_with("/.well-known/oauth-protected-resource") => (
            "200 OK",
            String::new(),
            json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base] }),
        ),
        ("GET", "/.well-known/oauth-authorization-server") => {
            let metadata = json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            });
            ("200 OK", String::new(), metadata)
        }
        ("POST", "/register") => {
            let mut client: Value = serde_json::from_str(&body).unwrap();
            client["client_id"] = json!("client-1");
            ("201 Created", String::new(), client)
        }
        ("POST", "/token") => {
            assert!(body.contains("code=abc") && body.contains("code_verifier="), "{body}");
            logins.fetch_add(1, Ordering::Relaxed);
            (
                "200 OK",
                String::new(),
                json!({ "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600 }),
            )
        }
        _ => ("404 Not Found", String::new(), json!({ "error": "not found" })),
    };
    let body = if answer.is_null() { String::new() } else { answer.to_string() };
    let answer = format!(
        "HTTP/1.1 {status}\r\n{extra}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // Whoever asked may have gone.
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// A server with one tool.
fn mcp(body: &str) -> (&'static str, String, Value) {
    let message: Value = serde_json::from_str(body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "guarded", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "secret", "inputSchema": { "type": "object" } }] }),
        method if method.starts_with("notifications/") => {
            return ("202 Accepted", String::new(), Value::Null);
        }
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return (
                "200 OK",
                String::new(),
                json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
            );
        }
    };
    ("200 OK", String::new(), json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}
