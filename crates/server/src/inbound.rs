//! What a client POSTs without waiting for an answer: responses to our questions, and notifications.

use crate::{
    Peer,
    core::Core,
    isolate, mailbox,
    progress::{self, Arrived},
    session::{Cancel, Session},
    sessions,
};
use bowline_proto::{
    http::Refusal,
    jsonrpc::{self as rpc, Notification, RequestId},
};
use bowline_store::Unavailable;
use std::sync::Arc;

/// For how long a cancel may have been on its way when its call ended.
const CROSSING_MS: u64 = 2_000;

/// Takes an answer to a question of ours, wherever that was asked.
///
/// # Errors
/// 503: it was not asked here, and the store is away.
pub(crate) async fn answered(core: &Core, session: &Session, response: rpc::Response) -> Result<(), Refusal> {
    let rpc::Response { id, reply } = response;
    let Err(reply) = session.answer_ask(&id, reply) else { return Ok(()) };
    if core.is_shared() && !session.stateless {
        match mailbox::send_answer(core, session, &id, &reply).await {
            Ok(true) => {
                core.metrics.letters_sent.up();
                return Ok(());
            }
            Ok(false) => {}
            Err(error) => return Err(undelivered(&error)),
        }
    }
    core.metrics.responses_unknown.up();
    Ok(())
}

fn undelivered(error: &Unavailable) -> Refusal {
    tracing::warn!(%error, "a message to a call on another backend could not be passed on");
    Refusal::unavailable("store_unavailable", 1, None)
}

/// Takes a notification.
///
/// # Errors
/// 503: it cancels a call that does not run here, and the store is away.
pub(crate) async fn notified(
    core: &Arc<Core>,
    session: &Arc<Session>,
    notification: Notification,
) -> Result<(), Refusal> {
    if session.stateless {
        return Ok(());
    }
    match &*notification.method {
        "notifications/cancelled" => {
            let id = notification.params.as_ref().and_then(|params| params.member("requestId"));
            let id = id.and_then(|id| RequestId::from_json(id.as_str()).ok());
            // Unknown, finished and doubled cancels are no errors: they cross the answer on the way.
            let elsewhere = id.filter(|id| match session.cancel_call(id, core.now()) {
                Cancel::Stopped => false,
                // A letter would stop the next call of a client that uses its ids again. Later on that call may run elsewhere already.
                Cancel::Over(since) => since >= CROSSING_MS,
                Cancel::Unknown => true,
            });
            if let Some(id) = elsewhere
                && core.is_shared()
            {
                let sent = mailbox::send_cancel(core, session, &id, &notification).await;
                sent.map_err(|error| undelivered(&error))?;
                core.metrics.letters_sent.up();
            }
            return Ok(());
        }
        "notifications/progress" if core.is_shared() => {
            match progress::arrived(core, session, &notification).await {
                Arrived::Here(notification) => {
                    isolate::run(core, || core.handler.notified(&Peer::new(core, session), notification));
                    return Ok(());
                }
                Arrived::Elsewhere => return Ok(()),
                Arrived::Unknown => {}
            }
        }
        "notifications/initialized" => {
            session.set_initialized();
            session.change(core, |record| record.initialized = true);
        }
        _ => {}
    }
    sessions::adopt(core, session);
    isolate::run(core, || core.handler.notified(&Peer::new(core, session), notification));
    Ok(())
}
