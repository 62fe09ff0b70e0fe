//! The program `bowline`.

use bowline_cli::demo::{self, DemoOptions};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "bowline", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what happens to a tool call whose connection is closed and cut
    Demo(DemoOptions),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Demo(options) = Arguments::parse().command;
    match demo::run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
