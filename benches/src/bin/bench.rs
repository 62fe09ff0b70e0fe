//! `bench [NAME...] [--quick] [--peers] [--list] [--bowline FILE] [--python FILE] [--mcp-proxy FILE]`: measures; `cargo xtask bench` runs it.

use bowline_benches::measure::{Bench, Failed};
use std::{path::PathBuf, process::ExitCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failed> {
    let own = std::env::current_exe()?;
    let programs = own.parent().map(PathBuf::from).unwrap_or_default();
    let mut bench = Bench::new(programs, PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    bowline_server::raise_file_limit();
    let mut names = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut file = || args.next().map(PathBuf::from).ok_or_else(|| Failed(format!("{arg} needs a file")));
        match arg.as_str() {
            "--quick" => bench.quick = true,
            "--peers" => bench.peers = true,
            "--bowline" => bench.bowline = Some(file()?),
            "--python" => bench.python = Some(file()?),
            "--mcp-proxy" => bench.mcp_proxy = Some(file()?),
            "--list" => {
                for (name, about) in Bench::names() {
                    println!("{name:16} {about}");
                }
                return Ok(());
            }
            name => names.push(name.to_owned()),
        }
    }
    bench.run(&names).await
}
