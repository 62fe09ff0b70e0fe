//! Tools that take some time: progress, log messages, and a connection that is let go of.

use bowline::{Call, Level, NoInput, ServerBuilder};
use std::time::Duration;

/// The time between two steps, as the suite expects it.
const STEP: Duration = Duration::from_millis(50);

/// How long a call runs on after its connection was closed.
const AFTER_CLOSING: Duration = Duration::from_millis(100);

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            "test_tool_with_progress",
            "Says three times how far it is",
            |ctx: Call, _: NoInput| async move {
                for done in [0.0, 50.0, 100.0] {
                    ctx.progress_with_message(done, 100.0, &format!("Completed step {done} of 100"));
                    tokio::time::sleep(STEP).await;
                }
                "Done, with three notifications of progress"
            },
        )
        .tool("test_tool_with_logging", "Logs three messages", |ctx: Call, _: NoInput| async move {
            for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                ctx.log(Level::Info, text);
                tokio::time::sleep(STEP).await;
            }
            "Done, with three log messages"
        })
        .tool(
            "test_reconnection",
            "Closes its connection and goes on working; the result is for whoever comes back",
            |ctx: Call, _: NoInput| async move {
                ctx.close_connection();
                tokio::time::sleep(AFTER_CLOSING).await;
                "Reconnection test completed: the connection was closed, and this result was fetched"
            },
        )
}
