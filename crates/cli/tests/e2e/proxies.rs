//! nginx, Caddy and `HAProxy` in front, with the configurations of `docs/proxies.md` and buffering as each comes. Two seconds
//! stand for their 60 s of silence, and our own times are scaled alike.

use crate::common::{OLDER, PRIMED, fixture, ping};
use bowline_testkit::{Answer, Block, Program, Proxy, ProxyKind, Session, replace, text_of};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// What the tests put in place of the documented limit.
const LIMIT: Duration = Duration::from_secs(2);

/// A silent call over twice as long.
const LONG: u64 = 4500;

/// The documented configuration with the limit scaled down.
fn scaled(kind: ProxyKind) -> String {
    let config = kind.documented();
    let limit = format!("{}s", LIMIT.as_secs());
    match kind {
        ProxyKind::Nginx => {
            replace(&config, "proxy_read_timeout 60s", &format!("proxy_read_timeout {limit}"))
        }
        ProxyKind::Caddy => replace(&config, "read_timeout 60s", &format!("read_timeout {limit}")),
        ProxyKind::HaProxy => {
            let config = replace(&config, "timeout client 60s", &format!("timeout client {limit}"));
            replace(&config, "timeout server 60s", &format!("timeout server {limit}"))
        }
    }
}

/// The program with options, and in front of it the proxy with the scaled limit.
async fn behind(kind: ProxyKind, options: &str) -> (Program, Proxy) {
    let program = fixture().with(options).start().await;
    let proxy = kind.start(&scaled(kind), program.address()).await;
    (program, proxy)
}

/// A session that goes on through the proxy. It is begun beside it: on a busy machine a child may take longer to start than
/// the scaled limit allows.
async fn session_of(program: &Program, proxy: &Proxy, revision: &str) -> Session {
    program.session(revision).await.at(proxy.address())
}

/// Streams begin at once and say things when they are said, on a POST and on a GET.
async fn streams_are_not_buffered(kind: ProxyKind) {
    let program = fixture().with("--response sse").start().await;
    let proxy = kind.start(&kind.documented(), program.address()).await;
    let session = Session::start(proxy.address(), PRIMED).await;
    let began = Instant::now();
    let message = session.tool_with_progress("slow", &json!({ "ms": 1600, "progress": 4 }));
    let mut answer = session.post(&message).await;
    assert!(answer.block().await.unwrap().is_priming());
    let first = Instant::now() - began;
    assert!(first < Duration::from_millis(1_200), "the first event after {first:?}");
    assert!(answer.is_stream(), "{}", answer.head.text);
    assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
    let blocks = answer.blocks().await;
    assert_eq!(blocks.len(), 5, "{blocks:?}");
    // 400 ms between two of them; in a burst it would be none. A machine that is busy may see two at once, and not all.
    let spread = blocks[3].at - blocks[0].at;
    assert!(spread > Duration::from_millis(450), "progress came in a burst: {spread:?}");

    let began = Instant::now();
    let mut standalone = session.get(None).await;
    standalone.raw().try_block().await.unwrap().expect("a first byte");
    let first = Instant::now() - began;
    assert!(first < Duration::from_secs(5), "the standalone stream after {first:?}");
    assert!(session.call_for_text("swap", json!({})).await.starts_with("swapped"));
    let told = next_message(&mut standalone).await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
}

/// The next message of a stream; panics when the stream is cut before it.
async fn next_message(answer: &mut Answer) -> Value {
    loop {
        let block = answer.block().await.expect("a message before the end");
        if let Some(message) = block.message() {
            return message;
        }
    }
}

/// Reads a stream that the proxy must not cut to its end: how many comments came, and the messages.
async fn uncut(mut answer: Answer) -> (usize, Vec<Value>) {
    let (mut comments, mut messages) = (0, Vec::new());
    while let Some(block) = answer.raw().try_block().await.expect("the proxy cut the stream") {
        comments += usize::from(block.is_comment());
        messages.extend(block.message());
    }
    (comments, messages)
}

/// Comments come through, and keep a silent call's connection alive past the limit; nothing else helps older clients. The
/// standalone stream lives by them too.
async fn keep_alives_carry_a_call_over_the_limit(kind: ProxyKind) {
    let (program, proxy) = behind(kind, "--json-hold 50ms --keep-alive 500ms --max-connection 0").await;
    let session = session_of(&program, &proxy, PRIMED).await;
    let mut standalone = session.get(None).await;
    let call = async |revision: &str| {
        let session = session_of(&program, &proxy, revision).await;
        let (comments, messages) = uncut(session.call("slow", json!({ "ms": LONG })).await).await;
        assert_eq!(messages.len(), 1, "{revision}: {messages:?}");
        assert_eq!(text_of(&messages[0]), format!("slow: {LONG} ms, 0 progress"), "{revision}");
        assert!((6..=10).contains(&comments), "{revision}: {comments} comments");
    };
    tokio::join!(call(PRIMED), call(OLDER[0]), call(OLDER[1]), call(OLDER[2]));
    assert!(session.call_for_text("swap", json!({})).await.starts_with("swapped"));
    let told = next_message(&mut standalone).await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
}

/// Without comments: a parked call outlives the limit, since each of its connections is shorter.
async fn parking_carries_a_call_over_the_limit(kind: ProxyKind) {
    let options = "--json-hold 50ms --keep-alive 1h --max-connection 1s --retry 300ms";
    let (program, proxy) = behind(kind, options).await;
    let session = session_of(&program, &proxy, PRIMED).await;
    let (messages, polls) = session.poll(session.call("slow", json!({ "ms": LONG })).await).await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(text_of(&messages[0]), format!("slow: {LONG} ms, 0 progress"));
    assert!(polls >= 3, "{polls}");
}

/// With neither, the proxy does cut. The client sees a failure, or with Caddy an orderly end in the middle, and resumes where it
/// was.
async fn a_cut_call_is_resumed(kind: ProxyKind) {
    let (program, proxy) = behind(kind, "--json-hold 50ms --keep-alive 1h --max-connection 0").await;
    let session = session_of(&program, &proxy, PRIMED).await;
    let began = Instant::now();
    let mut answer = session.call("slow", json!({ "ms": LONG })).await;
    assert!(answer.block().await.unwrap().is_priming());
    let rest = answer.try_block().await;
    let held = Instant::now() - began;
    assert_cut(kind, &rest);
    assert!((LIMIT.mul_f32(0.8)..LIMIT.mul_f32(2.0)).contains(&held), "the limit was {held:?}");
    let cursor = answer.last_id.clone();
    // The poll would meet the limit too, so it comes when the call is nearly done.
    tokio::time::sleep(Duration::from_millis(LONG) - LIMIT.mul_f32(0.5) - held).await;
    let mut resumed = session.get(cursor.as_deref()).await;
    let messages = resumed.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(text_of(&messages[0]), format!("slow: {LONG} ms, 0 progress"));
}

/// A backend that dies in the middle shows in the same way.
async fn a_lost_backend_shows(kind: ProxyKind) {
    let (program, proxy) = behind(kind, "--json-hold 50ms").await;
    let session = session_of(&program, &proxy, PRIMED).await;
    let mut answer = session.call("slow", json!({ "ms": LONG })).await;
    assert!(answer.block().await.unwrap().is_priming());
    program.kill();
    assert_cut(kind, &answer.try_block().await);
}

/// Asserts that a stream ended before its response, in the way of the proxy.
fn assert_cut(kind: ProxyKind, rest: &std::io::Result<Option<Block>>) {
    match kind {
        ProxyKind::Nginx | ProxyKind::HaProxy => assert!(rest.is_err(), "looks like an end: {rest:?}"),
        ProxyKind::Caddy => assert!(matches!(rest, Ok(None)), "docs/proxies.md says otherwise: {rest:?}"),
    }
}

/// Status, type and body, as a client sees them.
async fn seen(mut answer: Answer) -> (u16, Option<String>, String) {
    let kind = answer.header("content-type").map(str::to_owned);
    (answer.status(), kind, answer.text().await)
}

/// What is refused is refused in our words, whatever stands between.
async fn refusals_pass_unchanged(kind: ProxyKind) {
    let (program, proxy) = behind(kind, "--body-limit 64KiB").await;
    let through = session_of(&program, &proxy, PRIMED).await;
    let nobody = through.with_id(Some("nobody"));
    let ping = ping().to_string();
    let over = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": "y".repeat(70_000) } });
    let far_over = over.to_string().replace(&"y".repeat(70_000), &"y".repeat(3 << 20));
    let over = over.to_string();
    for (status, session, method, headers, body) in [
        (404, &nobody, "POST", &[][..], ping.as_str()),
        (404, &nobody, "GET", &[], ""),
        (404, &nobody, "DELETE", &[], ""),
        (400, &through, "POST", &[], "{"),
        (400, &through, "GET", &[("Last-Event-ID", "nonsense")], ""),
        (405, &through, "PUT", &[], ""),
        (406, &through, "POST", &[("Accept", "text/html")], &ping),
        (413, &through, "POST", &[], &over),
        (413, &through, "POST", &[], &far_over),
        (415, &through, "POST", &[("Content-Type", "text/plain")], &ping),
    ] {
        let what = format!("{kind:?}: {status} to a {method} of {} bytes", body.len());
        let answer = session.send(method, headers, body).await;
        assert_eq!(answer.header("allow").is_some(), status == 405, "{what}");
        let got = seen(answer).await;
        assert_eq!(got.0, status, "{what}: {got:?}");
        assert_eq!(got.1.as_deref(), Some("application/json"), "{what}: {got:?}");
        assert_eq!(
            got,
            seen(session.at(program.address()).send(method, headers, body).await).await,
            "{what}"
        );
    }
    let mut deleted = through.delete().await;
    assert_eq!((deleted.status(), deleted.text().await.as_str()), (204, ""));
    assert_eq!(through.send("POST", &[], &ping).await.status(), 404, "the session has ended");
    assert_eq!(through.at(program.address()).send("POST", &[], &ping).await.status(), 404);
}

/// The public name and the pages that may call, as documented; and what a client says about itself is not believed.
async fn names_are_checked(kind: ProxyKind) {
    let options = "--allow-host mcp.example.com --allow-origin https://app.example.com";
    let (host, evil) = (("Host", "mcp.example.com"), ("Host", "evil.example"));
    let spoof = ("X-Forwarded-Host", "mcp.example.com");
    let app = ("Origin", "https://app.example.com");
    let config = scaled(kind);
    for (config, options) in [
        (config.clone(), options.to_owned()),
        (config.clone(), format!("{options} --trust-proxy")),
        (kind.rewriting_host(&config), format!("{options} --trust-proxy")),
    ] {
        let program = fixture().with(&options).start().await;
        let proxy = kind.start(&config, program.address()).await;
        let session = program.client().await.at(proxy.address());
        let ping = ping().to_string();
        let page = session.send("POST", &[host, app], &ping).await;
        assert_eq!(page.status(), 200, "{kind:?} {options}: {}", page.head.text);
        assert_eq!(page.header("access-control-allow-origin"), Some(app.1));
        assert!(page.header("access-control-expose-headers").is_some());
        let preflight =
            session.send("OPTIONS", &[host, app, ("Access-Control-Request-Method", "POST")], "").await;
        assert_eq!(preflight.status(), 204, "{}", preflight.head.text);
        assert!(preflight.header("access-control-allow-methods").is_some());
        for (headers, option) in [
            (&[evil][..], "--allow-host"),
            (&[evil, spoof], "--allow-host"),
            (&[host, ("Origin", "https://evil.example")], "--allow-origin"),
        ] {
            let mut refused = session.send("POST", headers, &ping).await;
            let what = format!("{kind:?} {options}, {headers:?}: {}", refused.head.text);
            assert_eq!(refused.status(), 403, "{what}");
            let body = refused.json().await;
            assert!(body["error"]["message"].as_str().is_some_and(|m| m.contains(option)), "{what}: {body}");
        }
    }
}

/// Each test for each proxy.
macro_rules! each_proxy {
    ($($test:ident),* $(,)?) => {
        each_proxy!(@ nginx Nginx $($test)*);
        each_proxy!(@ caddy Caddy $($test)*);
        each_proxy!(@ haproxy HaProxy $($test)*);
    };
    (@ $name:ident $kind:ident $($test:ident)*) => {
        mod $name {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::ProxyKind::$kind).await;
            })*
        }
    };
}

each_proxy!(
    streams_are_not_buffered,
    keep_alives_carry_a_call_over_the_limit,
    parking_carries_a_call_over_the_limit,
    a_cut_call_is_resumed,
    a_lost_backend_shows,
    refusals_pass_unchanged,
    names_are_checked,
);
