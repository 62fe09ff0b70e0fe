//! Requests as nobody should send them: a few thousand changed at random, over raw sockets. Each is refused in words or its
//! connection is closed; none is answered with a failure of ours, none hangs, and a session next to them notices nothing.

use crate::common::{assert_serves, serve};
use bowline_testkit::{Program, patiently};
use serde_json::Value;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// How many requests; `RAWFUZZ_REQUESTS` asks for more.
const REQUESTS: usize = 3_000;

/// How many connections there are at a time.
const AT_ONCE: usize = 32;

/// How much more memory than before the program may hold afterwards, in KiB. Its allocator keeps what it once needed.
const MAX_GROWTH_KIB: u64 = 32 * 1024;

#[rustfmt::skip]
const METHODS: &[&str] = &["POST", "GET", "DELETE", "OPTIONS", "PUT", "TRACE", "CONNECT", "PRI", "post", "P\0ST", "", " ", "X"];
#[rustfmt::skip]
const TARGETS: &[&str] = &[
    "/mcp", "/mcp/", "/", "*", "/mcp?x=1", "/mcp#f", "/%6dcp", "//mcp", "/mcp/../mcp", "http://localhost/mcp", "localhost:80", "",
    "/\0", "/mcp x", "/\u{e9}", "/healthz", "/readyz", "/mcp\t",
];
#[rustfmt::skip]
const VERSIONS: &[&str] = &["HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", "http/1.1", "HTTP/1.1 ", "HTTP", ""];
#[rustfmt::skip]
const HEADERS: &[&str] = &[
    "Host: localhost", "Host: evil.example", "Host:", "Origin: http://localhost:1", "Origin: null", "Content-Length: 0",
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: 1, 1", "Content-Length: 4194305",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: x",
    "Transfer-Encoding : chunked", "Content-Type: text/plain", "Content-Type: application/json", "Accept: text/html", "Accept: */*",
    "Expect: 100-continue", "Expect: 200-ok", "Connection: close", "Connection: upgrade", "Upgrade: h2c", "HTTP2-Settings: x",
    "Mcp-Session-Id: x", "Mcp-Session-Id: \u{e9}", "MCP-Protocol-Version: 2026-07-28", "MCP-Protocol-Version: 2025-06-18",
    "Last-Event-ID: x", "Last-Event-ID: AQ", ": empty", "No-Colon", " Folded: x", "X: a\rb", "X: a\nb", "X: a\0b", "X\0: a", "X: \u{7f}",
    "Cookie: a=b", "Authorization: Bearer x",
];
const BODIES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":"?","result":{}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
    "[[[[[[[[",
    "{}",
    "",
    "\0\0\0\0",
];

/// How the head of an open stream is known.
const STREAM: &str = "content-type: text/event-stream";

/// Numbers that are the same for the same seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// One request, or a few on one connection.
fn request(dice: &mut Dice, session: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=usize::from(dice.chance(15)) * dice.below(4) {
        out.extend(one(dice, session));
    }
    // Then bytes change, whatever they were.
    for _ in 0..dice.below(3) * usize::from(dice.chance(40)) {
        let at = dice.below(out.len().max(1));
        match dice.below(5) {
            0 => out.truncate(at),
            1 => out.insert(at.min(out.len()), *b"\r\n\0 :\t\xff"[dice.below(7)..].first().unwrap_or(&0)),
            2 if at < out.len() => out[at] ^= 1 << dice.below(8),
            3 if at < out.len() => drop(out.remove(at)),
            _ => out.extend_from_within(at.min(out.len())..),
        }
    }
    out
}

fn one(dice: &mut Dice, session: &str) -> Vec<u8> {
    let odd = |dice: &mut Dice, usual: &str, from: &[&str], percent| {
        if dice.chance(percent) { dice.pick(from).to_owned() } else { usual.to_owned() }
    };
    let method = odd(dice, "POST", METHODS, 30);
    let target = odd(dice, "/mcp", TARGETS, 15);
    let version = odd(dice, "HTTP/1.1", VERSIONS, 10);
    let line_end = odd(dice, "\r\n", &["\n", "\r", "\r\r\n", "\n\r", " \r\n"], 6);
    let body = dice.pick(BODIES);
    let mut head = format!("{method} {target} {version}{line_end}");
    let mut lines = vec!["Host: localhost".to_owned()];
    if method == "POST" {
        lines.push("Content-Type: application/json".into());
        lines.push("Accept: application/json, text/event-stream".into());
    } else {
        lines.push("Accept: text/event-stream".into());
    }
    // The session lives on, so that the last request gets as far as the first.
    if method != "DELETE" && dice.chance(60) {
        lines.push(format!("Mcp-Session-Id: {session}"));
    }
    let chunked = dice.chance(20);
    match (chunked, dice.chance(10)) {
        (true, _) => lines.push("Transfer-Encoding: chunked".into()),
        (false, true) => {
            lines.push(format!("Content-Length: {}", (body.len() + dice.below(9)).saturating_sub(4)));
        }
        (false, false) => lines.push(format!("Content-Length: {}", body.len())),
    }
    for _ in 0..dice.below(4) * usize::from(dice.chance(50)) {
        let line = dice.pick(HEADERS).to_owned();
        lines.insert(dice.below(lines.len() + 1), line);
    }
    match dice.below(40) {
        0 => lines.push(format!("X: {}", "a".repeat(1 << (10 + dice.below(9))))),
        1 => lines.extend((0..1 << dice.below(9)).map(|n| format!("X-{n}: y"))),
        2 => lines.push(format!("{}: y", "n".repeat(1 << dice.below(17)))),
        3 => lines.clear(),
        _ => {}
    }
    for line in lines {
        head.push_str(&line);
        head.push_str(&line_end);
    }
    head.push_str(&line_end);
    let mut out = head.into_bytes();
    if chunked {
        let size = match dice.below(8) {
            0 => "ffffffffffffffffff".to_owned(),
            1 => "-1".to_owned(),
            2 => "x".to_owned(),
            3 => format!("{:x};ext=\"\r", body.len()),
            4 => format!("{:x}", body.len() + 3),
            _ => format!("{:x}", body.len()),
        };
        let end = dice.pick(&["0\r\n\r\n", "0\r\n\r\n", "0\r\nTrailer: x\r\n\r\n", "0\r\n", "", "\0"]);
        out.extend(format!("{size}\r\n{body}\r\n{end}").bytes());
    } else {
        out.extend(body.bytes());
    }
    out
}

/// Sends it, ends the sending half, and reads whatever comes until the peer closes or a stream is known to be open.
async fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("it takes connections");
    // It may close before everything is sent; what it said counts.
    let _ = stream.write_all(request).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return answer,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
        }
        // The session's own stream has no end; an answer before it in the pipeline has been read by now.
        if answer.windows(STREAM.len()).any(|window| window == STREAM.as_bytes()) {
            return answer;
        }
    }
}

/// Every answer of a connection: statuses that a client's faults have, and a body that says what is wrong.
fn check(answer: &[u8], request: &[u8]) {
    let text = String::from_utf8_lossy(answer);
    let shown = || format!("to {:?}:\n{text}", String::from_utf8_lossy(request));
    let mut rest = &*text;
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").unwrap_or_else(|| panic!("half a head, {}", shown()));
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("no status, {}", shown()));
        assert!(status < 500 || status == 505, "{status} {}", shown());
        let header = |name: &str| {
            let mut lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
            lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        if header("content-type") == Some("text/event-stream") {
            return;
        }
        let length: usize = header("content-length").map_or(0, |length| length.parse().expect("a number"));
        assert!(length <= after.len(), "a body that was cut, {}", shown());
        let (body, left) = after.split_at(length);
        // What is refused before there is a request to answer has no body.
        if (400..500).contains(&status) && length > 0 {
            let body: Value =
                serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} {}", shown()));
            assert!(body["error"]["code"].is_i64() && body["jsonrpc"] == "2.0", "{}", shown());
        }
        rest = left;
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

async fn send_many(program: &Program, dice: &mut Dice, requests: usize, session: &str) {
    let mut left = requests;
    while left > 0 {
        let mut answers = JoinSet::new();
        for _ in 0..left.min(AT_ONCE) {
            let (address, request) = (program.address(), request(dice, session));
            left -= 1;
            answers.spawn(async move {
                let what = String::from_utf8_lossy(&request);
                let answer = patiently(&what, exchange(address, &request)).await;
                check(&answer, &request);
            });
        }
        while let Some(checked) = answers.join_next().await {
            checked.unwrap();
        }
    }
}

#[tokio::test]
async fn no_request_makes_it_fail_hang_or_grow() {
    let number = std::env::var("RAWFUZZ_REQUESTS").map_or(REQUESTS, |text| text.parse().unwrap());
    let seed = std::env::var("RAWFUZZ_SEED").map_or(0x5eed, |text| text.parse().unwrap());
    eprintln!("RAWFUZZ_SEED={seed}");
    let mut dice = Dice(seed | 1);
    let program = serve("").await;
    let bystander = program.client().await;
    let target = program.client().await;
    let session = target.id.clone().unwrap();
    // What the allocator and the first sessions need is there before it is counted.
    send_many(&program, &mut dice, number / 4, &session).await;
    assert_serves(&bystander).await;
    let before = resident_kib(program.pid());
    let servers = program.servers().len();
    send_many(&program, &mut dice, number - number / 4, &session).await;
    assert_serves(&bystander).await;
    assert_serves(&program.client().await).await;
    let after = resident_kib(program.pid());
    assert!(after < before + MAX_GROWTH_KIB, "{before} KiB before, {after} KiB after");
    assert!(!program.said().contains("panicked"), "{}", program.said());
    assert!(program.servers().len() <= servers + 1, "requests that are refused start nothing");
    bowline_testkit::eventually("connections are given up", Duration::from_secs(10), || {
        std::fs::read_dir(format!("/proc/{}/fd", program.pid())).unwrap().count() < 200
    })
    .await;
}
