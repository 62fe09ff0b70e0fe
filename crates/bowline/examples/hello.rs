//! A server with one tool: `cargo run --example hello`, then point a client at <http://127.0.0.1:8000/mcp>.
use bowline::{Call, Server};
use schemars::JsonSchema;

#[derive(serde::Deserialize, JsonSchema)]
struct Who {
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let server =
        Server::builder("hello", "1.0")
            .tool("hello", "Greets", |_: Call, Who { name }: Who| async move { format!("Hello, {name}!") });
    Ok(server.build()?.http().serve(address).await?)
}
