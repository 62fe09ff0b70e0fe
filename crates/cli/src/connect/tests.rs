//! The bridge with pipes in memory: what a host gets for what it says, and how it ends.

use super::{
    bridge::{Bridge, End},
    filter::Filter,
};
use crate::client::Asking;
use bowline_client::{ClientOptions, Connector, Pipe, Relay, Target, TransportError};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// A server that is never there.
struct Away;

impl Connector for Away {
    fn connect(&self) -> Pin<Box<dyn Future<Output = Result<Pipe, TransportError>> + Send + '_>> {
        Box::pin(async { Err(TransportError::before("nobody is there")) })
    }

    fn describe(&self) -> String {
        "nobody".into()
    }
}

struct Host {
    stdin: Option<WriteHalf<DuplexStream>>,
    stdout: Lines<BufReader<ReadHalf<DuplexStream>>>,
    leave: Option<oneshot::Sender<()>>,
    ended: JoinHandle<End>,
}

impl Host {
    /// A bridge to a server that is away.
    fn start(change: impl FnOnce(&mut Bridge)) -> Self {
        let (sender, messages) = mpsc::channel(16);
        let mut options = ClientOptions::new("test", "0");
        options.outage = Duration::from_secs(40);
        options.reconnect.backoff_base = Duration::from_millis(100);
        let relay = Relay::patient(Target::custom(Away), options, sender, Duration::from_secs(10));
        let mut bridge = Bridge {
            relay,
            filter: Arc::new(Filter::new(&["hidden*".into()])),
            asking: Asking::default(),
            max_line: 1000,
            max_waiting: 2,
            drain: Duration::from_secs(30),
        };
        change(&mut bridge);
        let (host_in, stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, host_out) = tokio::io::duplex(64 * 1024);
        let (leave, leaving) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            bridge.carry(stdin, stdout, messages, async { drop(leaving.await) }).await
        });
        let (_, host_in) = tokio::io::split(host_in);
        let (host_out, _) = tokio::io::split(host_out);
        Self { stdin: Some(host_in), stdout: BufReader::new(host_out).lines(), leave: Some(leave), ended }
    }

    async fn says(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    async fn hears(&mut self) -> Value {
        serde_json::from_str(&self.stdout.next_line().await.unwrap().expect("a line")).unwrap()
    }

    async fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "h", "version": "1" } });
        self.says(
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string(),
        )
        .await;
        self.hears().await
    }
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_no_messages_get_their_errors_and_the_pipe_lives_on() {
    let mut host = Host::start(|_| {});
    host.says("no JSON").await;
    let answer = host.hears().await;
    assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32700), None));
    host.says(r#"{"jsonrpc":"2.0","id":7,"method":5}"#).await;
    let answer = host.hears().await;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(7)));
    host.says(&"x".repeat(2000)).await;
    assert!(host.hears().await["error"]["message"].as_str().unwrap().contains("--max-message"));
    host.says(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert_eq!(host.hears().await, json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
    host.says(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},7]"#).await;
    let both = [host.hears().await, host.hears().await];
    assert!(
        both.iter().any(|answer| answer["id"] == 1)
            && both.iter().any(|answer| answer["error"]["code"] == -32600),
        "{both:?}"
    );
    host.stdin = None;
    assert!(matches!(host.ended.await.unwrap(), End::Host));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_stood_in_for_and_requests_end_in_time() {
    let mut host = Host::start(|_| {});
    let began = tokio::time::Instant::now();
    let hello = host.initialize().await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(hello["result"]["capabilities"]["tools"]["listChanged"], true);
    let waited = tokio::time::Instant::now() - began;
    assert!((10..12).contains(&waited.as_secs()), "{waited:?}");
    host.says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#).await;
    let answer = host.hears().await;
    let waited = tokio::time::Instant::now() - began;
    assert!((50..53).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(
        (&answer["id"], &answer["error"]["data"]),
        (&json!(1), &json!({ "reason": "upstream_unreachable" }))
    );
    assert!(answer["error"]["message"].as_str().unwrap().contains("did not run"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn hidden_tools_and_too_many_requests_are_refused_at_once() {
    let mut host = Host::start(|_| {});
    host.initialize().await;
    host.says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hidden_one"}}"#).await;
    assert_eq!(host.hears().await["error"]["code"], -32602);
    for id in 2..=4 {
        host.says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#)).await;
    }
    let answer = host.hears().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(4), &json!("busy")));
    // The host takes one back: it is not answered, and there is room again.
    host.says(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    host.says(r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#).await;
    assert_eq!(host.hears().await["id"], 3);
    assert_eq!(host.hears().await["id"], 5);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_stdin_waits_for_answers_and_a_signal_does_not() {
    for (signal, least) in [(false, 30), (true, 0)] {
        let mut host = Host::start(|_| {});
        host.initialize().await;
        host.says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = tokio::time::Instant::now();
        if signal {
            host.leave.take().unwrap().send(()).unwrap();
        } else {
            host.stdin = None;
        }
        let end = host.ended.await.unwrap();
        assert_eq!(matches!(end, End::Asked), signal);
        let waited = (tokio::time::Instant::now() - began).as_secs();
        assert!((least..least + 3).contains(&waited), "{waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_read_any_more_is_gone() {
    let mut host = Host::start(|_| {});
    host.initialize().await;
    drop(host.stdout);
    let stdin = host.stdin.as_mut().unwrap();
    let ping = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    stdin.write_all(&ping).await.unwrap();
    assert!(matches!(host.ended.await.unwrap(), End::Host));
}
