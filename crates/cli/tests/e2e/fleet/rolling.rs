//! A rolling restart behind a balancer: real clients do not notice.

use super::{Fleet, ledger, long, new_ledger};
use bowline_testkit::{Nginx, NginxOptions, ProxyKind, RealClient, Redis};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// How many jobs a client has running.
const PARALLEL: u32 = 2;

/// Three backends, and what keeps their store alive.
async fn three() -> (Fleet, Redis) {
    let options = if long() {
        "--drain-timeout 60s"
    } else {
        "--drain-timeout 12s --json-hold 200ms --max-connection 3s --retry 700ms"
    };
    let redis = Redis::start("").await;
    (Fleet::on(&redis, 3, options).await, redis)
}

/// Restarts every backend in turn while clients work, each at its URL. Every call of every client has to end with its own result, once,
/// and every tool has to run once.
async fn restart_all(fleet: &mut Fleet, clients: Vec<(RealClient, String)>) {
    let (rounds, work) =
        if long() { (3, "--seconds 5 --longest 40") } else { (1, "--seconds 1 --longest 5") };
    let (dir, file) = new_ledger();
    let until = dir.join("enough");
    let clients: Vec<_> = clients
        .into_iter()
        .map(|(client, url)| {
            let scenario = format!(
                "jobs {work} --parallel {PARALLEL} --name {client:?} --file {} --until {} --deadline 1500",
                file.display(),
                until.display()
            );
            tokio::spawn(async move { client.run(&url, &scenario, Duration::from_secs(1_500)).await })
        })
        .collect();
    let begun = || {
        let names = ledger(&file).into_keys().filter_map(|key| Some(key.split_once('-')?.0.to_owned()));
        names.collect::<BTreeSet<_>>().len()
    };
    bowline_testkit::eventually("every client works", Duration::from_secs(60), || begun() == clients.len())
        .await;
    let began = Instant::now();
    for round in 0..rounds {
        for which in 0..fleet.backends.len() {
            let left = fleet.restart(which).await;
            eprintln!("{:?}: round {round}, backend {which} left in {left:?}", Instant::now() - began);
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
    eprintln!("{calls} calls, {asked} questions, {progressed} progress in {:?}", Instant::now() - began);
    let jobs = ledger(&file);
    assert_eq!(jobs.len() as u64, calls);
    assert!(jobs.values().all(|job| *job == (1, 1)), "run once each: {jobs:?}");
    assert!(asked > 0 && progressed > calls, "{asked} questions, {progressed} progress");
}

/// nginx draws a backend by lot for each request, and learns of a restart when it cannot connect.
#[tokio::test]
async fn no_client_sees_a_rolling_restart() {
    let (mut fleet, _redis) = three().await;
    let nginx = Nginx::start(&fleet.addresses(), NginxOptions::default()).await;
    restart_all(&mut fleet, RealClient::ALL.map(|client| (client, nginx.url())).into()).await;
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for (status, _) in nginx.requests() {
        *statuses.entry(status).or_default() += 1;
    }
    eprintln!("{statuses:?}");
    assert!(statuses.keys().all(|status| [200, 202, 204].contains(status)), "{statuses:?}");
}

/// The same with the two configurations of `docs/deploy.md`, as they are written there.
#[tokio::test]
async fn nor_one_behind_a_documented_balancer() {
    let (mut fleet, _redis) = three().await;
    let addresses: [_; 3] = fleet.addresses().try_into().unwrap();
    let (nginx, haproxy) =
        tokio::join!(ProxyKind::Nginx.fleet(addresses), ProxyKind::HaProxy.fleet(addresses));
    let [nginx_url, haproxy_url] = [&nginx, &haproxy].map(|proxy| format!("http://{}/mcp", proxy.address()));
    let clients = vec![
        (RealClient::TypeScript1, haproxy_url.clone()),
        (RealClient::TypeScript2, nginx_url.clone()),
        (RealClient::Python, haproxy_url),
        (RealClient::Rmcp, nginx_url),
    ];
    restart_all(&mut fleet, clients).await;
}
