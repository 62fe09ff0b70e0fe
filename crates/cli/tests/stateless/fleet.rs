//! Eight backends that share nothing, behind nginx, which draws one by lot for each request; real clients.

use crate::client::serve;
use bowline_testkit::{Nginx, NginxOptions, Program, RealClient};
use std::{collections::BTreeMap, time::Duration};

const BACKENDS: usize = 8;

/// Above what the clients give themselves.
const LIMIT: Duration = Duration::from_secs(110);

async fn backends() -> Vec<Program> {
    let mut programs = Vec::new();
    for _ in 0..BACKENDS {
        programs.push(serve("").await);
    }
    programs
}

/// 1,000 calls of each client, all clients at a time.
async fn no_error(options: NginxOptions) {
    let programs = backends().await;
    let addresses: Vec<_> = programs.iter().map(Program::address).collect();
    let nginx = Nginx::start(&addresses, options).await;
    let url = nginx.url();
    let runs = RealClient::ALL.map(|client| {
        let url = url.clone();
        tokio::spawn(async move {
            let run = client.run(&url, "many --calls 1000 --parallel 16", LIMIT).await;
            (client, run)
        })
    });
    for run in runs {
        let (client, run) = run.await.unwrap();
        eprintln!("{client:?}: {}", run.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        let run = run.passed();
        assert_eq!(run.step("many")["right"], 1_000, "{client:?}");
        assert_eq!(run.step("connect")["session"], false, "{client:?}");
    }
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for (status, backend) in nginx.requests() {
        *statuses.entry(status).or_default() += 1;
        *used.entry(backend).or_default() += 1;
    }
    eprintln!("{statuses:?} {used:?}");
    // 405 is what clients are told that ask for a standalone stream.
    assert!(statuses.keys().all(|status| [200, 202, 405].contains(status)), "{statuses:?}");
    assert!(statuses[&200] >= 4_000, "{statuses:?}");
    assert_eq!(used.len(), BACKENDS, "{used:?}");
    assert!(used.values().all(|requests| *requests > 200), "{used:?}");
    for program in &programs {
        assert_eq!(program.servers().len(), 2, "a pool of two for each backend");
    }
}

#[tokio::test]
async fn a_connection_to_a_backend_for_each_request() {
    no_error(NginxOptions::default()).await;
}

#[tokio::test]
async fn connections_to_backends_that_are_kept() {
    no_error(NginxOptions { keep_alive: 32, ..NginxOptions::default() }).await;
}

/// nginx holds back what it can; a stream has to come through as it is sent.
#[tokio::test]
async fn progress_is_not_held_back() {
    let program = serve("").await;
    let nginx = Nginx::start(&[program.address()], NginxOptions::default()).await;
    let client = crate::client::Client::new(nginx.address(), "2025-11-25");
    let mut answer =
        client.call_with_progress("slow", serde_json::json!({ "ms": 3_000, "progress": 6 })).await;
    let mut times = Vec::new();
    while let Some(block) = answer.block().await {
        times.push(block.at);
    }
    assert_eq!(times.len(), 7);
    let spread = *times.last().unwrap() - times[0];
    assert!(spread > Duration::from_secs(2), "{spread:?}: it all came at the end");
}
