//! A stdio server behind something that speaks HTTP, and the servers of other languages.

use super::{
    Bench, Failed,
    calls::echo,
    figure, sample,
    server::{Server, free_port},
    stats,
};
use bowline_load::{calls, open_sessions};
use tokio::process::Command;

/// Sessions, each with a child process of its own.
const SESSIONS: usize = 4;

pub(super) async fn gateway(bench: &Bench) -> Result<(), Failed> {
    let child = bench.programs.join("stdio-echo");
    let mut gateways = Vec::new();
    match &bench.bowline {
        Some(program) => {
            let port = free_port()?;
            let mut command = Command::new(program);
            command.args(["serve", "--port", &port.to_string(), "--"]).arg(&child);
            gateways.push(bench.start_on("bowline", command, port).await?);
        }
        None => eprintln!("    the program bowline is not built: it is left out"),
    }
    if bench.peers {
        let port = free_port()?;
        let mut command = bench.node_peer("supergateway");
        command.arg("--stdio").arg(&child).args(["--outputTransport", "streamableHttp", "--stateful"]);
        command.args(["--logLevel", "none", "--port", &port.to_string()]);
        gateways.extend(bench.optional(bench.start_on("supergateway", command, port).await));
        if let Some(program) = &bench.mcp_proxy {
            let port = free_port()?;
            let mut command = Command::new(program);
            command.args(["--port", &port.to_string(), "--"]).arg(&child);
            gateways.extend(bench.optional(bench.start_on("mcp-proxy", command, port).await));
        }
    }
    let mut subjects = Vec::new();
    for gateway in &gateways {
        subjects.push((gateway, open_sessions(&gateway.target, SESSIONS, SESSIONS).await?));
    }
    let (echo, mut rounds) = (echo(100), Vec::new());
    for round in 0..=bench.rounds().min(3) {
        let mut samples = Vec::new();
        for (gateway, sessions) in &subjects {
            let load = calls(&gateway.target, bench.plan(SESSIONS), sessions, &echo);
            samples.push(sample(gateway, load).await?);
        }
        if round > 0 {
            rounds.push(samples);
        }
    }
    for (at, gateway) in gateways.iter().enumerate() {
        figure("gateway.us", gateway.name, stats::median(rounds.iter().map(|round| round[at].cpu_us)));
    }
    Ok(())
}

impl Bench {
    /// The servers of other languages, where they are installed and wanted.
    pub(super) async fn peer_servers(&self, wanted: bool) -> Result<Vec<Server>, Failed> {
        let mut servers = Vec::new();
        if !wanted || !self.peers {
            return Ok(servers);
        }
        let mut command = Command::new("node");
        command.arg(self.benches.join("peers/echo.mjs"));
        servers.extend(self.optional(self.start_command("typescript", command).await));
        if let Some(python) = &self.python {
            let port = free_port()?;
            let mut command = Command::new(python);
            command.arg(self.benches.join("peers/echo.py")).arg(port.to_string());
            servers.extend(self.optional(self.start_on("python", command, port).await));
        }
        Ok(servers)
    }

    fn node_peer(&self, program: &str) -> Command {
        Command::new(self.benches.join("peers/node_modules/.bin").join(program))
    }

    /// A peer that does not run is left out.
    fn optional(&self, started: Result<Server, Failed>) -> Option<Server> {
        started.inspect_err(|error| eprintln!("    left out: {error}")).ok()
    }
}
