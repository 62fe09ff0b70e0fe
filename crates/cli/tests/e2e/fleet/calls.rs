//! A client for bad times: it knows several backends, goes to another one when one does not answer, and says how a call ended.

use bowline_testkit::{Answer, Session};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// How a call ended for its caller.
#[derive(Debug)]
pub(super) enum End {
    /// With a response.
    Response(Value),
    /// The connection broke before an id was seen, so that nobody can ask for the rest.
    NoId,
    /// The POST was refused with this status, and nothing ran.
    Refused(u16),
}

/// A call that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// The backend that got the POST.
    pub(super) owner: SocketAddr,
    /// When it was sent.
    pub(super) sent: Instant,
    /// When it ended.
    pub(super) at: Instant,
    /// How often the client came back.
    pub(super) polls: usize,
    /// How often a poll was not answered.
    pub(super) unanswered: usize,
    /// Responses that came, all polls together.
    pub(super) responses: usize,
}

/// Calls `job` through any of `backends`, from the `turn`th on, and stays with the call until it ends.
pub(super) async fn job(session: &Session, backends: &[SocketAddr], turn: usize, arguments: Value) -> Ended {
    let message = session.tool_with_progress("job", &arguments);
    let backend = |turn: usize| backends[turn % backends.len()];
    let mut ended = Ended {
        end: End::NoId,
        owner: backend(turn),
        sent: Instant::now(),
        at: Instant::now(),
        polls: 0,
        unanswered: 0,
        responses: 0,
    };
    // As a balancer does: a backend that does not even accept got nothing.
    let mut answer = None;
    for other in 0..200 {
        ended.owner = backend(turn + other);
        ended.sent = Instant::now();
        match session.at(ended.owner).try_post(&message).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(_) => break,
            Ok(got) => {
                answer = Some(got);
                break;
            }
        }
    }
    let Some(mut answer) = answer else {
        ended.at = Instant::now();
        return ended;
    };
    let (mut cursor, mut retry) = (None, Duration::from_millis(500));
    let mut turn = turn;
    loop {
        if answer.status() != 200 {
            assert!(cursor.is_none(), "a poll was answered with {}", answer.head.text);
            ended.end = End::Refused(answer.status());
            break;
        }
        if let Some(response) = read(&mut answer, &mut cursor, &mut retry).await {
            ended.responses += 1;
            ended.end = End::Response(response);
            break;
        }
        let Some(cursor) = &cursor else { break };
        answer = loop {
            tokio::time::sleep(retry).await;
            ended.polls += 1;
            turn += 1;
            assert!(ended.polls < 400, "the call does not end");
            let Ok(raw) = bowline_testkit::Raw::try_connect(backend(turn)).await else {
                ended.unanswered += 1;
                continue;
            };
            let request = session.request("GET", &[("Last-Event-ID", cursor)], "");
            match Answer::try_to(raw, request).await {
                Ok(answer) => break answer,
                Err(_) => ended.unanswered += 1,
            }
        };
    }
    ended.at = Instant::now();
    ended
}

/// Reads one answer as far as it comes; the response, where it is in it. Questions are answered in passing.
async fn read(answer: &mut Answer, cursor: &mut Option<String>, retry: &mut Duration) -> Option<Value> {
    if !answer.is_stream() {
        let text = String::from_utf8(answer.raw().body().await).unwrap();
        return Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}")));
    }
    loop {
        // However it breaks: what was seen counts.
        let Ok(Some(block)) = answer.try_block().await else { return None };
        *cursor = block.id.clone().or_else(|| cursor.take());
        *retry = block.retry.map_or(*retry, Duration::from_millis);
        if let Some(message) = block.message().filter(|message| message.get("method").is_none()) {
            return Some(message);
        }
    }
}

/// The arguments of a job.
pub(super) fn arguments(file: &std::path::Path, key: &str, ms: u64) -> Value {
    json!({ "file": file, "key": key, "ms": ms, "progress": 2 + ms / 500 })
}
