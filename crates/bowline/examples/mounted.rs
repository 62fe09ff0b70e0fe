//! Mounted in an axum application, behind its layers: who is calling comes from a layer, and a handler reads it.
//!
//! `cargo run --example mounted [ADDRESS]`

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
    serve::ListenerExt as _,
};
use bowline::{Call, Error, NoInput, Server, code};
use tokio::net::TcpListener;

/// What the layer learned about the caller.
#[derive(Clone)]
struct User(String);

/// A stand-in for real authentication: the name is taken from a header.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let name = request.headers().get("x-user").and_then(|name| name.to_str().ok()).map(str::to_owned);
    let Some(name) = name else { return StatusCode::UNAUTHORIZED.into_response() };
    request.extensions_mut().insert(User(name));
    next.run(request).await
}

async fn who_am_i(ctx: Call, _: NoInput) -> Result<String, Error> {
    let user = ctx.parts().and_then(|parts| parts.extensions.get::<User>());
    let User(name) = user.ok_or_else(|| Error::protocol(code::INTERNAL_ERROR, "the layer is missing"))?;
    Ok(format!("You are {name}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let server = Server::builder("mounted", "1.0").tool("who_am_i", "Says who you are", who_am_i).build()?;
    let app = Router::new()
        .route_service("/mcp", server.http().into_endpoint())
        .layer(middleware::from_fn(authenticate))
        .route("/", get(async || "The MCP server is at /mcp"));
    // An answer is one write: waiting for more to send would only delay it.
    let listener = TcpListener::bind(address).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, app).await?)
}
