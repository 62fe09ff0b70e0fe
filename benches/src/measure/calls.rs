//! Requests that are answered at once.

use super::{Bench, Failed, Sample, compare, figure, sample, server::Server, stats};
use bowline_load::{Plan, Session, Template, call_once, calls, handshake, open_sessions, sessions};
use std::time::Duration;

/// The connections of the usual load.
const CONNECTIONS: usize = 32;

/// The progress notifications of one call; below the bound on the events of one stream.
const NOTES: usize = 900;

pub(super) fn echo(size: usize) -> Template {
    Template::tool("echo", &format!(r#"{{"text":"{}"}}"#, "x".repeat(size)))
}

/// Rounds of calls on some servers in turn, after one that only warms up.
async fn rounds(
    subjects: &[(&Server, Vec<Session>)],
    plan: Plan,
    count: usize,
    template: &Template,
) -> Result<Vec<Vec<Sample>>, Failed> {
    let mut rounds = Vec::new();
    for round in 0..=count {
        let mut samples = Vec::new();
        for (server, sessions) in subjects {
            let plan = if round == 0 { Plan { time: Duration::from_millis(300), ..plan } } else { plan };
            samples.push(sample(server, calls(&server.target, plan, sessions, template)).await?);
        }
        if round > 0 {
            rounds.push(samples);
        }
    }
    Ok(rounds)
}

async fn sessionless(bench: &Bench, name: &str, plan: Plan, count: usize, size: usize) -> Result<(), Failed> {
    let floor = bench.floor(&[]).await?;
    let bowline = bench.bowline(&["--stateless"]).await?;
    let raw = bench.start("bowline-raw", "echo", &["--stateless", "--raw"]).await?;
    let rmcp = bench.rmcp(&["--stateless"]).await?;
    let mut servers = vec![&floor, &bowline, &raw, &rmcp];
    let peers = bench.peer_servers(name == "call").await?;
    servers.extend(&peers);
    let mut subjects = Vec::new();
    for server in &servers {
        let answer = call_once(&server.target, &Session::none(), &echo(size)).await?;
        let text = answer.response().map(|response| response["result"].to_string()).unwrap_or_default();
        if !text.contains(&"x".repeat(size)) {
            return Err(Failed(format!("{} does not echo: {text:.200}", server.name)));
        }
        subjects.push((*server, Vec::new()));
    }
    let samples = rounds(&subjects, plan, count, &echo(size)).await?;
    let names: Vec<&str> = servers.iter().map(|server| server.name).collect();
    compare(name, &names, &samples);
    Ok(())
}

pub(super) async fn plain(bench: &Bench) -> Result<(), Failed> {
    sessionless(bench, "call", bench.plan(CONNECTIONS), bench.rounds(), 100).await
}

pub(super) async fn large(bench: &Bench) -> Result<(), Failed> {
    sessionless(bench, "large", bench.plan(CONNECTIONS), bench.rounds().min(3), 100_000).await
}

pub(super) async fn many(bench: &Bench) -> Result<(), Failed> {
    sessionless(bench, "many", bench.plan(256), bench.rounds().min(3), 100).await
}

pub(super) async fn session(bench: &Bench) -> Result<(), Failed> {
    let floor = bench.floor(&["--sessions"]).await?;
    let bowline = bench.bowline(&[]).await?;
    let streams = bench.start("bowline-stream", "echo", &["--sse"]).await?;
    let rmcp = bench.rmcp(&[]).await?;
    let mut subjects = Vec::new();
    for server in [&floor, &bowline, &streams, &rmcp] {
        subjects.push((server, open_sessions(&server.target, CONNECTIONS, CONNECTIONS).await?));
    }
    let answer = call_once(&streams.target, &handshake(&streams.target).await?, &echo(1)).await?;
    if !answer.events || !answer.body.starts_with(b"id: ") {
        return Err(Failed("the stream is not primed".into()));
    }
    let samples = rounds(&subjects, bench.plan(CONNECTIONS), bench.rounds(), &echo(100)).await?;
    compare("session", &["floor", "bowline", "bowline-stream", "rmcp"], &samples);
    Ok(())
}

pub(super) async fn initialize(bench: &Bench) -> Result<(), Failed> {
    let floor = bench.floor(&["--sessions"]).await?;
    let bowline = bench.bowline(&[]).await?;
    let rmcp = bench.rmcp(&[]).await?;
    let mut rounds = Vec::new();
    for round in 0..=bench.rounds().min(3) {
        let mut samples = Vec::new();
        for server in [&floor, &bowline, &rmcp] {
            samples.push(sample(server, sessions(&server.target, bench.plan(CONNECTIONS))).await?);
        }
        if round > 0 {
            rounds.push(samples);
        }
    }
    compare("initialize", &["floor", "bowline", "rmcp"], &rounds);
    Ok(())
}

/// CPU time of one progress notification: that of a call that says many, divided.
pub(super) async fn notify(bench: &Bench) -> Result<(), Failed> {
    let template = Template::tool_with_progress("notify", &format!(r#"{{"count":{NOTES}}}"#));
    let floor = bench.floor(&["--sessions"]).await?;
    let bowline = bench.bowline(&[]).await?;
    let rmcp = bench.rmcp(&[]).await?;
    let mut subjects = Vec::new();
    for server in [&floor, &bowline, &rmcp] {
        let sessions = open_sessions(&server.target, 4, 4).await?;
        let answer = call_once(&server.target, &sessions[0], &template).await?;
        let came = String::from_utf8_lossy(&answer.body).matches("notifications/progress").count();
        figure("notify.lost", server.name, NOTES as f64 - came as f64);
        subjects.push((server, sessions));
    }
    let rounds = rounds(&subjects, bench.plan(4), bench.rounds().min(3), &template).await?;
    for (at, (server, _)) in subjects.iter().enumerate() {
        let us = stats::median(rounds.iter().map(|round| round[at].cpu_us / NOTES as f64));
        figure("notify.us", server.name, us);
    }
    Ok(())
}
