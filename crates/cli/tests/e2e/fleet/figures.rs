//! What a parked call and a poll cost: the constants of `docs/capacity.md`. `BOWLINE_BIN` should be a release build for those; here it is
//! made sure that none of them is out of all proportion.

use super::{long, percentile};
use crate::{
    common::{PRIMED, fixture},
    production::resident,
};
use bowline_testkit::{Answer, Dir, Program, Raw, Redis, Session};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// A parked call may take so much in Redis: what the store promises.
const MOST_IN_REDIS: f64 = 1_536.0;

/// What memory is given in.
const MIB: f64 = 1_048_576.0;

/// How many calls a session has: below `--max-calls-per-session`.
const EACH: usize = 50;

/// A connection is closed nearly as soon as it has shown what is new: so a poll is nothing but a poll.
const OPTIONS: &str = "--child shared --json-hold 1ms --max-connection 1ms --abandon-after 1h";

/// The seconds of a processor that a process has used.
fn cpu(program: &Program) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.pid())).unwrap();
    let fields: Vec<_> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// Begins calls that nobody stays connected to. Returns a session and a cursor of it for each.
async fn park(program: &Program, calls: usize) -> Vec<(Session, String)> {
    let mut parked = Vec::new();
    while parked.len() < calls {
        let session = program.session(PRIMED).await;
        for _ in 0..EACH.min(calls - parked.len()) {
            let mut answer = session.call("slow", json!({ "ms": 600_000 })).await;
            answer.blocks().await;
            parked.push((session.clone(), answer.last_id.take().expect("a primed stream has ids")));
        }
    }
    parked
}

/// Polls on connections that are kept, for a while. Returns how often, the time of a processor, and how long a poll took.
async fn poll(
    program: &Program,
    parked: &[(Session, String)],
    span: Duration,
) -> (usize, f64, Vec<Duration>) {
    let (before, until) = (cpu(program), Instant::now() + span);
    let pollers: Vec<_> = (0..8)
        .map(|poller| {
            let parked: Vec<_> = parked.iter().skip(poller).step_by(8).cloned().collect();
            let address = program.address();
            tokio::spawn(async move {
                let (mut raw, mut times) = (Raw::connect(address).await, Vec::new());
                for (session, cursor) in parked.iter().cycle() {
                    let began = Instant::now();
                    if began > until {
                        break;
                    }
                    let request = session.request("GET", &[("Last-Event-ID", cursor)], "");
                    let mut answer = Answer::to(raw, request).await;
                    assert_eq!(answer.status(), 200, "{}", answer.head.text);
                    let blocks = answer.blocks().await;
                    assert!(blocks.iter().any(|block| block.id.is_some()), "{blocks:?}");
                    times.push(Instant::now() - began);
                    raw = answer.into_raw();
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for poller in pollers {
        times.extend(poller.await.unwrap());
    }
    times.sort();
    (times.len(), cpu(program) - before, times)
}

async fn measure(name: &str, store: &str, redis: Option<&Redis>) {
    let (calls, span) = if long() { (2_000, 8) } else { (200, 1) };
    let program = fixture().with(OPTIONS).with(store).start().await;
    // What is there once and for all.
    let mut parked = park(&program, EACH).await;
    let used = async || match redis {
        Some(redis) => redis.info("used_memory").await.parse::<f64>().unwrap(),
        None => 0.0,
    };
    let (before, redis_before) = (resident(&program) * MIB, used().await);
    let began = Instant::now();
    parked.extend(park(&program, calls).await);
    let took = Instant::now() - began;
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let each = |bytes: f64| bytes / calls as f64;
    let in_redis = each(used().await - redis_before);
    let resident = each(resident(&program) * MIB - before);
    let (polls, cpu, times) = poll(&program, &parked, Duration::from_secs(span)).await;
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let rate = polls as f64 / cpu.max(0.01);
    eprintln!(
        "{name}: {calls} calls parked in {took:?}; {resident:.0} bytes each in the process, {in_redis:.0} in Redis, sessions \
         included; {polls} polls in {span} s, {rate:.0} for a second of a processor, p50 {:?}, p99 {:?}",
        percentile(&times, 0.5),
        percentile(&times, 0.99)
    );
    assert!(in_redis <= MOST_IN_REDIS, "{in_redis} bytes in Redis for a parked call");
    assert!(resident < 100_000.0, "{resident} bytes for a parked call");
    assert!(polls > 50, "{polls} polls");
}

#[tokio::test]
async fn what_parked_calls_and_polls_cost() {
    let (redis, dir) = (Redis::start("stream-node-max-bytes 512").await, Dir::new());
    measure("memory", "", None).await;
    measure("redis", &format!("--store {}", redis.url()), Some(&redis)).await;
    measure("sqlite", &format!("--store sqlite:{}", dir.join("store.db").display()), None).await;
}
