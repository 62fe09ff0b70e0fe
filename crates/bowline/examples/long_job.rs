//! A job that takes its time: progress, cancellation, and a connection that need not be held while nobody has anything to say.
//!
//! `cargo run --example long_job [ADDRESS]`

use bowline::{Call, Error, Json, Server, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Deserialize, JsonSchema)]
struct Job {
    /// How many steps the job has
    #[schemars(range(max = 10_000))]
    steps: u32,
    /// How long a step takes, in milliseconds
    #[serde(default = "Job::step_ms")]
    step_ms: u64,
}

impl Job {
    const fn step_ms() -> u64 {
        1_000
    }
}

#[derive(Serialize, JsonSchema)]
struct Done {
    /// The steps that were done
    steps: u32,
}

async fn run(ctx: Call, job: Job) -> Result<Json<Done>, Error> {
    if !ctx.wants_progress() {
        // Nothing will be said until the end: a client that can come back for the result need not keep a connection open.
        ctx.close_connection();
    }
    for step in 1..=job.steps {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(job.step_ms)) => {}
            reason = ctx.cancelled() => {
                // The place to put things in order. Nobody hears this result any more.
                return Err(Error::tool(format!("stopped after {} steps: {reason:?}", step - 1)));
            }
        }
        ctx.progress_with_message(step.into(), f64::from(job.steps), &format!("step {step}"));
    }
    Ok(Json(Done { steps: job.steps }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let job =
        Tool::new("run_job").title("Run a job").description("Runs a job of several steps").read_only(true);
    let server = Server::builder("long-job", "1.0").add_tool(job, run).build()?;
    Ok(server.http().serve(address).await?)
}
