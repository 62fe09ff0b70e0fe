//! Processes and connections that are killed at moments of chance: nobody else notices, and nothing is left.
//!
//! The moments come from a seed, which is printed when a test fails and can be given as `BOWLINE_E2E_SEED`.

use crate::common::{PRIMED, fixture};
use bowline_testkit::{Program, Raw, Serve, Session, processes, text_of};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// A source of moments (splitmix64): the same seed, the same moments.
#[derive(Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(test: u64) -> Self {
        let seed = std::env::var("BOWLINE_E2E_SEED").ok().map(|seed| seed.parse().expect("a number"));
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        });
        eprintln!("BOWLINE_E2E_SEED={seed}");
        Self(seed ^ test.rotate_left(32))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    pub(crate) fn moment(&mut self, most_ms: u64) -> Duration {
        Duration::from_millis(self.below(most_ms))
    }

    pub(crate) fn fork(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }
}

/// A client that nothing happens to: every call of it has to succeed until it is told to stop.
struct Bystander {
    stop: Arc<AtomicBool>,
    task: JoinHandle<u64>,
}

impl Bystander {
    async fn start(program: &Program, name: &str) -> Self {
        let session = program.client().await;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, name) = (stop.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            let mut calls = 0;
            while !stopped.load(Ordering::Relaxed) {
                let text = format!("{name}-{calls}");
                assert_eq!(session.call_for_text("echo", json!({ "text": text })).await, text);
                let message = session.tool_with_progress("slow", &json!({ "ms": 60, "progress": 2 }));
                let (messages, _) = session.poll(session.post(&message).await).await;
                assert_eq!(text_of(messages.last().unwrap()), "slow: 60 ms, 2 progress");
                calls += 2;
            }
            calls
        });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.task.await.expect("no call of a bystander fails") > 0);
    }
}

/// Servers that are hard to end: they ignore SIGTERM and the end of their input.
fn stubborn() -> Serve {
    fixture()
        .with("--json-hold 20ms --max-connection 300ms --retry 20ms")
        .server_args("--ignore-term --no-exit-on-eof")
}

/// Waits until a session's server is back, and says how often it asked.
async fn recovered(session: &Session) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let response = session.finish(session.call("echo", json!({ "text": "back" })).await).await;
        if response["result"].is_object() {
            return;
        }
        assert!(tokio::time::Instant::now() < limit, "not back: {response}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// SIGKILL to the process of one session, 60 times over 20 sessions. Its running call ends with an error at once, what it had
/// started is ended too, and the session goes on with a new one.
#[tokio::test]
async fn kill_the_server_of_a_session() {
    let program = stubborn().start().await;
    let mut chance = Chance::new(1);
    let bystanders = [Bystander::start(&program, "a").await, Bystander::start(&program, "b").await];
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let (session, mut chance) = (program.client().await, chance.fork());
        sessions.push(tokio::spawn(async move {
            for round in 0..3 {
                let info = session.call_for_text("info", json!({})).await;
                let pid = serde_json::from_str::<serde_json::Value>(&info).unwrap()["pid"].as_u64().unwrap();
                let grandchild: u32 = session
                    .call_for_text(
                        "spawn_grandchild",
                        json!({ "ignore_term": true, "hold_stdout": round % 2 == 0 }),
                    )
                    .await
                    .parse()
                    .unwrap();
                let mut answer = session.call("slow", json!({ "ms": 60_000 })).await;
                assert!(answer.block().await.unwrap().is_priming());
                tokio::time::sleep(chance.moment(250)).await;
                processes::kill(u32::try_from(pid).unwrap());
                let response = session.finish(answer).await;
                assert_eq!(response["error"]["data"]["reason"], "upstream_lost", "{response}");
                assert_eq!(response["error"]["data"]["outcome"], "unknown", "{response}");
                processes::gone(grandchild, Duration::from_secs(5)).await;
                recovered(&session).await;
            }
        }));
    }
    for session in sessions {
        session.await.unwrap();
    }
    for bystander in bystanders {
        bystander.stop().await;
    }
    assert_eq!(program.servers().len(), 22, "{:?}", program.servers());
}

/// A client is gone with a reset, 100 times: before its request is whole, in the hold, on a stream, while parked. Its session
/// ends when it is not used any more, and its server with it.
#[tokio::test]
async fn reset_the_client() {
    let program = stubborn().with("--session-ttl 2s --abandon-after 1s").start().await;
    let mut chance = Chance::new(2);
    let bystanders = [Bystander::start(&program, "a").await, Bystander::start(&program, "b").await];
    let mut clients = Vec::new();
    for _ in 0..10 {
        let (address, mut chance) = (program.address(), chance.fork());
        clients.push(tokio::spawn(async move {
            let session = Session::start(address, PRIMED).await;
            session.call_for_text("spawn_grandchild", json!({ "ignore_term": true })).await;
            for _ in 0..10 {
                let call = session.tool_with_progress("slow", &json!({ "ms": 400, "progress": 10 }));
                let request = session.request("POST", &[], &call.to_string());
                let mut raw = Raw::connect(address).await;
                let part = 1 + usize::try_from(chance.below(request.len() as u64 * 2)).unwrap();
                raw.send(&request[..part.min(request.len())]).await;
                let get = if chance.below(2) == 0 { Some(session.get(None).await) } else { None };
                tokio::time::sleep(chance.moment(500)).await;
                raw.abort();
                if let Some(get) = get {
                    get.abort();
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    bowline_testkit::eventually("the servers of those who left end", Duration::from_secs(20), || {
        program.servers().len() == 2
    })
    .await;
    for bystander in bystanders {
        bystander.stop().await;
    }
}

/// SIGKILL to the program with calls in every phase, 40 times, four programs at a time: nothing of it is left after 5 s.
#[tokio::test]
async fn kill_the_program() {
    let mut chance = Chance::new(3);
    let mut lanes = Vec::new();
    for _ in 0..4 {
        let mut chance = chance.fork();
        lanes.push(tokio::spawn(async move {
            for _ in 0..10 {
                let mut program = stubborn().start().await;
                let address = program.address();
                let mut clients = Vec::new();
                for _ in 0..2 {
                    clients.push(tokio::spawn(async move {
                        // Whatever it gets is right as long as it is no hang: the program dies under it.
                        let session = Session::start(address, PRIMED).await;
                        session
                            .call("spawn_grandchild", json!({ "ignore_term": true, "hold_stdout": true }))
                            .await;
                        loop {
                            let call = session.tool("slow", &json!({ "ms": 30 }));
                            if session.try_post(&call).await.is_err() {
                                return;
                            }
                        }
                    }));
                }
                tokio::time::sleep(chance.moment(700)).await;
                program.kill();
                program.wait().await;
                program.assert_none_left(Duration::from_secs(5)).await;
                for client in clients {
                    // A panic there says only that its connection broke, which was the point.
                    client.abort();
                    let _ = client.await;
                }
            }
        }));
    }
    for lane in lanes {
        lane.await.unwrap();
    }
}
