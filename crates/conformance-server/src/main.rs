//! The server that the official conformance suite is run against: everything that its scenarios ask for, on Bowline's public API and
//! nothing else.

mod asking;
mod content;
mod prompts;
mod resources;
mod rounds;
mod tasks;
mod working;

use bowline::{BuildError, Server};
use clap::Parser;
use std::{io, net::Ipv4Addr};

/// Serves the fixture of the official conformance suite at http://127.0.0.1:PORT/mcp.
#[derive(Parser)]
#[command(name = "bowline-conformance-server", version)]
struct Arguments {
    /// The port on 127.0.0.1.
    #[arg(long)]
    port: u16,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the server cannot be built: {0}")]
    Build(#[from] BuildError),
    #[error("the server cannot serve: {0}")]
    Serve(#[from] io::Error),
}

fn server() -> Result<Server, BuildError> {
    let mut builder = Server::builder("bowline-conformance-server", env!("CARGO_PKG_VERSION"))
        .title("Conformance fixture")
        .instructions(
            "Every tool, resource and prompt here is asked for by a scenario of the conformance suite.",
        )
        .subscriptions();
    for add in
        [content::add, working::add, asking::add, resources::add, prompts::add, rounds::add, tasks::add]
    {
        builder = add(builder);
    }
    builder.build()
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let Arguments { port } = Arguments::parse();
    server()?.http().serve((Ipv4Addr::LOCALHOST, port)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline::testing::Client;
    use serde_json::json;

    #[tokio::test]
    async fn the_fixture_can_be_built_and_lists_what_the_suite_names() {
        let client = Client::connect(&server().unwrap()).await;
        let tools = client.request("tools/list", json!({})).await.unwrap();
        let names: Vec<_> =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        for name in ["test_simple_text", "test_reconnection", "test_sampling", "json_schema_2020_12_tool"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        let schema = &tools["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == "json_schema_2020_12_tool");
        assert_eq!(schema.unwrap()["inputSchema"]["$defs"]["address"]["$anchor"], "addressDef");
    }
}
