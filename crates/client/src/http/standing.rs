//! The session's standalone stream (GET), kept as long as the session: SEMANTICS 7.7.

use super::{
    Http,
    body::{drain, has_type, retry_after},
};
use crate::{
    Peer,
    core::{Core, Link, random},
};
use bowline_proto::{
    client::{Standalone, StandaloneAction, StreamEnd},
    jsonrpc::{Body, Message, parse},
    sse::Decoder,
};
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::sync::{Arc, atomic::Ordering};
use tokio::sync::watch;

impl Http {
    /// Starts the stream that belongs to no call, in place of an earlier one. Becomes true when the server answered.
    pub(crate) fn start_standing(
        &self,
        core: &Arc<Core>,
        peer: &Arc<Peer>,
        first: bool,
    ) -> watch::Receiver<bool> {
        let (answered, receiver) = watch::channel(false);
        if !core.options.standalone {
            answered.send_replace(true);
            return receiver;
        }
        if first {
            self.get_was_404.store(false, Ordering::Relaxed);
        }
        let (core, peer) = (Arc::clone(core), Arc::clone(peer));
        let keeper = Arc::clone(&core);
        let task = tokio::spawn(async move {
            let Link::Http(http) = &core.link else { return };
            if peer.modern {
                http.keep_listening(&core, &peer, &answered).await;
            } else {
                http.keep_standalone(&core, &peer, &answered).await;
            }
            answered.send_replace(true);
        });
        keeper.set_standing(task.abort_handle());
        receiver
    }

    async fn keep_standalone(&self, core: &Arc<Core>, peer: &Arc<Peer>, answered: &watch::Sender<bool>) {
        let may_mean_session = !self.get_was_404.load(Ordering::Relaxed);
        let mut stream = Standalone::new(core.options.reconnect, peer.session.is_some(), may_mean_session);
        let mut presented: Option<String> = None;
        loop {
            let action = match self.get(core, peer, presented.as_deref()).await {
                Ok(response) => {
                    answered.send_replace(true);
                    let is_stream = has_type(response.headers(), "text/event-stream");
                    let (status, later) = (response.status().as_u16(), retry_after(response.headers()));
                    match stream.on_status(core.now(), status, is_stream, later, random()) {
                        StandaloneAction::Read => {
                            self.get_was_404.store(false, Ordering::Relaxed);
                            let end = read(core, &mut stream, response, presented.as_deref()).await;
                            stream.on_end(core.now(), end, random())
                        }
                        action => {
                            tracing::debug!(status, ?action, "no standalone stream");
                            drain(response);
                            action
                        }
                    }
                }
                Err(_) => stream.on_end(core.now(), StreamEnd::Error, random()),
            };
            match action {
                StandaloneAction::Open { at, last_event_id } => {
                    core.sleep_until(at).await;
                    presented = last_event_id;
                }
                StandaloneAction::SessionGone => {
                    // A success starts a task of its own in place of this one.
                    self.get_was_404.store(true, Ordering::Relaxed);
                    drop(core.renew(peer.generation).await);
                    if core.peer().is_some_and(|now| now.generation != peer.generation) {
                        return;
                    }
                    // Nobody answers yet: the next look comes with a wait.
                    let StandaloneAction::Open { at, .. } =
                        stream.on_end(core.now(), StreamEnd::Error, random())
                    else {
                        return;
                    };
                    core.sleep_until(at).await;
                }
                StandaloneAction::Off | StandaloneAction::Read => return,
            }
        }
    }
}

async fn read(
    core: &Arc<Core>,
    stream: &mut Standalone,
    response: Response<Incoming>,
    presented: Option<&str>,
) -> StreamEnd {
    let mut decoder = Decoder::resuming(core.options.sse, presented);
    let mut body = response.into_body();
    loop {
        let data = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(_)) => return StreamEnd::Error,
            None => return StreamEnd::Graceful,
        };
        let mut rest = &data[..];
        loop {
            let event = match decoder.next_event(&mut rest) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "the standalone stream cannot be read on");
                    return StreamEnd::Error;
                }
            };
            let id = event.id.as_deref().filter(|_| event.sets_id);
            if stream.on_event(id, event.message(), event.retry_ms)
                && let Some(text) = event.message()
            {
                hear(core, Bytes::copy_from_slice(text.as_bytes())).await;
            }
        }
    }
}

/// A message that belongs to no call.
pub(super) async fn hear(core: &Arc<Core>, text: Bytes) {
    let messages: Vec<Message> = match parse(text) {
        Ok(Body::Single(message)) => vec![message],
        Ok(Body::Batch(messages)) => messages.into_iter().flatten().collect(),
        Err(error) => {
            core.tell_noise(&error);
            return;
        }
    };
    for message in messages {
        core.hear(message, None, None).await;
    }
}
