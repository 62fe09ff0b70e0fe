//! Requests of a modern client (`2026-07-28`), each on a connection of its own.

use crate::{Answer, Raw};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The answer to one request, by a client that can be asked things, unless `params` say what it can.
pub async fn request(address: SocketAddr, id: u64, method: &str, mut params: Value) -> Answer {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    let capabilities = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    if capabilities.is_null() {
        *capabilities = json!({ "elicitation": {}, "sampling": {} });
    }
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
    let name = ["name", "taskId"].iter().find_map(|member| params[member].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Answer::to(Raw::connect(address).await, request).await
}

/// The response to a call of a tool, however it comes. `params` are those beside the name.
pub async fn tool(address: SocketAddr, id: u64, name: &str, mut params: Value) -> Value {
    params["name"] = json!(name);
    let mut answer = request(address, id, "tools/call", params).await;
    if answer.is_stream() { answer.response().await } else { answer.json().await }
}
