//! A program's stdio, and custom pipes.

use crate::kit::*;
use bowline_client::{
    CallError, CallOptions, Change, Client, Connector, Era, Handlers, List, ListenFilter, Pipe, PipeReceiver,
    PipeSender, Target, TransportError,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// A server in shell: legacy, with a tool that dies, one that is slow, and noise on its output.
const SERVER: &str = r#"
echo 'not a message'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"server/discover"'*) [ -n "$SILENT" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) echo "started $$" >&2; answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"die"'*) echo "run" >> "$COUNT"; exit 3 ;;
    *'"say"'*) printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}\n'; answer '{"content":[]}' ;;
    *'"tools/call"'*) answer '{"content":[{"type":"text","text":"done"}]}' ;;
    *'"tools/list"'*) answer '{"tools":[]}' ;;
  esac
done
echo ended >> "$COUNT"
"#;

struct Counted {
    path: std::path::PathBuf,
}

impl Counted {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bowline-client-{name}-{}", std::process::id()));
        drop(std::fs::remove_file(&path));
        Self { path }
    }

    fn lines(&self, what: &str) -> usize {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().filter(|line| *line == what).count()
    }

    fn target(&self, silent: bool) -> Target {
        let Target::Stdio(mut command) = Target::stdio("sh", ["-c", SERVER]) else { unreachable!() };
        command.env.push(("COUNT".into(), self.path.clone().into()));
        if silent {
            command.env.push(("SILENT".into(), "1".into()));
        }
        Target::Stdio(command)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

#[tokio::test]
async fn a_program_is_called_and_ends_with_its_input() {
    let counted = Counted::new("ends");
    let mut detecting = options();
    detecting.era = Era::Detect;
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let detecting = detecting.handler(Handlers::new().on_log(move |line| hears.lock().push(line.data)));
    let client = Client::connect(counted.target(false), detecting).await.unwrap();
    assert_eq!(&*client.peer().revision, "2025-06-18");
    assert_eq!(text(call(&client).await), "done");
    client.call_tool("say", &serde_json::json!({})).await.unwrap();
    assert_eq!(*heard.lock(), ["hello"]);
    client.close().await;
    assert_eq!(counted.lines("ended"), 1, "its input ended, and it had the time to notice");
    assert!(matches!(call(&client).await, Err(CallError::Closed)));
}

/// A program that says nothing to what it does not know is a legacy one too.
#[tokio::test]
async fn silence_means_initialize() {
    let counted = Counted::new("silent");
    let mut detecting = options();
    detecting.era = Era::Detect;
    detecting.probe_timeout = Duration::from_millis(200);
    let client = Client::connect(counted.target(true), detecting).await.unwrap();
    assert!(!client.peer().modern);
}

/// C1 over a pipe: the program dies in a call. The call ran once, its caller knows that nobody knows, the next one works.
#[tokio::test]
async fn a_program_that_dies_is_started_again_and_its_call_is_not() {
    let counted = Counted::new("dies");
    let client = Client::connect(counted.target(false), options()).await.unwrap();
    let (result, time) = timed(client.call_tool("die", &serde_json::json!({}))).await;
    assert!(is_unknown(&result), "{result:?}");
    assert!(time < AT_ONCE);
    assert_eq!(text(call(&client).await), "done");
    assert!(client.list_tools().await.unwrap().is_empty());
    assert_eq!(counted.lines("run"), 1);
    assert_eq!(client.peer().generation, 2);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = Client::connect(Target::stdio("/no/such/program", [""; 0]), options()).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

/// A modern server in memory, as another transport would reach it.
struct InMemory {
    heard: Arc<parking_lot::Mutex<Vec<Value>>>,
}

struct ToServer(mpsc::Sender<Bytes>, Arc<parking_lot::Mutex<Vec<Value>>>);
struct FromServer(mpsc::Receiver<Bytes>);

impl Connector for InMemory {
    fn connect(&self) -> BoxFuture<'_, Result<Pipe, TransportError>> {
        let (sender, receiver) = mpsc::channel(16);
        let to = ToServer(sender, Arc::clone(&self.heard));
        Box::pin(async { Ok(Pipe { sender: Box::new(to), receiver: Box::new(FromServer(receiver)) }) })
    }

    fn describe(&self) -> String {
        "a server in memory".into()
    }
}

impl PipeSender for ToServer {
    fn send(&mut self, message: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        let message: Value = serde_json::from_slice(&message).unwrap();
        self.1.lock().push(message.clone());
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {}, "resources": { "subscribe": true } },
            }),
            Some("tools/call") => json!({ "content": [{ "type": "text", "text": "done" }] }),
            _ => Value::Null,
        };
        let typed = message["params"]["notifications"]["toolsListChanged"] == json!(true);
        let answer = if typed {
            // What it agrees to, and one change; both named after the request.
            let tag = json!({ "io.modelcontextprotocol/subscriptionId": message["id"] });
            let says = |method: &str, mut params: Value| {
                params["_meta"] = tag.clone();
                json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
            };
            let agreed = says(
                "notifications/subscriptions/acknowledged",
                json!({ "notifications": { "toolsListChanged": true } }),
            );
            let changed = says("notifications/tools/list_changed", json!({}));
            let sender = self.0.clone();
            return Box::pin(async move {
                for message in [agreed, changed] {
                    sender.send(message.into()).await.map_err(|_| TransportError::before("gone"))?;
                }
                Ok(())
            });
        } else if message["method"] == "subscriptions/listen" {
            json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "file:///a" } })
        } else {
            json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
        };
        Box::pin(async move {
            if !answer["id"].is_null() || answer["method"].is_string() {
                self.0.send(answer.to_string().into()).await.map_err(|_| TransportError::before("gone"))?;
            }
            Ok(())
        })
    }

    fn close(&mut self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl PipeReceiver for FromServer {
    fn receive(&mut self) -> BoxFuture<'_, Option<Result<Bytes, TransportError>>> {
        Box::pin(async { self.0.recv().await.map(Ok) })
    }
}

/// A transport of one's own, and the modern revision on it: metadata with each request, listening anew when the wishes change.
#[tokio::test]
async fn a_modern_server_on_a_custom_pipe_is_called_and_listened_to() {
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let updated = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hears = Arc::clone(&updated);
    let mut options = options()
        .era(Era::Detect)
        .handler(Handlers::new().on_resource_updated(move |uri| hears.lock().push(uri)));
    options.standalone = true;
    let target = Target::custom(InMemory { heard: Arc::clone(&heard) });
    let client = Client::connect(target, options).await.unwrap();
    assert!(client.peer().modern);
    assert_eq!(text(call(&client).await), "done");
    client.subscribe("file:///a").await.unwrap();
    bowline_testkit::eventually("the update", bowline_testkit::PATIENCE, || *updated.lock() == ["file:///a"])
        .await;
    client.subscribe("file:///b").await.unwrap();
    bowline_testkit::eventually("both", bowline_testkit::PATIENCE, || updated.lock().len() == 2).await;
    let sent = heard.lock().clone();
    let methods: Vec<_> = sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
    let expected = [
        "server/discover",
        "tools/call",
        "subscriptions/listen",
        "notifications/cancelled",
        "subscriptions/listen",
    ];
    assert_eq!(methods, expected);
    assert_eq!(sent[3]["params"]["requestId"], sent[2]["id"]);
    assert_eq!(
        sent[4]["params"]["notifications"],
        json!({ "resourceSubscriptions": ["file:///a", "file:///b"] })
    );
    assert!(sent.iter().filter(|message| !message["id"].is_null()).all(|message| {
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    }));
}

/// A typed listen request shares the pipe with everything else: what is its own is told apart, and its end is said.
#[tokio::test]
async fn a_pipe_is_listened_to_with_types() {
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let handled = Arc::new(parking_lot::Mutex::new(0));
    let handles = Arc::clone(&handled);
    let options =
        options().era(Era::Detect).handler(Handlers::new().on_notification(move |_| *handles.lock() += 1));
    let client =
        Client::connect(Target::custom(InMemory { heard: Arc::clone(&heard) }), options).await.unwrap();
    let filter = ListenFilter::new().list(List::Tools).list(List::Prompts);
    let mut listening = client.listen(filter).await.unwrap();
    assert_eq!(listening.accepted(), ListenFilter::new().list(List::Tools));
    let (change, _) = timed(listening.next()).await;
    assert_eq!(change.unwrap(), Some(Change::List(List::Tools)));
    assert_eq!(*handled.lock(), 0);
    timed(listening.close()).await;
    let sent = heard.lock().clone();
    let last = sent.last().unwrap();
    assert_eq!(
        (&last["method"], &last["params"]["requestId"]),
        (&json!("notifications/cancelled"), &sent[1]["id"])
    );
}

/// A pipe that takes half of a message and then, for a call of `stuck`, nothing until the gate opens.
struct Halting {
    wire: Arc<parking_lot::Mutex<String>>,
    gate: Arc<tokio::sync::Semaphore>,
    answers: Option<mpsc::Sender<Bytes>>,
}

impl Connector for Halting {
    fn connect(&self) -> BoxFuture<'_, Result<Pipe, TransportError>> {
        let (answers, receiver) = mpsc::channel(16);
        let (wire, gate) = (Arc::clone(&self.wire), Arc::clone(&self.gate));
        let sender = Self { wire, gate, answers: Some(answers) };
        Box::pin(async { Ok(Pipe { sender: Box::new(sender), receiver: Box::new(FromServer(receiver)) }) })
    }

    fn describe(&self) -> String {
        "a pipe that halts".into()
    }
}

impl PipeSender for Halting {
    fn send(&mut self, message: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let text = String::from_utf8(message.into()).unwrap();
            let (half, rest) = text.split_at(text.len() / 2);
            self.wire.lock().push_str(half);
            if text.contains("stuck") {
                self.gate.acquire().await.unwrap().forget();
            }
            self.wire.lock().push_str(&format!("{rest}\n"));
            let message: Value = serde_json::from_str(&text).unwrap();
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} } })
                }
                _ => json!({ "content": [{ "type": "text", "text": "done" }] }),
            };
            if !message["id"].is_null() {
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                self.answers.as_ref().unwrap().send(answer.to_string().into()).await.unwrap();
            }
            Ok(())
        })
    }

    fn close(&mut self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A call that is given up in the middle of its message leaves a whole one on the pipe: the next message is not glued to half of it.
#[tokio::test]
async fn a_call_that_is_given_up_in_the_middle_of_its_message_spoils_no_other() {
    let wire = Arc::new(parking_lot::Mutex::new(String::new()));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let halting = Halting { wire: Arc::clone(&wire), gate: Arc::clone(&gate), answers: None };
    let client = Client::connect(Target::custom(halting), options()).await.unwrap();
    let short = CallOptions::default().timeout(Some(Duration::from_millis(500)));
    let given_up = client.call_tool_with("stuck", &json!({}), short).await;
    assert!(matches!(given_up, Err(CallError::Timeout { may_have_run: true, .. })), "{given_up:?}");
    gate.add_permits(1);
    assert_eq!(text(call(&client).await), "done");
    let wire = wire.lock().clone();
    let sent: Vec<Value> = wire.lines().map(|line| serde_json::from_str(line).expect(&wire)).collect();
    assert!(sent.iter().any(|message| message["params"]["name"] == "stuck"), "{wire}");
}

/// Such a message does not keep a pipe open that is closed.
#[tokio::test]
async fn a_message_that_hangs_does_not_keep_the_pipe() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let wire = Arc::new(parking_lot::Mutex::new(String::new()));
    let halting = Halting { wire: Arc::clone(&wire), gate: Arc::clone(&gate), answers: None };
    let client = Client::connect(Target::custom(halting), options()).await.unwrap();
    let stuck = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("stuck", &json!({})).await }
    });
    bowline_testkit::eventually("the message hangs", bowline_testkit::PATIENCE, || {
        !wire.lock().ends_with('\n')
    })
    .await;
    client.close().await;
    assert!(matches!(stuck.await.unwrap(), Err(CallError::OutcomeUnknown { .. })), "half of it was sent");
    drop(client);
    bowline_testkit::eventually("the pipe is gone", bowline_testkit::PATIENCE, || {
        Arc::strong_count(&gate) == 1
    })
    .await;
}
