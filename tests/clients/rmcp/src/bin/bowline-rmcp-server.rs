//! An HTTP server on the Rust SDK (crate `rmcp`), stock settings. `bowline-rmcp-server PORT LEDGER`; the tools are those of every
//! server here (see tests/README.md).

use axum::Router;
use rmcp::{
    ServerHandler,
    handler::server::wrapper::Parameters,
    model::{ServerCapabilities, ServerConfig},
    schemars::{self, JsonSchema},
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use std::{io::Write, sync::Arc, time::Duration};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    note: String,
    ms: u64,
}

#[derive(Clone)]
struct Tools {
    ledger: Arc<str>,
}

#[tool_router]
impl Tools {
    #[tool(description = "Returns the text")]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(description = "Writes a line to the ledger, then takes its time")]
    async fn count(&self, Parameters(Count { note, ms }): Parameters<Count>) -> Result<String, String> {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.append(true).create(true).open(&*self.ledger).map_err(|error| error.to_string())?;
        writeln!(file, "{note}").map_err(|error| error.to_string())?;
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Ok(format!("counted {note}"))
    }
}

#[tool_handler]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(port), Some(ledger)) = (args.next(), args.next()) else {
        return Err("usage: bowline-rmcp-server PORT LEDGER".into());
    };
    let port: u16 = port.parse()?;
    let tools = Tools { ledger: ledger.into() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(
            move || Ok(tools.clone()),
            sessions,
            StreamableHttpServerConfig::default(),
        );
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        println!("ready");
        axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
        Ok(())
    })
}
