//! Progress that a client tells of while it answers a question of ours (SEMANTICS 6).
//!
//! It names the question by a progress token, which whoever asked has chosen, and it may come to any backend. So where several share a
//! store the client sees the id of the question as its token: that says where it was asked. Whoever asked gets its own token back.

use crate::{
    Peer,
    core::Core,
    isolate,
    mailbox::{self, Reader},
    session::Session,
};
use bowline_proto::jsonrpc::{Message, Notification, Raw, RequestId, parse_message};
use std::{convert::Infallible, sync::Arc};

/// What became of a client's progress.
pub(crate) enum Arrived {
    /// It is about a question that was asked here; under the token of whoever asked.
    Here(Notification),
    /// It was passed on to the backend that asked.
    Elsewhere,
    /// It is about no question of ours.
    Unknown,
}

/// The progress token in the parameters of a question, a string or a number.
pub(crate) fn token(params: &Raw) -> Option<Raw> {
    params.member("_meta")?.member("progressToken")
}

/// These parameters with the id of their question as the token.
pub(crate) fn under(params: &Raw, id: &RequestId) -> Option<Raw> {
    let meta =
        params.member("_meta")?.with_member("progressToken", &Raw::from_trusted(id.to_json().into()))?;
    params.with_member("_meta", &meta)
}

/// Finds out what a client's progress is about.
pub(crate) async fn arrived(core: &Core, session: &Session, notification: &Notification) -> Arrived {
    let Some(id) = named(notification) else { return Arrived::Unknown };
    if let Some(here) = translated(session, &id, notification) {
        return Arrived::Here(here);
    }
    // One that is over is no question of anybody's; its letter ends by itself.
    if mailbox::send_progress(core, session, &id, notification).await {
        core.metrics.letters_sent.up();
        return Arrived::Elsewhere;
    }
    Arrived::Unknown
}

/// Hands what other backends pass on about a question that waits here to the handler, for as long as it is polled.
pub(crate) async fn hear(core: &Arc<Core>, session: &Arc<Session>, question: Option<&str>) -> Infallible {
    let Some(question) = question else { return std::future::pending().await };
    let mut reader = Reader::open(core, mailbox::of_progress(question));
    loop {
        let letters = reader.next().await;
        reader.empty().await;
        for letter in letters {
            if let Ok(Message::Notification(notification)) = parse_message(letter.payload)
                && let Some(notification) = translated(session, question, &notification)
            {
                isolate::run(core, || core.handler.notified(&Peer::new(core, session), notification));
            }
        }
    }
}

/// The id of a question that progress names.
fn named(notification: &Notification) -> Option<String> {
    notification.params.as_ref()?.member("progressToken")?.string()
}

/// Progress of the question `id`, which waits here, under the token of whoever asked.
fn translated(session: &Session, id: &str, notification: &Notification) -> Option<Notification> {
    let token = session.progress_of_ask(id)?;
    let params = notification.params.as_ref()?.with_member("progressToken", &token)?;
    Some(Notification::new(notification.method.clone(), Some(params)))
}
