//! The same tools on rmcp: `rmcp-echo [--stateless]`. Prints `listening PORT`.
//!
//! As its users write it, but for one thing: the router is built once and shared, which is what makes rmcp fastest.

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{ProgressNotificationParam, ServerCapabilities, ServerConfig},
    service::RequestContext,
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    count: u32,
}

#[derive(Clone)]
struct Echo {
    tools: Arc<ToolRouter<Self>>,
}

#[tool_router]
impl Echo {
    #[tool(description = "Says it back")]
    async fn echo(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text
    }

    #[tool(description = "Says many things before its result")]
    async fn notify(
        &self,
        Parameters(Count { count }): Parameters<Count>,
        context: RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        if let Some(token) = context.meta.get_progress_token() {
            for n in 1..=count {
                let progress = ProgressNotificationParam::new(token.clone(), n.into());
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        Ok("done".into())
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut config = StreamableHttpServerConfig::default();
    if std::env::args().any(|arg| arg == "--stateless") {
        config.legacy_session_mode = false;
        config.json_response = true;
    }
    let echo = Echo { tools: Arc::new(Echo::tool_router()) };
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("listening {}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
