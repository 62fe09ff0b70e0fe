//! An rmcp server as it is, served by Bowline: only `main` knows about it.
//!
//! `cargo run -p bowline-rmcp --example rmcp_handler [ADDRESS]`

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{ProgressNotificationParam, ServerCapabilities, ServerConfig},
    service::RequestContext,
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[derive(Deserialize, JsonSchema)]
struct Job {
    /// How many steps the job has
    steps: u32,
    /// How long a step takes, in milliseconds
    step_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Seats {
    /// How many people come
    people: u32,
}
rmcp::elicit_safe!(Seats);

#[derive(Clone, Default)]
struct Restaurant {
    /// Shared by all sessions, as the handler is cloned for each.
    booked: Arc<AtomicU64>,
}

#[tool_router]
impl Restaurant {
    #[tool(description = "Cooks something that takes its time")]
    async fn cook(
        &self,
        Parameters(Job { steps, step_ms }): Parameters<Job>,
        context: RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        let token = context.meta.get_progress_token();
        for step in 1..=steps {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(step_ms)) => {}
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("the guest left", None)),
            }
            if let Some(token) = &token {
                let progress = ProgressNotificationParam::new(token.clone(), step.into());
                let _ = context.peer.notify_progress(progress.with_total(steps.into())).await;
            }
        }
        Ok(format!("Served after {steps} steps"))
    }

    #[tool(description = "Books a table; asks for how many")]
    async fn book(&self, context: RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let seats = context.peer.elicit::<Seats>("How many people come?").await;
        match seats {
            Ok(Some(Seats { people })) => {
                let booking = self.booked.fetch_add(1, Ordering::Relaxed) + 1;
                Ok(format!("Booking {booking}: a table for {people}"))
            }
            Ok(None) => Ok("Nothing was booked".into()),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}

#[tool_handler]
impl ServerHandler for Restaurant {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let restaurant = Restaurant::default();
    bowline_rmcp::http(move || restaurant.clone()).serve(address).await
}
