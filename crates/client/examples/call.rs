//! Calls a tool again and again: `call URL TOOL [ARGUMENTS] [TIMES]`. Restart the server meanwhile.

#![allow(clippy::print_stdout, reason = "a program that shows something")]

use bowline_client::{Client, ClientOptions, Target};
use std::{env, error::Error, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(url), Some(tool)) = (args.next(), args.next()) else {
        return Err("usage: call URL TOOL [ARGUMENTS] [TIMES]".into());
    };
    let arguments: serde_json::Value = serde_json::from_str(&args.next().unwrap_or_else(|| "{}".into()))?;
    let times: u32 = args.next().unwrap_or_else(|| "1".into()).parse()?;

    let client = Client::connect(Target::http(&url)?, ClientOptions::new("call", "1.0")).await?;
    let peer = client.peer();
    eprintln!("connected: revision {}, {} tools", peer.revision, client.list_tools().await?.len());
    for number in 1..=times {
        match client.call_tool(&tool, &arguments).await {
            Ok(output) => println!("{number}: {}", output.text()),
            Err(error) => println!("{number}: {error}"),
        }
        if number < times {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    client.close().await;
    Ok(())
}
