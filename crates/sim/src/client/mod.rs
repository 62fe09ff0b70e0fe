//! Clients: their sessions, what they call, and how they come back.

mod call;
mod http;
mod said;
mod stream;
mod trespass;

use self::http::{Answer, Send, send};
use crate::{
    plan::{ClientPlan, Model},
    trace::{Purpose, What},
    world::World,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// How often what is not a call is tried.
const TRIES: usize = 40;

/// One session of a client.
pub(crate) struct Session {
    world: Arc<World>,
    pub(crate) client: usize,
    pub(crate) model: Model,
    pub(crate) number: usize,
    pub(crate) id: String,
    requests: AtomicU64,
    /// The client has begun to end it.
    pub(crate) deleted: AtomicBool,
    /// It is told that the session is gone.
    lost: AtomicBool,
    over: Notify,
}

impl Session {
    pub(crate) async fn send(
        &self,
        purpose: Purpose,
        method: &'static str,
        cursor: Option<&str>,
        body: Option<&Value>,
    ) -> Option<Answer> {
        let what = Send {
            method,
            session: Some(&self.id),
            revision: self.model.revision(),
            cursor,
            body,
            deleted: Some(&self.deleted),
            own: true,
        };
        let answer = send(&self.world, self.client, purpose, what).await;
        if let Some(answer) = &answer
            && answer.status == 404
            && !answer.proxy
        {
            self.lost.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Sends a message that is answered with 202, until it is; returns whether it was.
    pub(crate) async fn tell(&self, body: &Value, tries: usize) -> bool {
        for _ in 0..tries {
            match self.send(Purpose::Other, "POST", None, Some(body)).await {
                Some(answer) if answer.status == 202 => return true,
                Some(answer) if answer.status == 404 && !answer.proxy => return false,
                _ => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
        false
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Relaxed)
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes the newest cursor.
    pub(crate) fn saw(&self, cursor: &str) {
        self.world.seen.lock()[self.client] = Some((self.id.clone(), cursor.to_owned()));
    }
}

/// A client from when it comes to when it has everything that it called for.
pub(crate) async fn live(world: Arc<World>, client: usize) {
    let plan = world.plan.clients[client].clone();
    tokio::time::sleep(Duration::from_millis(plan.begins)).await;
    let Some(mut session) = begin(&world, client, &plan).await else { return };
    let came = Instant::now();
    let mut others = Vec::new();
    if plan.trespasses {
        others.push(tokio::spawn(trespass::try_all(world.clone(), session.clone())));
    }
    if let Some(after) = plan.deletes.filter(|after| *after != u64::MAX) {
        let session = session.clone();
        others.push(tokio::spawn(async move {
            tokio::time::sleep_until(came + Duration::from_millis(after)).await;
            end(&session).await;
        }));
    }
    let mut calls = Vec::new();
    for call in plan.calls {
        tokio::time::sleep(Duration::from_millis(call.gap)).await;
        if session.is_lost() && !session.is_deleted() {
            // One session after another, as the contract of a client says.
            match begin(&world, client, &world.plan.clients[client]).await {
                Some(next) => session = next,
                None => break,
            }
        }
        if session.is_deleted() {
            break;
        }
        calls.push(tokio::spawn(call::make(world.clone(), session.clone(), call)));
    }
    for task in calls {
        task.await.expect("clients do not panic");
    }
    if plan.deletes == Some(u64::MAX) {
        end(&session).await;
    }
    for task in others {
        task.await.expect("clients do not panic");
    }
    session.over.notify_waiters();
}

/// Starts a session, however long it takes.
async fn begin(world: &Arc<World>, client: usize, plan: &ClientPlan) -> Option<Arc<Session>> {
    let body = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": plan.model.revision(),
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": format!("{:?}", plan.model), "version": "1" },
        },
    });
    for _ in 0..TRIES * 2 {
        let what = Send {
            method: "POST",
            session: None,
            revision: plan.model.revision(),
            cursor: None,
            body: Some(&body),
            deleted: None,
            own: true,
        };
        if let Some(mut answer) = send(world, client, Purpose::Other, what).await
            && answer.status == 200
            && let Some(id) = answer.header("mcp-session-id").map(str::to_owned)
            && answer.body().await.is_ok()
        {
            let session = Arc::new(Session {
                world: world.clone(),
                client,
                model: plan.model,
                number: world.next_session(),
                id,
                requests: AtomicU64::new(0),
                deleted: AtomicBool::new(false),
                lost: AtomicBool::new(false),
                over: Notify::new(),
            });
            world.trace.note(What::Session { session: session.number, client });
            session.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), 3).await;
            if plan.listens {
                tokio::spawn(stream::listen(world.clone(), session.clone()));
            }
            return Some(session);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    None
}

/// Ends a session, and looks whether it has ended everywhere.
async fn end(session: &Arc<Session>) {
    session.deleted.store(true, Ordering::Relaxed);
    let mut taken = false;
    for _ in 0..TRIES {
        match session.send(Purpose::Other, "DELETE", None, None).await {
            Some(answer) if answer.status == 204 => {
                taken = true;
                break;
            }
            Some(answer) if answer.status == 404 && !answer.proxy => break,
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
    session.world.trace.note(What::DeleteSent { session: session.number, taken });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let ping = json!({ "jsonrpc": "2.0", "id": session.next_request(), "method": "ping" });
    for _ in 0..3 {
        let _ = session.send(Purpose::Other, "POST", None, Some(&ping)).await;
    }
    session.over.notify_waiters();
}
