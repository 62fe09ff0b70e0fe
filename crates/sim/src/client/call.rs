//! One call, from its POST to its end.

use super::{
    Session, said,
    stream::{Ended, Place, read},
};
use crate::{
    handler::parameters,
    plan::{CallPlan, Model},
    trace::{Left, Purpose, Said, What, digest},
    world::World,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// How many polls of one call a client on the Python SDK survives.
const BUDGET: u32 = 960;

/// Makes a call and waits for its end, as its client would.
pub(crate) async fn make(world: Arc<World>, session: Arc<Session>, plan: CallPlan) {
    let call = world.next_call();
    let request = session.next_request();
    world.trace.note(What::Called {
        call,
        request,
        session: session.number,
        client: session.client,
        repeatable: plan.repeatable,
    });
    let calling = follow(&world, &session, call, request, &plan);
    let Some(cancelled) = plan.cancelled else {
        if let Some(why) = calling.await {
            world.trace.note(What::Left { call, why });
        }
        return;
    };
    let left = tokio::select! {
        biased;
        left = calling => left,
        () = tokio::time::sleep(Duration::from_millis(cancelled)) => {
            let body = json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": request },
            });
            let taken = session.tell(&body, 3).await;
            world.trace.note(What::CancelSent { call, taken });
            Some(Left::Cancelled)
        }
    };
    if let Some(why) = left {
        world.trace.note(What::Left { call, why });
    }
}

/// Returns why there was no answer, if there was none.
async fn follow(
    world: &Arc<World>,
    session: &Arc<Session>,
    call: u64,
    request: u64,
    plan: &CallPlan,
) -> Option<Left> {
    let purpose = Purpose::Call(call);
    let body = json!({
        "jsonrpc": "2.0", "id": request, "method": "tools/call", "params": parameters(call, plan),
    });
    let mut place = Place::new();
    let Some(mut answer) = session.send(purpose, "POST", None, Some(&body)).await else {
        return Some(Left::NoId);
    };
    if answer.status != 200 {
        return Some(if answer.status == 404 && session.is_deleted() {
            Left::Deleted
        } else {
            Left::Refused(answer.status)
        });
    }
    if !answer.is_stream() {
        let (connection, body) = (answer.connection, answer.body().await);
        let injured = answer.was_injured();
        world.trace.note(What::Over { connection, purpose, clean: body.is_ok(), injured });
        let Ok(body) = body else { return Some(Left::NoId) };
        let said = said::read(&String::from_utf8_lossy(&body));
        let done = matches!(&said, Said::Result { request: of, .. } | Said::Error { request: of, .. } if *of == request);
        let digest = digest(&body);
        world.trace.note(What::Event {
            connection,
            purpose,
            id: None,
            bad_id: false,
            said,
            digest,
            retry: None,
        });
        return (!done).then_some(Left::Nothing);
    }
    let mut ended = read(world, session, answer, purpose, Some(request), &mut place).await;
    loop {
        match ended {
            Ended::Answered => return None,
            Ended::Closed | Ended::Broken if place.cursor.is_none() => {
                if session.is_deleted() {
                    return Some(Left::Deleted);
                }
                return Some(if place.polls == 0 { Left::NoId } else { Left::Cursor });
            }
            Ended::Closed | Ended::Broken => {}
        }
        // Polls until one of them is answered with a stream.
        ended = loop {
            if place.is_given_up(session.model) {
                return Some(Left::Polls);
            }
            tokio::time::sleep(place.wait(session.model)).await;
            place.polls += 1;
            if session.model == Model::Python && place.polls > BUDGET {
                return Some(Left::Budget);
            }
            let Some(answer) = session.send(purpose, "GET", place.cursor.as_deref(), None).await else {
                place.failures += 1;
                continue;
            };
            match answer.status {
                200 if answer.is_stream() => {
                    place.failures = 0;
                    break read(world, session, answer, purpose, Some(request), &mut place).await;
                }
                204 if session.is_deleted() => return Some(Left::Deleted),
                204 => return Some(Left::Nothing),
                404 if session.is_deleted() => return Some(Left::Deleted),
                404 if !answer.proxy => return Some(Left::PollRefused(404)),
                _ => place.failures += 1,
            }
        };
    }
}
