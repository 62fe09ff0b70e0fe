//! A server that does exactly what its script says, byte by byte, and counts what it is asked: for tests of clients.
//!
//! It reads HTTP/1.1 requests from bare sockets. A request is answered by the first step that expects it and has uses left; one
//! that nobody expects is answered with 599 and is in [`Scripted::unexpected`].

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::Instant,
};

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `POST`, say.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    /// The body.
    pub body: String,
    /// The JSON-RPC method in the body; empty where there is none.
    pub rpc: String,
    /// The JSON text of the id in the body; empty where there is none.
    pub id: String,
    /// When its last byte was read.
    pub at: Instant,
    /// Counts connections.
    pub connection: usize,
}

impl Seen {
    /// A header, by its name in lower case; empty where there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body, read as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// One thing that the server does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Writes these bytes; `$ID` in them is the id of the request.
    Write(Vec<u8>),
    /// Writes them one by one, each in a packet of its own as far as that can be had.
    Drip(Vec<u8>),
    /// Does nothing for so long.
    Wait(Duration),
    /// Ends the connection in an orderly way.
    Close,
    /// Resets the connection.
    Reset,
    /// Neither writes nor reads nor closes, until the server is dropped.
    Hold,
    /// Waits until a request of this JSON-RPC method (or of this HTTP method, in capitals) was seen.
    Until(&'static str),
}

type When = Arc<dyn Fn(&Seen) -> bool + Send + Sync>;

/// A step of a script: which request it expects, and what is done then.
#[derive(Clone)]
pub struct Step {
    method: &'static str,
    rpc: &'static str,
    when: Option<When>,
    uses: usize,
    acts: Vec<Act>,
}

/// A step for requests of that HTTP method and, in their body, that JSON-RPC method. An empty `rpc` expects any body; `-` one
/// that is a response.
#[must_use]
pub fn on(method: &'static str, rpc: &'static str) -> Step {
    Step { method, rpc, when: None, uses: 1, acts: Vec::new() }
}

impl Step {
    /// Only requests for which that is true.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    /// So many requests, not only one.
    #[must_use]
    pub const fn times(mut self, uses: usize) -> Self {
        self.uses = uses;
        self
    }

    /// All of them.
    #[must_use]
    pub const fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Does this next.
    #[must_use]
    pub fn then(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    /// Writes these bytes next.
    #[must_use]
    pub fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Act::Write(bytes.as_ref().to_vec()))
    }

    /// Answers with a status, headers (each ending in CRLF) and a body of known length.
    #[must_use]
    pub fn answer(self, status: u16, headers: &str, body: &str) -> Self {
        // `$ID` changes the length; ids of the tests are short, so the body is ended by the connection's end instead.
        if body.contains("$ID") {
            return self
                .raw(format!("HTTP/1.1 {status} x\r\n{headers}connection: close\r\n\r\n{body}"))
                .then(Act::Close);
        }
        self.raw(format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
    }

    /// Answers with JSON.
    #[must_use]
    pub fn json(self, status: u16, headers: &str, body: &str) -> Self {
        self.answer(status, &format!("content-type: application/json\r\n{headers}"), body)
    }

    /// Answers with the result of the request.
    #[must_use]
    pub fn result(self, result: &str) -> Self {
        self.json(200, "", &format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{result}}}"#))
    }

    /// Begins an event stream: what follows is its body, which ends with the connection.
    #[must_use]
    pub fn stream(self) -> Self {
        self.raw("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    }

    /// Closes next.
    #[must_use]
    pub fn close(self) -> Self {
        self.then(Act::Close)
    }

    /// Resets next.
    #[must_use]
    pub fn reset(self) -> Self {
        self.then(Act::Reset)
    }

    /// Waits next.
    #[must_use]
    pub fn wait(self, ms: u64) -> Self {
        self.then(Act::Wait(Duration::from_millis(ms)))
    }

    fn expects(&self, seen: &Seen) -> bool {
        let rpc = match self.rpc {
            "" => true,
            "-" => seen.rpc.is_empty() && !seen.body.is_empty(),
            rpc => seen.rpc == rpc,
        };
        self.method == seen.method && rpc && self.when.as_ref().is_none_or(|when| when(seen))
    }
}

struct State {
    steps: Mutex<Vec<(Step, usize)>>,
    seen: Mutex<Vec<Seen>>,
    unexpected: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// The server. It ends when it is dropped.
pub struct Scripted {
    address: SocketAddr,
    state: Arc<State>,
    accepting: Mutex<Option<AbortHandle>>,
}

impl Scripted {
    /// A server on a free port.
    pub async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), steps).await
    }

    /// A server on that address.
    pub async fn start_on(address: SocketAddr, steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port to listen on");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            steps: Mutex::new(steps.into_iter().map(|step| (step, 0)).collect()),
            seen: Mutex::default(),
            unexpected: Mutex::default(),
            connections: AtomicUsize::new(0),
            tasks: Mutex::default(),
        });
        let server = Self { address, state, accepting: Mutex::new(None) };
        server.accept(listener);
        server
    }

    fn accept(&self, listener: TcpListener) {
        let state = Arc::clone(&self.state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = state.connections.fetch_add(1, Ordering::Relaxed);
                let task = tokio::spawn(serve(Arc::clone(&state), stream, number));
                state.tasks.lock().push(task.abort_handle());
            }
        });
        *self.accepting.lock() = Some(task.abort_handle());
    }

    /// Stops listening and drops every connection: the server is down.
    pub fn down(&self) {
        if let Some(task) = self.accepting.lock().take() {
            task.abort();
        }
        for task in self.state.tasks.lock().drain(..) {
            task.abort();
        }
    }

    /// Listens again, on the same address.
    pub async fn up(&self) {
        let listener = crate::patiently("the port again", async {
            loop {
                if let Ok(listener) = TcpListener::bind(self.address).await {
                    break listener;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        self.accept(listener.await);
    }

    /// Other steps, in front of those that are left.
    pub fn prepend(&self, steps: impl IntoIterator<Item = Step>) {
        let mut all: Vec<_> = steps.into_iter().map(|step| (step, 0)).collect();
        let mut place = self.state.steps.lock();
        all.append(&mut place);
        *place = all;
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Every request so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().clone()
    }

    /// Those that no step expected.
    #[must_use]
    pub fn unexpected(&self) -> Vec<Seen> {
        self.state.unexpected.lock().clone()
    }

    /// Requests of an HTTP method with that JSON-RPC method; an empty one counts all.
    #[must_use]
    pub fn of(&self, method: &str, rpc: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.method == method && (rpc.is_empty() || seen.rpc == rpc));
        seen
    }

    /// How many of them there were.
    #[must_use]
    pub fn count(&self, method: &str, rpc: &str) -> usize {
        self.of(method, rpc).len()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.down();
    }
}

async fn serve(state: Arc<State>, mut stream: TcpStream, connection: usize) {
    drop(stream.set_nodelay(true));
    let mut unread = Vec::new();
    while let Some(seen) = read(&mut stream, &mut unread, connection).await {
        let step = {
            let mut steps = state.steps.lock();
            let found = steps.iter_mut().find(|(step, used)| *used < step.uses && step.expects(&seen));
            found.map(|(step, used)| {
                *used += 1;
                step.clone()
            })
        };
        state.seen.lock().push(seen.clone());
        let acts = step.map(|step| step.acts).unwrap_or_else(|| {
            state.unexpected.lock().push(seen.clone());
            vec![Act::Write(b"HTTP/1.1 599 unexpected\r\ncontent-length: 0\r\n\r\n".to_vec())]
        });
        for act in acts {
            if !perform(&state, &mut stream, act, &seen.id).await {
                return;
            }
        }
    }
}

/// Whether the connection goes on.
async fn perform(state: &State, stream: &mut TcpStream, act: Act, id: &str) -> bool {
    match act {
        Act::Write(bytes) => stream.write_all(&with_id(&bytes, id)).await.is_ok(),
        Act::Drip(bytes) => {
            for byte in with_id(&bytes, id) {
                if stream.write_all(&[byte]).await.is_err() {
                    return false;
                }
                tokio::task::yield_now().await;
            }
            true
        }
        Act::Wait(time) => {
            tokio::time::sleep(time).await;
            true
        }
        Act::Close => {
            drop(stream.shutdown().await);
            false
        }
        Act::Reset => {
            drop(stream.set_zero_linger());
            false
        }
        Act::Hold => std::future::pending().await,
        Act::Until(what) => loop {
            if state.seen.lock().iter().any(|seen| seen.rpc == what || seen.method == what) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        },
    }
}

fn with_id(bytes: &[u8], id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(3).position(|window| window == b"$ID") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(id.as_bytes());
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    out
}

async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>, connection: usize) -> Option<Seen> {
    let end = loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&unread[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while unread.len() < end + 4 + length {
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&unread[end + 4..end + 4 + length]).into_owned();
    unread.drain(..end + 4 + length);
    let message: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    Some(Seen {
        method,
        path,
        headers,
        rpc: message["method"].as_str().unwrap_or_default().to_owned(),
        id: if message["id"].is_null() { String::new() } else { message["id"].to_string() },
        body,
        at: Instant::now(),
        connection,
    })
}
