//! A typed listen stream over HTTP: [`Client::listen`](crate::Client::listen).

use super::{
    Http,
    body::{Refusal, drain, has_type, retry_after, whole},
    exchange::{server_error, unauthorized},
    told::{Came, Told},
};
use crate::{
    CallError, Peer,
    core::{Core, random},
    listening::{Route, no_listening, stopping},
};
use bowline_proto::{
    client::{Standalone, StandaloneAction, StreamEnd},
    jsonrpc::{Message, RequestId, parse_message},
};
use http::Response;
use hyper::body::Incoming;
use std::sync::Arc;
use tokio::sync::watch;

/// How a stream ended.
enum Ended {
    /// It broke off, or the server closed it or said goodbye.
    Stream(StreamEnd),
    Refused(CallError),
}

impl Http {
    /// Keeps a listen stream open. Returns why there will be none any more; `None`: it was stopped, whose end of the connection says so.
    pub(crate) async fn keep_subscription(
        &self,
        core: &Arc<Core>,
        route: &Route,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<CallError> {
        tokio::select! {
            () = stopping(stopped) => None,
            error = self.subscribe_for_good(core, route) => Some(error),
        }
    }

    async fn subscribe_for_good(&self, core: &Arc<Core>, route: &Route) -> CallError {
        let mut stream = Standalone::new(core.options.reconnect, false, false);
        loop {
            let Some(peer) = core.peer() else { return CallError::Closed };
            if !peer.modern {
                return no_listening(&peer.revision);
            }
            let ended = self.subscribe_once(core, &peer, route, &mut stream).await;
            let action = match ended {
                Ok(action) => action,
                Err(error) => return error,
            };
            let StandaloneAction::Open { at, .. } = action else {
                return CallError::transport("the server has no stream to listen to any more");
            };
            core.sleep_until(at).await;
        }
    }

    /// One connection from its begin to its end; what to do next, or why it is over.
    async fn subscribe_once(
        &self,
        core: &Arc<Core>,
        peer: &Peer,
        route: &Route,
        stream: &mut Standalone,
    ) -> Result<StandaloneAction, CallError> {
        let id = core.next_id();
        let response = match self.open_listen(core, peer, &id, &route.filter.to_raw()).await {
            Ok(response) => response,
            // Whoever waits for the first answer is told; later ones are waited for.
            Err(fail) if !route.is_open() => return Err(CallError::transport(fail.into_message())),
            Err(_) => return Ok(stream.on_end(core.now(), StreamEnd::Error, random())),
        };
        let is_stream = has_type(response.headers(), "text/event-stream");
        let (status, later) = (response.status().as_u16(), retry_after(response.headers()));
        if response.status().is_success() && !is_stream {
            // An answer, and no stream: nothing will be told.
            return Err(plain_answer(core, response, &id).await);
        }
        match stream.on_status(core.now(), status, is_stream, later, random()) {
            StandaloneAction::Read => match read(core, route, stream, response, &id).await {
                Ended::Stream(_) if !route.is_open() => {
                    Err(CallError::transport("the stream ended before the server said what it will tell of"))
                }
                Ended::Stream(end) => Ok(stream.on_end(core.now(), end, random())),
                Ended::Refused(error) => Err(error),
            },
            action if route.is_open() && matches!(action, StandaloneAction::Open { .. }) => {
                drain(response);
                Ok(action)
            }
            _ => {
                let refusal = Refusal::read(response, &id).await;
                let said = refusal.error.as_ref().map(|error| CallError::Protocol(error.clone()));
                Err(unauthorized(core, &refusal).or(said).unwrap_or_else(|| {
                    CallError::transport(format!(
                        "the server answered subscriptions/listen with status {status}"
                    ))
                }))
            }
        }
    }
}

/// What an answer says that is no stream.
async fn plain_answer(core: &Core, response: Response<Incoming>, id: &RequestId) -> CallError {
    let body = whole(response.into_body(), core.options.max_body_bytes).await;
    let message = body.ok().and_then(|body| parse_message(body).ok());
    match message {
        Some(Message::Response(response)) if response.id == *id => match response.reply.into_result() {
            Err(error) => server_error(error),
            Ok(_) => CallError::transport("the server ended the stream before it said what it will tell of"),
        },
        _ => {
            CallError::transport("the server answered subscriptions/listen with something that is no stream")
        }
    }
}

async fn read(
    core: &Arc<Core>,
    route: &Route,
    stream: &mut Standalone,
    response: Response<Incoming>,
    id: &RequestId,
) -> Ended {
    let mut told = Told::new(core.options.sse, response, id.clone());
    loop {
        match told.next(stream).await {
            Came::Message(_, Ok(Message::Notification(note))) => route.hear(core, &note),
            Came::Message(_, Ok(_)) => {}
            Came::Message(_, Err(error)) => core.tell_noise(&error),
            Came::Answer(Err(error)) => return Ended::Refused(server_error(error)),
            Came::Answer(Ok(_)) => return Ended::Stream(StreamEnd::Graceful),
            Came::End(end) => return Ended::Stream(end),
        }
    }
}
