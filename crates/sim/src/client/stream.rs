//! Reading a stream of events, and coming back to it.

use super::{Answer, Session, said};
use crate::{
    plan::Model,
    trace::{Purpose, Said, What, digest},
    world::World,
};
use bowline_proto::sse::{Decoder, Limits};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Where a client is in one stream.
pub(crate) struct Place {
    pub(crate) cursor: Option<String>,
    /// What it was last told to wait; `None` where it was not.
    pub(crate) retry: Option<Duration>,
    /// Failed polls in a row.
    pub(crate) failures: u32,
    pub(crate) polls: u32,
    /// Polls in a row without a new id.
    same: u32,
}

impl Place {
    pub(crate) const fn new() -> Self {
        Self { cursor: None, retry: None, failures: 0, polls: 0, same: 0 }
    }

    /// How long the client waits before it comes back.
    pub(crate) fn wait(&self, model: Model) -> Duration {
        let told = self.retry.unwrap_or(Duration::from_secs(1));
        match model {
            Model::Rmcp => told.max(Duration::from_secs(1 << self.failures.min(3))),
            _ => told,
        }
    }

    /// Whether a client of this model gives up: too many polls have failed.
    pub(crate) fn is_given_up(&self, model: Model) -> bool {
        model.failures().is_some_and(|most| self.failures >= most) || (model == Model::Go && self.same >= 5)
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With the answer of the request.
    Answered,
    /// By the server's own will.
    Closed,
    /// It broke.
    Broken,
}

/// Reads one connection to its end.
pub(crate) async fn read(
    world: &Arc<World>,
    session: &Arc<Session>,
    mut answer: Answer,
    purpose: Purpose,
    request: Option<u64>,
    place: &mut Place,
) -> Ended {
    let presented = place.cursor.clone();
    if presented.is_some() {
        let cursor = presented.as_deref().and_then(|id| world.decode(&session.id, session.client, id));
        world.trace.note(What::Presented { connection: answer.connection, purpose, cursor });
    }
    let mut decoder = Decoder::new(Limits::default());
    let mut shows_id = false;
    let mut answered = false;
    let clean = loop {
        let chunk = match answer.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break true,
            Err(()) => break false,
        };
        let mut bytes = &chunk[..];
        while let Ok(Some(event)) = decoder.next_event(&mut bytes) {
            let id = event.id.as_deref().filter(|_| event.sets_id);
            let position = id.and_then(|id| world.decode(&session.id, session.client, id));
            let said = event.message().map_or(Said::Nothing, said::read);
            world.trace.note(What::Event {
                connection: answer.connection,
                purpose,
                id: position,
                bad_id: id.is_some() && position.is_none(),
                said: said.clone(),
                digest: event.message().map_or(0, |text| digest(text.as_bytes())),
                retry: event.retry_ms,
            });
            if let Some(id) = id {
                shows_id = true;
                place.cursor = Some(id.to_owned());
                session.saw(id);
            }
            if let Some(retry) = event.retry_ms {
                place.retry = Some(Duration::from_millis(retry));
            }
            match said {
                Said::Question { call } => {
                    if let Some(question) = event.message().and_then(|text| serde_json::from_str(text).ok()) {
                        tokio::spawn(answer_question(session.clone(), question, call));
                    }
                }
                Said::Result { request: of, .. } | Said::Error { request: of, .. } if Some(of) == request => {
                    answered = true;
                }
                _ => {}
            }
        }
        if answered {
            break true;
        }
    };
    let injured = answer.was_injured();
    world.trace.note(What::Over { connection: answer.connection, purpose, clean, injured });
    if place.cursor == presented && presented.is_some() {
        place.same += 1;
    } else {
        place.same = 0;
    }
    // Its cursor is the connection's, and not the stream's.
    if session.model == Model::TypeScript && !shows_id {
        place.cursor = None;
    }
    match (answered, clean) {
        (true, _) => Ended::Answered,
        (false, true) => Ended::Closed,
        (false, false) => Ended::Broken,
    }
}

/// Answers a question, at whichever backend.
async fn answer_question(session: Arc<Session>, question: Value, call: u64) {
    let body = json!({
        "jsonrpc": "2.0", "id": question["id"],
        "result": { "action": "accept", "content": { "call": call } },
    });
    session.tell(&body, 3).await;
}

/// Reads the standalone stream for as long as the session lives.
pub(crate) async fn listen(world: Arc<World>, session: Arc<Session>) {
    let over = session.over.notified();
    let reading = async {
        let purpose = Purpose::Standalone(session.number);
        let mut place = Place::new();
        loop {
            let answer = session.send(purpose, "GET", place.cursor.as_deref(), None).await;
            match answer {
                Some(answer) if answer.status == 200 && answer.is_stream() => {
                    place.failures = 0;
                    read(&world, &session, answer, purpose, None, &mut place).await;
                }
                Some(answer) if answer.status == 404 && !answer.proxy => return,
                Some(answer) if answer.status == 204 => return,
                _ => place.failures += 1,
            }
            tokio::time::sleep(place.wait(session.model)).await;
        }
    };
    tokio::select! {
        biased;
        () = over => {}
        () = reading => {}
    }
}
