//! What is held for somebody who is not there, or says nothing.

use super::{Bench, Failed, figure, server::Server, stats};
use bowline_load::{Template, open_sessions, park, streams};
use std::time::Duration;

pub(super) async fn memory(bench: &Bench) -> Result<(), Failed> {
    let many = if bench.quick { 5_000 } else { 20_000 };
    let few = many / 10;
    idle_sessions(&bench.floor(&["--sessions"]).await?, many).await?;
    idle_sessions(&bench.bowline(&[]).await?, many).await?;
    idle_sessions(&bench.rmcp(&[]).await?, few).await?;
    get_streams(&bench.floor(&["--sessions"]).await?, few).await?;
    get_streams(&bench.bowline(&[]).await?, few).await?;
    get_streams(&bench.rmcp(&[]).await?, few).await?;
    parked_calls(&bench.bowline(&["--park"]).await?, many).await
}

async fn idle_sessions(server: &Server, count: usize) -> Result<(), Failed> {
    // Whatever is made once is there before it is measured.
    open_sessions(&server.target, 100, 32).await?;
    let before = server.memory().await?;
    open_sessions(&server.target, count, 32).await?;
    figure("idle.bytes", server.name, stats::each(before, server.memory().await?, count));
    Ok(())
}

async fn get_streams(server: &Server, count: usize) -> Result<(), Failed> {
    let sessions = open_sessions(&server.target, count + 20, 32).await?;
    let first = streams(&server.target, &sessions[count..], None).await?;
    let before = server.memory().await?;
    let opened = streams(&server.target, &sessions[..count], None).await?;
    figure("get.bytes", server.name, stats::each(before, server.memory().await?, count));
    if opened.ended() > 0 || first.ended() > 0 {
        return Err(Failed(format!("{}: streams ended while they were measured", server.name)));
    }
    Ok(())
}

async fn parked_calls(server: &Server, count: usize) -> Result<(), Failed> {
    let sessions = open_sessions(&server.target, 32, 32).await?;
    let template = Template::tool("park", "{}");
    let hold = Duration::from_secs(2);
    park(&server.target, &sessions, &template, 100, 32, hold).await?;
    let before = server.memory().await?;
    // Other sessions: an id is not used twice in one.
    let sessions = open_sessions(&server.target, 32, 32).await?;
    park(&server.target, &sessions, &template, count, 32, hold).await?;
    figure("parked.bytes", server.name, stats::each(before, server.memory().await?, count));
    Ok(())
}
