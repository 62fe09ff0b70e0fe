//! What a client POSTs to one backend for a call that runs on another (SEMANTICS 6): answers to our questions, and cancels.
//!
//! Each call of a session has a mailbox whose name follows from the session's id and the request's, so that nothing has to be looked up
//! and a cancel can be there before the call says anything. The ids of our questions carry that name under a MAC. A question beside any
//! call has a mailbox of its own.

use crate::{
    CancelReason,
    call::CallState,
    config::ResponseMode,
    core::Core,
    fleet::{BACKSTOP, patiently},
    session::Session,
};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{self as rpc, Message, Notification, Reply, RequestId, parse_message},
};
use bowline_store::{Letter, Unavailable};
use std::{sync::Arc, time::Duration};

/// Fixed for ever: with another text here, backends of two versions would not find each other's mailboxes.
const CONTEXT: &str = "bowline 2026-12 mailbox of a call";

/// The same for the mailbox of the progress of a question.
const PROGRESS: &str = "bowline 2026-12 progress of a question";

/// How long progress waits for the backend that asked: longer than that takes to look without being told.
const KEEP_PROGRESS: Duration = Duration::from_secs(30);

/// How long an answer waits for the backend that asked.
const KEEP_ANSWER: Duration = Duration::from_secs(600);

/// How long a cancel waits for a call that has not said anything yet. Not longer than it takes to be found for certain: it may be for a
/// call that is over, and a client that uses an id again has to be forgiven.
const KEEP_CANCEL: Duration = Duration::from_secs(30);

/// What a cancel is deduplicated by.
pub(crate) const CANCEL: &str = "cancel";

/// The mailbox of a call.
pub(crate) fn of_call(session: &str, request: &RequestId) -> StreamId {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&(session.len() as u64).to_le_bytes());
    hasher.update(session.as_bytes());
    hasher.update(request.to_json().as_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    StreamId::from_bytes(bytes)
}

/// The mailbox of the progress that a client tells of while it answers a question. One of its own: however much there is, the answer has room.
pub(crate) fn of_progress(question: &str) -> StreamId {
    let mut hasher = blake3::Hasher::new_derive_key(PROGRESS);
    hasher.update(question.as_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    StreamId::from_bytes(bytes)
}

/// Sends an answer to whoever asked, on another backend. Returns whether it may be an answer to one of our questions.
pub(crate) async fn send_answer(
    core: &Core,
    session: &Session,
    id: &RequestId,
    reply: &Reply,
) -> Result<bool, Unavailable> {
    let RequestId::String(text) = id else { return Ok(false) };
    let Ok(token) = session.tokens(core).parse(text) else { return Ok(false) };
    let letter = core.store.put_letter(token.stream, text, reply.to_bytes(id), KEEP_ANSWER);
    patiently(letter).await.map(|_| true)
}

/// Sends a cancel to the call, wherever it runs.
pub(crate) async fn send_cancel(
    core: &Core,
    session: &Session,
    id: &RequestId,
    notification: &Notification,
) -> Result<(), Unavailable> {
    let mailbox = of_call(&session.id, id);
    patiently(core.store.put_letter(mailbox, CANCEL, notification.to_bytes(), KEEP_CANCEL)).await.map(drop)
}

/// Sends progress of the client's to the backend whose question has the id `id`. What is one too many is dropped, as it is told again.
///
/// Returns whether `id` is that of one of our questions.
pub(crate) async fn send_progress(
    core: &Core,
    session: &Session,
    id: &str,
    notification: &Notification,
) -> bool {
    if session.tokens(core).parse(id).is_err() {
        return false;
    }
    let key = format!("{:016x}", crate::random::word());
    let letter = core.store.put_letter(of_progress(id), &key, notification.to_bytes(), KEEP_PROGRESS);
    if let Err(error) = patiently(letter).await {
        tracing::debug!(%error, "progress of a client could not be passed on");
    }
    true
}

/// Reads the letters of one mailbox as they come.
pub(crate) struct Reader<'a> {
    core: &'a Core,
    mailbox: StreamId,
    wakeups: bowline_store::Wakeups,
    after: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn open(core: &'a Core, mailbox: StreamId) -> Self {
        // Subscribed before anything is read, so that nothing falls in between.
        Self { core, mailbox, wakeups: core.store.subscribe(mailbox), after: 0 }
    }

    /// Empties the mailbox, so that there is room. What came since the last look is lost.
    pub(crate) async fn empty(&mut self) {
        if patiently(self.core.store.drop_mailbox(self.mailbox)).await.is_ok() {
            self.after = 0;
        }
    }

    /// What came since. Waits for it.
    pub(crate) async fn next(&mut self) -> Vec<Letter> {
        loop {
            match self.core.store.letters_after(self.mailbox, self.after).await {
                Ok(letters) => {
                    if let Some(newest) = letters.last() {
                        self.after = newest.number;
                        return letters;
                    }
                }
                Err(error) => tracing::debug!(%error, "a mailbox cannot be read now"),
            }
            tokio::select! {
                () = self.wakeups.changed() => {}
                () = tokio::time::sleep(BACKSTOP) => {}
            }
        }
    }
}

/// Reads the mailbox of a call from when it first says something or is left alone, for as long as the call runs.
pub(crate) async fn serve(call: &CallState) {
    let shared = call.core.is_shared() && !call.session.stateless;
    if !shared {
        return std::future::pending().await;
    }
    // A client that went away may have cancelled it elsewhere, and so may one that waits for plain JSON. Where there is a stream after the
    // hold, that is the sign that the call is none of the quick ones, for which the store is not asked.
    let hold = async {
        match call.core.options.response {
            ResponseMode::Json => tokio::time::sleep(call.core.options.json_hold).await,
            ResponseMode::Auto | ResponseMode::Sse => std::future::pending().await,
        }
    };
    tokio::select! {
        () = call.wait_unquiet() => {}
        () = hold => {}
    }
    let mut reader = Reader::open(&call.core, call.mailbox());
    let mut used = None;
    loop {
        for letter in reader.next().await {
            used.get_or_insert_with(|| Used::new(&call.core, call.mailbox()));
            match parse_message(letter.payload) {
                Ok(Message::Response(rpc::Response { id, reply })) => {
                    if call.session.answer_ask(&id, reply).is_err() {
                        call.core.metrics.responses_unknown.up();
                    }
                }
                Ok(Message::Notification(_)) if letter.key == CANCEL => call.cancel(CancelReason::Client),
                _ => tracing::warn!("a letter to a call is none that a backend writes"),
            }
        }
    }
}

/// Drops a mailbox that was used when its call is over, so that it meets no later call that has the same id.
pub(crate) struct Used<'a> {
    core: &'a Arc<Core>,
    mailbox: StreamId,
}

impl<'a> Used<'a> {
    pub(crate) const fn new(core: &'a Arc<Core>, mailbox: StreamId) -> Self {
        Self { core, mailbox }
    }
}

impl Drop for Used<'_> {
    fn drop(&mut self) {
        drop_box(self.core.clone(), self.mailbox);
    }
}

fn drop_box(core: Arc<Core>, mailbox: StreamId) {
    if core.store.drop_mailbox(mailbox).now().is_some() {
        return;
    }
    // Futures can be dropped where no runtime is left.
    if tokio::runtime::Handle::try_current().is_ok() {
        crate::task::spawn(async move {
            if let Err(error) = core.store.drop_mailbox(mailbox).await {
                tracing::debug!(%error, "a mailbox could not be dropped; it ends by itself");
            }
        });
    }
}

/// Reads the mailbox of one question until its answer is there, and hands that to who waits for it.
pub(crate) async fn serve_question(core: &Arc<Core>, session: &Session, mailbox: StreamId) {
    if !core.is_shared() {
        return std::future::pending().await;
    }
    let mut reader = Reader::open(core, mailbox);
    loop {
        for letter in reader.next().await {
            if let Ok(Message::Response(rpc::Response { id, reply })) = parse_message(letter.payload) {
                drop_box(core.clone(), mailbox);
                let _ = session.answer_ask(&id, reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_its_calls_alone() {
        let of = |session: &str, id: RequestId| of_call(session, &id);
        assert_eq!(of("s", 1_u64.into()), of("s", 1_u64.into()));
        let all = [
            of("s", 1_u64.into()),
            of("s", 2_u64.into()),
            of("s", RequestId::String("1".into())),
            of("t", 1_u64.into()),
            of("s1", RequestId::String("".into())),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
        assert_eq!(format!("{:?}", of("session", 7_u64.into())).len(), 32);
    }
}
