//! One session of a raw client, from `initialize` to its end.

use super::{Common, Identity, call, plan};
use crate::{
    chance::Chance,
    journal::{Event, Intent, Parting, now},
};
use bowline_testkit::{Answer, Raw, Session, initialize};
use serde_json::{Value, json};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::sleep};

/// A session and whose it is.
pub(super) struct Client {
    pub(super) common: Arc<Common>,
    pub(super) identity: Identity,
    /// Its name in the journal.
    pub(super) name: String,
    pub(super) wire: Session,
    /// Whether we have sent a DELETE.
    pub(super) deleting: AtomicBool,
    next: AtomicU64,
    /// Until when a call that its client does not follow any more may keep the session alive.
    pub(super) busy_until: AtomicU64,
    /// When the last request was sent that was answered: the session lives on from then at least. Not when the answer was read: that
    /// may have been on its way for long.
    used: AtomicU64,
    /// Whether it was found to be gone for lack of use.
    pub(super) expired: AtomicBool,
}

impl Client {
    /// Sends one request and reads the head of the answer.
    pub(super) async fn send(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        let sent = now();
        let raw = Raw::try_connect(self.identity.address).await?;
        let bearer = format!("Bearer {}", self.identity.token);
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        let answer = Answer::try_to(raw, self.wire.request(method, &all, body)).await?;
        if answer.status() != 404 {
            self.used.fetch_max(sent, Ordering::Relaxed);
        }
        Ok(answer)
    }

    /// For how long the program may have heard nothing of the session, in milliseconds.
    pub(super) fn idle_ms(&self) -> u64 {
        now().saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// A connection on which a request was sent and nothing is read.
    pub(super) async fn send_and_leave(&self, body: &str, after: Duration) {
        if let Ok(mut raw) = Raw::try_connect(self.identity.address).await {
            let bearer = format!("Bearer {}", self.identity.token);
            raw.send(self.wire.request("POST", &[("Authorization", &bearer)], body)).await;
            sleep(after).await;
            raw.abort();
        }
    }

    pub(super) fn odd(&self, what: &str) {
        self.common.journal.note(Event::Odd { what: format!("{}: {what}", self.name) });
    }

    pub(super) fn next_call(&self) -> (u64, String) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number, format!("{}.{number}", self.name))
    }

    /// Sends until it has arrived: an answer to a question, a cancel, a DELETE. The status, or `None` when there was no way.
    pub(super) async fn insist(&self, method: &str, body: &str) -> Option<u16> {
        for _ in 0..6 {
            match self.send(method, &[], body).await {
                Ok(answer) if answer.status() == 429 || answer.status() == 503 => {}
                Ok(answer) => return Some(answer.status()),
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
        None
    }

    /// Looks at a message that is no response; answers it where it asks.
    pub(super) async fn hear(&self, message: &Value) {
        let heard = |of: &str, what: &str| {
            self.common.journal.note(Event::Heard {
                session: self.name.clone(),
                of: of.into(),
                what: what.into(),
            });
        };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("notifications/message") => {
                heard(params["data"]["call"].as_str().unwrap_or_default(), "log");
            }
            Some("elicitation/create") => {
                let of =
                    params["message"].as_str().and_then(|text| text.strip_prefix("ask ")).unwrap_or_default();
                heard(of, "ask");
                self.answer(message, json!({ "action": "accept", "content": { "call": of } })).await;
            }
            Some("sampling/createMessage") => {
                let text = params["messages"][0]["content"]["text"].as_str();
                let of = text.and_then(|text| text.strip_prefix("ask ")).unwrap_or_default();
                heard(of, "ask");
                let content = json!({ "type": "text", "text": format!("answer {of}") });
                self.answer(message, json!({ "role": "assistant", "model": "none", "content": content }))
                    .await;
            }
            // A question of ours was taken back: the call has ended, or its process has.
            Some("notifications/cancelled") => {}
            _ => self.odd(&format!("a message that nobody sends: {message}")),
        }
    }

    async fn answer(&self, question: &Value, result: Value) {
        let body = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }).to_string();
        match self.insist("POST", &body).await {
            Some(202 | 404) | None => {}
            Some(status) => self.odd(&format!("an answer to a question was answered with {status}")),
        }
    }
}

/// Opens a session; `None` when it was not to be.
async fn open(common: &Arc<Common>, identity: &Identity, name: &str, revision: &str) -> Option<Client> {
    let mut client = Client {
        common: common.clone(),
        identity: identity.clone(),
        name: name.to_owned(),
        wire: Session::none(identity.address),
        deleting: AtomicBool::new(false),
        next: AtomicU64::new(1),
        busy_until: AtomicU64::new(0),
        used: AtomicU64::new(0),
        expired: AtomicBool::new(false),
    };
    let mut answer = client.send("POST", &[], &initialize(revision).to_string()).await.ok()?;
    let body = call::body(&mut answer).await.ok()?;
    match answer.status() {
        200 => {}
        429 | 503 => return None,
        status => {
            client.odd(&format!("initialize was answered with {status}: {body}"));
            return None;
        }
    }
    client.wire.id = answer.header("mcp-session-id").map(str::to_owned);
    let negotiated = serde_json::from_str::<Value>(&body).ok()?;
    revision.clone_into(&mut client.wire.revision);
    if client.wire.id.is_none() || negotiated["result"]["protocolVersion"] != revision {
        client.odd(&format!("initialize was answered with {body}"));
        return None;
    }
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    match client.insist("POST", &initialized).await {
        Some(202) => {}
        None => return None,
        Some(status) => {
            client.odd(&format!("notifications/initialized was answered with {status}"));
            return None;
        }
    }
    common.journal.note(Event::Opened { session: name.to_owned() });
    Some(client)
}

/// One session from its beginning to its end.
pub(super) async fn one(common: &Arc<Common>, identity: &Identity, name: &str, chance: &mut Chance) {
    let revision = if chance.percent(80) { "2025-11-25" } else { "2025-06-18" };
    let Some(client) = open(common, identity, name, revision).await else { return };
    let client = Arc::new(client);
    let standalone = chance.percent(25).then(|| tokio::spawn(listen(client.clone())));
    let mut followed = true;
    for _ in 0..chance.between(1, 8) {
        let left = common.until.saturating_sub(now());
        let gone = client.deleting.load(Ordering::Relaxed) || client.expired.load(Ordering::Relaxed);
        if left == 0 || gone {
            break;
        }
        // A few at a time now and then, and now and then more than a session may have.
        let at_once = match chance.below(20) {
            0 => 6,
            1..4 => chance.between(2, 3),
            _ => 1,
        };
        let mut calls = JoinSet::new();
        for _ in 0..at_once {
            let (plan, intent, after) = plan(chance, &common.tempo, left + 2_000);
            followed &= intent != Intent::Leave;
            let (client, jitter) = (client.clone(), chance.ms(0, 50));
            calls.spawn(async move {
                sleep(jitter).await;
                call::run(&client, plan, intent, after).await;
            });
        }
        while let Some(done) = calls.join_next().await {
            if let Err(panic) = done {
                client.odd(&format!("what came could not be read: {panic}"));
            }
        }
        if chance.percent(5) {
            probe(&client, chance).await;
        }
        sleep(chance.ms(0, common.tempo.longest_pause)).await;
    }
    if let Some(standalone) = standalone {
        standalone.abort();
        let _ = standalone.await;
    }
    let parting = if client.deleting.load(Ordering::Relaxed) {
        return;
    } else if chance.percent(50) {
        match client.insist("DELETE", "").await {
            Some(204 | 404) => Parting::Deleted,
            None => Parting::Left,
            Some(status) => return client.odd(&format!("DELETE was answered with {status}")),
        }
    } else if followed && chance.percent(40) && common.until > now() + common.tempo.session_ttl * 2 {
        expire(&client).await
    } else {
        Parting::Left
    };
    common.journal.note(Event::Closed { session: name.to_owned(), parting });
}

/// Leaves a session alone for longer than it lives, and sees that it is gone.
async fn expire(client: &Client) -> Parting {
    let busy = client.busy_until.load(Ordering::Relaxed).saturating_sub(now());
    sleep(Duration::from_millis(busy + client.common.tempo.session_ttl * 3 / 2 + 1_000)).await;
    let idle_ms = client.idle_ms();
    let ping = json!({ "jsonrpc": "2.0", "id": "late", "method": "ping" }).to_string();
    match client.insist("POST", &ping).await {
        Some(404) => {
            client.common.journal.note(Event::Gone { session: client.name.clone(), idle_ms });
            Parting::Expired
        }
        None => Parting::Left,
        Some(status) => {
            client.odd(&format!("a session that was not used for {idle_ms} ms answered with {status}"));
            Parting::Left
        }
    }
}

/// Tries to use what belongs to somebody else.
async fn probe(client: &Client, chance: &mut Chance) {
    let found = {
        let mut found = client.common.found.lock();
        let keep = found.len().saturating_sub(200);
        found.drain(..keep);
        let others: Vec<_> =
            found.iter().filter(|(owner, ..)| *owner != client.identity.principal).cloned().collect();
        if others.is_empty() {
            return;
        }
        others[usize::try_from(chance.below(others.len() as u64)).expect("an index")].clone()
    };
    let (_, session, cursor) = found;
    let mut headers = vec![("Mcp-Session-Id", session.as_str())];
    let ping = json!({ "jsonrpc": "2.0", "id": "probe", "method": "ping" }).to_string();
    let (method, body) = match &cursor {
        Some(cursor) => {
            headers.push(("Last-Event-ID", cursor));
            ("GET", "")
        }
        None => ("POST", ping.as_str()),
    };
    if let Ok(answer) = client.send(method, &headers, body).await {
        client.common.journal.note(Event::Probe { status: answer.status() });
    }
}

/// Reads the standalone stream until it is told to stop, resuming where it ends.
async fn listen(client: Arc<Client>) {
    let mut cursor: Option<String> = None;
    let mut retry = 500;
    loop {
        let headers: Vec<_> = cursor.iter().map(|cursor| ("Last-Event-ID", cursor.as_str())).collect();
        if let Ok(mut answer) = client.send("GET", &headers, "").await {
            match answer.status() {
                200 => {
                    while let Ok(Some(block)) = answer.try_block().await {
                        retry = block.retry.unwrap_or(retry);
                        if let Some(message) = block.message() {
                            client.hear(&message).await;
                        }
                        cursor = answer.last_id.clone().or(cursor);
                    }
                    cursor = answer.last_id.clone().or(cursor);
                }
                404 if client.deleting.load(Ordering::Relaxed) => return,
                404 if client.idle_ms() > client.common.tempo.session_ttl => return,
                429 | 503 => {}
                status => client.odd(&format!("the standalone stream was answered with {status}")),
            }
        }
        sleep(Duration::from_millis(retry)).await;
    }
}
