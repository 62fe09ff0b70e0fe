//! A rolling restart behind a balancer that knows nothing: real clients do not notice.

use super::{Fleet, ledger, long, new_ledger};
use bowline_testkit::{Nginx, NginxOptions, RealClient, Redis};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// How many jobs a client has running.
const PARALLEL: u32 = 2;

/// Three backends on Redis behind nginx, which draws one by lot for each request and learns of a restart when it cannot connect. Every
/// call of every client ends with its own result, once, and every tool ran once.
#[tokio::test]
async fn no_client_sees_a_rolling_restart() {
    let (rounds, options, work) = if long() {
        (3, "--drain-timeout 60s", "--seconds 5 --longest 40")
    } else {
        (
            1,
            "--drain-timeout 12s --json-hold 200ms --max-connection 3s --retry 700ms",
            "--seconds 1 --longest 5",
        )
    };
    let redis = Redis::start("").await;
    let mut fleet = Fleet::on(&redis, 3, options).await;
    let nginx = Nginx::start(&fleet.addresses(), NginxOptions::default()).await;
    let (dir, file) = new_ledger();
    let until = dir.join("enough");
    let clients: Vec<_> = RealClient::ALL
        .into_iter()
        .map(|client| {
            let url = nginx.url();
            let scenario = format!(
                "jobs {work} --parallel {PARALLEL} --name {client:?} --file {} --until {} --deadline 1500",
                file.display(),
                until.display()
            );
            tokio::spawn(async move { client.run(&url, &scenario, Duration::from_secs(1_500)).await })
        })
        .collect();
    // Every client has begun.
    let begun = || {
        let names = ledger(&file).into_keys().filter_map(|key| Some(key.split_once('-')?.0.to_owned()));
        names.collect::<std::collections::BTreeSet<_>>().len()
    };
    bowline_testkit::eventually("every client works", Duration::from_secs(60), || begun() == clients.len())
        .await;
    let began = Instant::now();
    for round in 0..rounds {
        for which in 0..fleet.backends.len() {
            let left = fleet.restart(which).await;
            eprintln!("{:?}: round {round}, backend {which} left in {left:?}", began.elapsed());
            assert!(clients.iter().all(|client| !client.is_finished()), "the clients work all the time");
        }
    }
    std::fs::write(&until, "").unwrap();
    let (mut calls, mut asked, mut progressed) = (0, 0, 0);
    for client in clients {
        let run = client.await.unwrap();
        eprintln!("{}: {}", run.name, run.steps.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
        let run = run.passed();
        let step = run.step("jobs");
        for (sum, name) in [(&mut calls, "calls"), (&mut asked, "asked"), (&mut progressed, "progressed")] {
            *sum += step[name].as_u64().unwrap();
        }
    }
    let jobs = ledger(&file);
    assert_eq!(jobs.len() as u64, calls);
    assert!(jobs.values().all(|job| *job == (1, 1)), "run once each: {jobs:?}");
    assert!(asked > 0 && progressed > calls, "{asked} questions, {progressed} progress");
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for (status, _) in nginx.requests() {
        *statuses.entry(status).or_default() += 1;
    }
    eprintln!(
        "{calls} calls, {asked} questions, {progressed} progress in {:?}; statuses {statuses:?}",
        began.elapsed()
    );
    assert!(statuses.keys().all(|status| [200, 202, 204].contains(status)), "{statuses:?}");
}
