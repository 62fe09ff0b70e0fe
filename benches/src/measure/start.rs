//! What a server costs before anybody calls it.

use super::{Bench, Failed, calls::echo, figure, stats};
use bowline_load::{Session, call_once, process};
use std::{fs, path::Path};
use tokio::{process::Command, time::Instant};

/// How often a server is started.
const STARTS: usize = 11;

/// What the lock file of a server is made from: the dependencies that its author writes.
const SERVERS: [(&str, &str); 3] = [
    (
        "floor",
        "bytes = \"1\"\nhttp-body-util = \"0.1\"\nhyper = { version = \"1\", features = [\"http1\", \"server\"] }\nhyper-util = { version = \"0.1\", features = [\"tokio\"] }\nserde = { version = \"1\", features = [\"derive\"] }\nserde_json = { version = \"1\", features = [\"raw_value\"] }\ntokio = { version = \"1\", features = [\"macros\", \"net\", \"rt\"] }\n",
    ),
    (
        "bowline",
        "bowline = { path = \"BOWLINE\" }\nschemars = \"1\"\nserde = { version = \"1\", features = [\"derive\"] }\ntokio = { version = \"1\", features = [\"macros\", \"rt\"] }\n",
    ),
    (
        "rmcp",
        "hyper = { version = \"1\", features = [\"http1\", \"server\"] }\nhyper-util = { version = \"0.1\", features = [\"tokio\", \"service\"] }\nrmcp = { version = \"3.11\", default-features = false, features = [\"macros\", \"server\", \"transport-streamable-http-server\"] }\nschemars = \"1\"\nserde = { version = \"1\", features = [\"derive\"] }\ntokio = { version = \"1\", features = [\"macros\", \"net\", \"rt\"] }\n",
    ),
];

pub(super) async fn start(bench: &Bench) -> Result<(), Failed> {
    for (name, program) in [("floor", "floor"), ("bowline", "echo"), ("rmcp", "rmcp-echo")] {
        let (mut times, mut memory) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let began = Instant::now();
            let args: &[&str] = if program == "floor" { &[] } else { &["--stateless"] };
            let server = bench.start(name, program, args).await?;
            call_once(&server.target, &Session::none(), &echo(1)).await?;
            times.push((Instant::now() - began).as_secs_f64() * 1e3);
            memory.push(process::resident(server.pid)? as f64 / 1e6);
            server.stop().await;
        }
        figure("start.ms", name, stats::median(times));
        figure("start.rss", name, stats::median(memory));
        match stripped(&bench.programs.join(program)).await {
            Ok(size) => figure("start.size", name, size as f64 / 1e6),
            Err(error) => eprintln!("    the size of {name} stripped is not known: {error}"),
        }
    }
    for (name, dependencies) in SERVERS {
        match crates(bench, name, dependencies).await {
            Ok(crates) => figure("start.crates", name, crates as f64),
            Err(error) => eprintln!("    the crates of {name} are not known: {error}"),
        }
    }
    Ok(())
}

/// The size of a program without symbols, in bytes.
async fn stripped(program: &Path) -> Result<u64, Failed> {
    let copy = program.with_extension("stripped");
    let status = Command::new("strip").arg("-o").arg(&copy).arg(program).status().await?;
    if !status.success() {
        return Err(Failed(format!("strip: {status}")));
    }
    let size = fs::metadata(&copy)?.len();
    fs::remove_file(&copy)?;
    Ok(size)
}

/// How many crates the lock file of a server has, with the versions that this workspace has locked.
async fn crates(bench: &Bench, name: &str, dependencies: &str) -> Result<usize, Failed> {
    let folder = bench.programs.join("locks").join(name);
    fs::create_dir_all(folder.join("src"))?;
    let bowline = bench.benches.join("../crates/bowline");
    let dependencies = dependencies.replace("BOWLINE", &bowline.to_string_lossy());
    fs::write(
        folder.join("Cargo.toml"),
        format!(
            "[workspace]\n[package]\nname = \"a-server\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}"
        ),
    )?;
    fs::write(folder.join("src/main.rs"), "fn main() {}\n")?;
    fs::copy(bench.benches.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline"])
        .current_dir(&folder)
        .output()
        .await?;
    if !out.status.success() {
        return Err(Failed(String::from_utf8_lossy(&out.stderr).into_owned()));
    }
    // The server itself is one of them.
    Ok(fs::read_to_string(folder.join("Cargo.lock"))?.matches("[[package]]").count() - 1)
}
