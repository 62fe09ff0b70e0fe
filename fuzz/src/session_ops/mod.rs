//! Sequences of what clients and operators do with one endpoint, on paused time: no panic, every answer parses, each call
//! is answered once and only to its own session, a resumed stream goes on where it was left, no id is told twice in a
//! row, and when everything has ended nothing is held any more.

mod connection;
mod handler;

use arbitrary::{Result, Unstructured};
use bowline_server::{Endpoint, Options, ResponseMode};
use bowline_store::MemoryStore;
use connection::Connection;
use handler::{Script, Scripted, Step};
use http::Method;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A sequence is no longer than this.
const MAX_OPS: usize = 48;

pub fn run(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut u = Unstructured::new(data);
        let Ok(mut world) = World::new(&mut u) else { return };
        for _ in 0..MAX_OPS {
            if u.is_empty() || world.step(&mut u).await.is_err() {
                break;
            }
        }
        world.finish().await;
    });
}

struct World {
    endpoint: Endpoint,
    handler: Arc<Scripted>,
    store: MemoryStore,
    sessions: Vec<Session>,
    connections: Vec<Connection>,
    /// Which session made call `n`.
    calls: Vec<usize>,
}

struct Session {
    id: String,
    revision: &'static str,
}

impl World {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let mut options = Options::default();
        options.response =
            *u.choose(&[ResponseMode::Auto, ResponseMode::Auto, ResponseMode::Sse, ResponseMode::Json])?;
        options.max_connection =
            *u.choose(&[Some(Duration::from_secs(25)), Some(Duration::from_millis(700)), None])?;
        options.max_event_bytes = *u.choose(&[16 << 20, 600])?;
        options.max_stream_events = *u.choose(&[1_000, 3])?;
        options.max_calls_per_session = *u.choose(&[64, 2])?;
        options.max_sessions = *u.choose(&[10_000, 2])?;
        options.session_ttl = Duration::from_secs(*u.choose(&[1_800, 20])?);
        options.sealed_ttl = Duration::from_secs(*u.choose(&[30, 3])?);
        options.call_timeout = Duration::from_secs(*u.choose(&[3_600, 60])?);
        options.tombstone_ttl = Duration::from_secs(10);
        options.abandon_after = Duration::from_secs(40);
        let handler = Arc::new(Scripted::default());
        let store = MemoryStore::default();
        let endpoint =
            Endpoint::builder(handler.clone()).options(options).store(Arc::new(store.clone())).build();
        Ok(Self {
            endpoint,
            handler,
            store,
            sessions: Vec::new(),
            connections: Vec::new(),
            calls: Vec::new(),
        })
    }

    async fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let op: u8 = u.int_in_range(0..=15)?;
        if self.sessions.is_empty() || op == 0 {
            self.initialize(u).await?;
        } else {
            let of = u.choose_index(self.sessions.len())?;
            match op {
                1..=4 => self.call(u, of)?,
                5 | 6 => self.poll(u, of)?,
                7 => self.send(of, Method::GET, None, String::new()),
                8 => {
                    let id = u.int_in_range(0..=self.calls.len().saturating_sub(1))?;
                    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
                    self.send(of, Method::POST, None, cancel.to_string());
                }
                9 => self.answer_questions(of),
                10 => {
                    let live: Vec<_> = self.connections.iter().filter(|it| !it.is_finished()).collect();
                    if !live.is_empty() {
                        live[u.choose_index(live.len())?].drop_it();
                    }
                }
                11..=13 => {
                    let ms = *u.choose(&[0, 1, 249, 1_000, 1_001, 2_500, 8_000, 26_000, 61_000])?;
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
                14 if u.ratio(1, 4)? => self.send(of, Method::DELETE, None, String::new()),
                14 => {
                    let text = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
                    self.send(of, Method::POST, None, text);
                }
                _ if u.ratio(1, 8)? => self.endpoint.start_drain(),
                _ => {
                    let text: &str = u.arbitrary()?;
                    self.send(of, Method::POST, None, text.to_owned());
                }
            }
        }
        // Everything that takes no time happens now, or between the next operations.
        if u.ratio(3, 4)? {
            settle().await;
        }
        Ok(())
    }

    async fn initialize(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let revision = *u.choose(&REVISIONS)?;
        let hello = json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": { "protocolVersion": revision } });
        let connection =
            Connection::open(&self.endpoint, usize::MAX, Method::POST, None, None, hello.to_string());
        let told = connection.told.clone();
        connection.join().await;
        let told = told.borrow();
        match &told.session {
            Some(id) => self.sessions.push(Session { id: id.clone(), revision }),
            None => assert_eq!(told.status, Some(503), "too many, or leaving"),
        }
        if self.sessions.is_empty() {
            return Err(arbitrary::Error::NotEnoughData);
        }
        Ok(())
    }

    fn send(&mut self, of: usize, method: Method, cursor: Option<&str>, body: String) {
        let session = &self.sessions[of].id;
        let connection = Connection::open(&self.endpoint, of, method, Some(session), cursor, body);
        self.connections.push(connection);
    }

    fn call(&mut self, u: &mut Unstructured<'_>, of: usize) -> Result<()> {
        let members = if self.sessions[of].revision == "2025-03-26" { u.int_in_range(1..=3)? } else { 1 };
        let mut requests = Vec::new();
        for _ in 0..members {
            let n = self.calls.len() as u64;
            self.calls.push(of);
            let steps = (0..u.int_in_range(0..=6)?).map(|_| step(u)).collect::<Result<_>>()?;
            let script = Script { n, steps, size: *u.choose(&[0, 0, 700])? };
            let params = serde_json::to_value(script).expect("JSON");
            requests.push(json!({ "jsonrpc": "2.0", "id": n, "method": "tools/run", "params": params }));
        }
        let body = if members == 1 { requests.remove(0) } else { Value::Array(requests) };
        self.send(of, Method::POST, None, body.to_string());
        Ok(())
    }

    /// Resumes from any id that any session has been told, mostly the newest one of a connection.
    fn poll(&mut self, u: &mut Unstructured<'_>, of: usize) -> Result<()> {
        let foreign = u.ratio(1, 16)?;
        let mut ids = Vec::new();
        for connection in self.connections.iter().filter(|it| it.of == of || foreign) {
            let told = connection.told.borrow();
            ids.extend(told.ids.last().cloned());
            if u.ratio(1, 4)? {
                ids.extend(told.ids.iter().cloned());
            }
        }
        if !ids.is_empty() {
            let cursor = ids[u.choose_index(ids.len())?].clone();
            self.send(of, Method::GET, Some(&cursor), String::new());
        }
        Ok(())
    }

    /// Answers every question that the session has seen, the old ones once more.
    fn answer_questions(&mut self, of: usize) {
        let mut answers = Vec::new();
        for connection in self.connections.iter().filter(|it| it.of == of) {
            let told = connection.told.borrow();
            let asked = told.messages.iter().filter(|message| message["method"] == "roots/list");
            answers.extend(asked.map(
                |question| json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } }),
            ));
        }
        for answer in answers {
            self.send(of, Method::POST, None, answer.to_string());
        }
    }

    /// Ends everything, and looks at what is left.
    async fn finish(mut self) {
        settle().await;
        for connection in std::mem::take(&mut self.connections) {
            // What finished by itself may have failed a check; what has not goes away now.
            if !connection.is_finished() && !connection.told.borrow().over {
                connection.drop_it();
            }
            let (told, of, is_get) = (connection.told.clone(), connection.of, connection.is_get);
            connection.join().await;
            self.check_one(&told.borrow(), of, is_get);
            // Kept for what holds over several connections.
            self.connections.push(Connection::closed(told, of, is_get));
        }
        self.check_all();
        settle().await;
        assert_eq!(self.endpoint.metrics().streams_open.get(), 0, "connections that are gone are counted");

        self.endpoint.close().await;
        // Cancelled calls have their grace; then results and tombstones expire.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let metrics = self.endpoint.metrics();
        for (name, value) in
            [("calls", &metrics.calls), ("sessions", &metrics.sessions), ("bindings", &metrics.bindings)]
        {
            assert_eq!(value.get(), 0, "{name}");
        }
        let (offered, ended) = (&self.handler.offered, &self.handler.ended);
        assert_eq!(
            offered.load(Ordering::Relaxed),
            ended.load(Ordering::Relaxed),
            "every session's end is told once"
        );
        tokio::time::sleep(Duration::from_secs(40)).await;
        let stats = self.store.stats();
        let held = [
            stats.streams_open,
            stats.streams_sealed,
            stats.events,
            stats.bytes,
            stats.sessions,
            stats.tombstones,
            stats.subscriptions,
        ];
        assert_eq!(held, [0; 7], "{stats:?}");
    }

    fn check_one(&self, told: &connection::Told, of: usize, is_get: bool) {
        let mut answered = BTreeMap::new();
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        for message in &told.messages {
            if let Some(n) = message["id"].as_u64().filter(|_| message.get("method").is_none()) {
                assert_eq!(answered.insert(n, message), None, "{n} is answered twice on one connection");
                assert_eq!(self.calls.get(n as usize), Some(&of), "an answer to another session's call");
                assert!(
                    message.get("error").is_some() || message["result"]["n"] == n,
                    "another call's result"
                );
            }
            let params = &message["params"];
            let said = match message["method"].as_str() {
                Some("notifications/progress") => {
                    Some((params["progressToken"].as_u64(), params["progress"].as_u64()))
                }
                Some("notifications/message") => {
                    Some((params["data"]["n"].as_u64(), params["data"]["k"].as_u64()))
                }
                _ => None,
            };
            if let Some((Some(n), Some(k))) = said {
                assert_eq!(self.calls.get(n as usize), Some(&of), "a notification of another session's call");
                assert!(
                    !answered.contains_key(&n),
                    "something of {n} after the response: {:?}",
                    told.messages
                );
                assert!(
                    newest.insert(n, k).is_none_or(|before| before < k),
                    "out of order or twice: {:?}",
                    told.messages
                );
            }
        }
        if is_get && told.presented.is_some() {
            assert!(answered.len() <= 1 && newest.len() <= 1, "a cursor names one stream");
        }
    }

    /// A connection that presents the last id of another one goes on where that one was left, under new ids; and a call has
    /// one result, however often it is read.
    fn check_all(&self) {
        let mut results: BTreeMap<u64, Value> = BTreeMap::new();
        for connection in &self.connections {
            let told = connection.told.borrow();
            for message in told.messages.iter().filter(|message| message.get("result").is_some()) {
                if let Some(n) = message["id"].as_u64() {
                    let first = results.entry(n).or_insert_with(|| message.clone());
                    assert_eq!(first, message, "two results of one call");
                }
            }
            let Some(presented) = &told.presented else { continue };
            let earlier = self.connections.iter().filter(|it| it.of == connection.of);
            for earlier in earlier.map(|earlier| earlier.told.borrow()) {
                if earlier.ids.last() != Some(presented) {
                    continue;
                }
                for id in &told.ids {
                    assert!(!earlier.ids.contains(id), "an id twice on consecutive connections");
                }
                for message in told.messages.iter().filter(|message| is_told_once(message)) {
                    assert!(!earlier.messages.contains(message), "{message} comes again");
                }
            }
        }
    }
}

/// What stands in a stream once. An error about a cursor is said to whoever presents it.
fn is_told_once(message: &Value) -> bool {
    message.get("error").is_none() && message["method"] != "notifications/tools/list_changed"
}

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=12)? {
        0..=2 => Step::Progress,
        3 => Step::Log,
        4..=7 => Step::Sleep(*u.choose(&[0, 10, 300, 1_500, 4_000, 30_000, 90_000])?),
        8 => Step::Ask,
        9 => Step::Close,
        10 => Step::Aside,
        11 => Step::UntilCancelled,
        _ => Step::Never,
    })
}

/// Lets everything run that needs no time.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
