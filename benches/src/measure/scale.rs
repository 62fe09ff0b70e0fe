//! How cost grows with the number of sessions, parked calls and streams.

use super::{Bench, Failed, calls::echo, figure, sample, server::Server, stats};
use bowline_load::{Plan, Session, Template, calls, open_sessions, park, process, streams as open_streams};
use std::time::Duration;

/// How many there are at each point of a curve.
const POINTS: [usize; 4] = [1, 100, 10_000, 100_000];

const CONNECTIONS: usize = 32;

/// The CPU time of a call while `count` of something are there.
async fn point(
    bench: &Bench,
    server: &Server,
    sessions: &[Session],
    name: &str,
    count: usize,
) -> Result<(), Failed> {
    let mut us = Vec::new();
    for _ in 0..bench.rounds().min(3) {
        us.push(
            sample(server, calls(&server.target, bench.plan(CONNECTIONS), sessions, &echo(100)))
                .await?
                .cpu_us,
        );
    }
    figure(&format!("{name}.us"), &count.to_string(), stats::median(us));
    Ok(())
}

pub(super) async fn sessions(bench: &Bench) -> Result<(), Failed> {
    let server = bench.bowline(&[]).await?;
    let callers = open_sessions(&server.target, CONNECTIONS, CONNECTIONS).await?;
    calls(&server.target, bench.plan(CONNECTIONS), &callers, &echo(100)).await;
    let (mut there, base) = (0, server.memory().await?);
    for count in POINTS {
        open_sessions(&server.target, count - there, CONNECTIONS).await?;
        there = count;
        figure("scale-sessions.bytes", &count.to_string(), stats::each(base, server.memory().await?, count));
        point(bench, &server, &callers, "scale-sessions", count).await?;
    }
    Ok(())
}

pub(super) async fn parked(bench: &Bench) -> Result<(), Failed> {
    let server = bench.bowline(&["--park"]).await?;
    let callers = open_sessions(&server.target, CONNECTIONS, CONNECTIONS).await?;
    calls(&server.target, bench.plan(CONNECTIONS), &callers, &echo(100)).await;
    let (mut there, base) = (0, server.memory().await?);
    let template = Template::tool("park", "{}");
    for count in POINTS {
        // New sessions each time: an id is not used twice in one.
        let sessions = open_sessions(&server.target, CONNECTIONS, CONNECTIONS).await?;
        let hold = Duration::from_secs(2);
        park(&server.target, &sessions, &template, count - there, CONNECTIONS, hold).await?;
        there = count;
        figure("scale-parked.bytes", &count.to_string(), stats::each(base, server.memory().await?, count));
        point(bench, &server, &callers, "scale-parked", count).await?;
    }
    Ok(())
}

/// Streams with one event a second each.
pub(super) async fn streams(bench: &Bench) -> Result<(), Failed> {
    let count = if bench.quick { 500 } else { 5_000 };
    let server = bench.bowline(&[]).await?;
    let sessions = open_sessions(&server.target, count, CONNECTIONS).await?;
    let before = server.memory().await?;
    let template = Template::tool_with_progress("tick", r#"{"count":60}"#);
    let opened = open_streams(&server.target, &sessions, Some(&template)).await?;
    // The first seconds are those of the openings.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (cpu, events) = (process::cpu_time(server.pid)?, opened.messages());
    let window = if bench.quick { 2 } else { 8 };
    tokio::time::sleep(Duration::from_secs(window)).await;
    let cpu = process::cpu_time(server.pid)?.saturating_sub(cpu).as_secs_f64();
    let events = (opened.messages() - events) as f64;
    let subject = count.to_string();
    figure("scale-streams.us", &subject, cpu * 1e6 / events.max(1.0));
    figure("scale-streams.cpu", &subject, cpu * 100.0 / window as f64);
    figure("scale-streams.late", &subject, 1.0 - events / (count as f64 * window as f64));
    figure("scale-streams.bytes", &subject, stats::each(before, server.memory().await?, count));
    Ok(())
}

/// What others notice of a reader that takes nothing while its call says more and more.
pub(super) async fn stalled(bench: &Bench) -> Result<(), Failed> {
    let others = if bench.quick { 100 } else { 1_000 };
    let server = bench.bowline(&[]).await?;
    let sessions = open_sessions(&server.target, others + 1, CONNECTIONS).await?;
    let (slow, sessions) = sessions.split_first().ok_or_else(|| Failed("no session".into()))?;
    let plan = Plan::new(others, bench.round() * 2);
    calls(&server.target, plan, sessions, &echo(100)).await;
    let before =
        (sample(&server, calls(&server.target, plan, sessions, &echo(100))).await?, server.memory().await?);
    let mut reader = tokio::net::TcpStream::connect(server.target.address).await?;
    let template = Template::tool("pour", r#"{"count":900,"bytes":65536}"#);
    tokio::io::AsyncWriteExt::write_all(&mut reader, &server.target.post(slow, &template)).await?;
    let during =
        (sample(&server, calls(&server.target, plan, sessions, &echo(100))).await?, server.memory().await?);
    figure("stalled.p99-before", "bowline", before.0.p99_us);
    figure("stalled.p99", "bowline", during.0.p99_us);
    figure("stalled.ratio", "bowline", during.0.p99_us / before.0.p99_us);
    figure("stalled.mb", "bowline", (during.1 as f64 - before.1 as f64) / 1e6);
    Ok(())
}
