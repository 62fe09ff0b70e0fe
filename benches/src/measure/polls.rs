//! Polls that find nothing new.

use super::{Bench, Failed, compare, sample};
use bowline_load::{Session, Template, calls, open_sessions, park, polls as poll};
use std::time::Duration;

/// How long the end of a poll's answer is waited for. The server ends it at once.
const HOLD: Duration = Duration::from_secs(2);

/// The floor of a poll is a call on the bare server: both find something by an id and say one thing.
pub(super) async fn polls(bench: &Bench) -> Result<(), Failed> {
    let floor = bench.floor(&[]).await?;
    let bowline = bench.bowline(&["--park"]).await?;
    let sessions = open_sessions(&bowline.target, 32, 32).await?;
    let parked = park(&bowline.target, &sessions, &Template::tool("park", "{}"), 1_000, 32, HOLD).await?;
    let echo = super::calls::echo(100);
    let mut rounds = Vec::new();
    for round in 0..=bench.rounds().min(3) {
        let plan = bench.plan(32);
        let samples = vec![
            sample(&floor, calls(&floor.target, plan, &[Session::none()], &echo)).await?,
            sample(&bowline, poll(&bowline.target, plan, &sessions, &parked, HOLD)).await?,
        ];
        if round > 0 {
            rounds.push(samples);
        }
    }
    compare("poll", &["floor", "bowline"], &rounds);
    Ok(())
}
