//! One call of a raw client, from its POST to its end: it polls as it is told until it has its response.

use super::session::Client;
use crate::journal::{Event, How, Intent, Plan, now, payload};
use bowline_testkit::Answer;
use serde_json::{Value, json};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// What happens to a call while it is followed.
struct Watch<'a> {
    client: &'a Client,
    call: &'a str,
    id: u64,
    plan: &'a Plan,
    /// Whether a cancel was sent.
    cancelled: &'a AtomicBool,
    /// How it ended.
    end: Option<How>,
    cursor: Option<String>,
    retry: Duration,
}

/// Runs a call, and writes down what comes of it.
pub(super) async fn run(client: &Arc<Client>, plan: Plan, intent: Intent, after: Duration) {
    let (id, call) = client.next_call();
    let journal = &client.common.journal;
    let bound_ms = plan.ms + client.common.tempo.grace;
    let arguments = json!({ "call": call, "ms": plan.ms, "progress": plan.progress, "size": plan.size,
        "ask": plan.ask, "log": plan.log });
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "work", "arguments": arguments, "_meta": { "progressToken": call } } })
    .to_string();
    client.busy_until.fetch_max(now() + plan.ms + 25_000, Ordering::Relaxed);
    journal.note(Event::Sent { call: call.clone(), plan: plan.clone(), intent, bound_ms });
    if intent == Intent::Leave {
        client.send_and_leave(&body, after).await;
        return journal.note(Event::End { call, how: How::Left });
    }
    let cancelled = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let mut watch = Watch {
        client,
        call: &call,
        id,
        plan: &plan,
        cancelled: &cancelled,
        end: None,
        cursor: None,
        retry: Duration::from_millis(500),
    };
    let follow = async {
        let end = timeout(Duration::from_millis(bound_ms), watch.follow(&body)).await;
        over.store(true, Ordering::Relaxed);
        end.unwrap_or(How::Timeout)
    };
    let interfere = async {
        if intent == Intent::Finish {
            return;
        }
        sleep(after).await;
        if over.load(Ordering::Relaxed) {
            return;
        }
        if intent == Intent::Delete {
            client.deleting.store(true, Ordering::Relaxed);
            if matches!(client.insist("DELETE", "").await, Some(204)) {
                let (session, parting) = (client.name.clone(), crate::journal::Parting::Deleted);
                journal.note(Event::Closed { session, parting });
            }
            return;
        }
        cancelled.store(true, Ordering::Relaxed);
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "soak" } });
        if client.insist("POST", &cancel.to_string()).await == Some(202) {
            journal.note(Event::CancelTaken { call: call.clone() });
        }
    };
    let (how, ()) = tokio::join!(follow, interfere);
    journal.note(Event::End { call, how });
}

impl Watch<'_> {
    /// Sends the call and follows it to its end.
    async fn follow(&mut self, body: &str) -> How {
        let mut answer = match self.client.send("POST", &[], body).await {
            Ok(answer) => answer,
            Err(error) => return self.lost(&error),
        };
        if matches!(answer.status(), 429 | 503) {
            return How::Refused { status: answer.status() };
        }
        loop {
            match answer.status() {
                200 if answer.is_stream() => {
                    let broken = self.read(&mut answer).await.err();
                    if let Some(how) = self.end.take() {
                        self.probe_the_end().await;
                        return how;
                    }
                    let Some(cursor) = &self.cursor else {
                        // An older revision's stream that a cancel ended has shown nothing.
                        return match broken {
                            None if self.cancelled.load(Ordering::Relaxed) => How::Cancelled,
                            None if self.client.deleting.load(Ordering::Relaxed) => How::Deleted,
                            None => How::Nothing,
                            Some(error) => self.lost(&error),
                        };
                    };
                    let owner = self.client.identity.principal.clone();
                    let found =
                        (owner, self.client.wire.id.clone().unwrap_or_default(), Some(cursor.clone()));
                    self.client.common.found.lock().push(found);
                }
                200 | 202 => match self::body(&mut answer).await {
                    Ok(text) if text.is_empty() && self.cancelled.load(Ordering::Relaxed) => {
                        return How::Cancelled;
                    }
                    Ok(text) if text.is_empty() && self.client.deleting.load(Ordering::Relaxed) => {
                        return How::Deleted;
                    }
                    Ok(text) => match serde_json::from_str(&text) {
                        Ok(message) => {
                            self.take(message).await;
                            return self.end.take().unwrap_or(How::Nothing);
                        }
                        Err(error) => {
                            self.client
                                .odd(&format!("{}: the answer is not JSON: {error}: {text:?}", self.call));
                            return How::Nothing;
                        }
                    },
                    Err(error) => return self.lost(&error),
                },
                204 if self.cancelled.load(Ordering::Relaxed) => return How::Cancelled,
                204 if self.client.deleting.load(Ordering::Relaxed) => return How::Deleted,
                204 => return How::Nothing,
                404 if self.client.deleting.load(Ordering::Relaxed) => return How::Deleted,
                // Requests that never arrived have not kept it alive.
                404 if self.client.idle_ms() > self.client.common.tempo.session_ttl => {
                    self.client.expired.store(true, Ordering::Relaxed);
                    return How::Expired { idle_ms: self.client.idle_ms() };
                }
                429 | 503 => self.retry = self.retry.max(Duration::from_secs(1)),
                status => {
                    let text = self::body(&mut answer).await.unwrap_or_default();
                    self.client.odd(&format!("{} was answered with {status}: {text}", self.call));
                    return How::Nothing;
                }
            }
            answer = self.resume().await;
        }
    }

    /// Asks for the stream again, until somebody answers.
    async fn resume(&mut self) -> Answer {
        loop {
            sleep(self.retry).await;
            self.client.common.journal.note(Event::Resumed { call: self.call.to_owned() });
            let cursor = self.cursor.clone().unwrap_or_default();
            match self.client.send("GET", &[("Last-Event-ID", &cursor)], "").await {
                Ok(answer) => return answer,
                Err(_) => self.retry = self.retry.min(Duration::from_secs(1)),
            }
        }
    }

    /// Reads a stream until it ends.
    async fn read(&mut self, answer: &mut Answer) -> io::Result<()> {
        loop {
            let block = answer.try_block().await;
            self.cursor = answer.last_id.clone().or_else(|| self.cursor.take());
            let Some(block) = block? else { return Ok(()) };
            if let Some(retry) = block.retry {
                self.retry = Duration::from_millis(retry);
            }
            if let Some(message) = block.message() {
                self.take(message).await;
            }
        }
    }

    /// One message.
    async fn take(&mut self, message: Value) {
        let journal = &self.client.common.journal;
        if message["method"] == "notifications/progress" {
            let params = &message["params"];
            return journal.note(Event::Progress {
                call: params["progressToken"].as_str().unwrap_or_default().to_owned(),
                of: params["message"].as_str().unwrap_or_default().to_owned(),
                n: params["progress"].as_u64().unwrap_or_default(),
            });
        }
        if message.get("method").is_some() {
            return self.client.hear(&message).await;
        }
        if message["id"] != self.id {
            self.client.odd(&format!("{}: a response to another request: {}", self.call, message["id"]));
        }
        journal.note(Event::Response { call: self.call.to_owned() });
        self.end = Some(how(&message, self.call, self.plan));
    }

    /// The connection broke and nothing can be resumed from.
    fn lost(&self, error: &io::Error) -> How {
        How::Lost { why: error.to_string() }
    }

    /// Asks once more behind the response, now and then: nothing may be left.
    async fn probe_the_end(&mut self) {
        let Some(cursor) = self.cursor.clone().filter(|_| self.id.is_multiple_of(5)) else { return };
        if let Ok(mut answer) = self.client.send("GET", &[("Last-Event-ID", &cursor)], "").await {
            match answer.status() {
                204 | 429 | 503 => {}
                404 if self.client.deleting.load(Ordering::Relaxed) => {}
                status => {
                    let text = body(&mut answer).await.unwrap_or_default();
                    self.client.odd(&format!("{}: behind the response came {status}: {text}", self.call));
                }
            }
        }
    }
}

/// How a response ends a call.
fn how(response: &Value, call: &str, plan: &Plan) -> How {
    let error = &response["error"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if error.is_object() {
        return How::Error {
            code: error["code"].as_i64().unwrap_or_default(),
            reason: text(&error["data"]["reason"]),
            outcome: text(&error["data"]["outcome"]),
            message: text(&error["message"]).unwrap_or_default(),
        };
    }
    let result = &response["result"];
    let right = result["content"][0]["text"].as_str() == Some(payload(call, plan.size).as_str());
    How::Result {
        of: text(&result["structuredContent"]["call"]).unwrap_or_default(),
        good: right,
        asked: text(&result["structuredContent"]["asked"]).unwrap_or_default(),
    }
}

/// The whole body, or how it broke.
pub(super) async fn body(answer: &mut Answer) -> io::Result<String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.raw().try_chunk().await? {
        bytes.extend_from_slice(&chunk.data);
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}
