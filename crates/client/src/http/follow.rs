//! The answer to a POST, over any number of connections: SEMANTICS 7.1 to 7.3.

use super::{
    Fail, Http,
    body::{drain, has_type, retry_after, whole},
};
use crate::{
    Peer,
    core::{Core, random},
    ctx::Ctx,
};
use bowline_proto::{
    client::{Action, CallStream, ClientError, ClientErrorKind, ResumePlace, StreamEnd},
    jsonrpc::{ErrorObject, Message, Raw, Reply, RequestId},
    sse::Decoder,
};
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::sync::Arc;

/// What to do after the machine was told something.
enum Next {
    ReadOn,
    Reconnect(bowline_proto::time::Millis, String),
    Over(Result<Reply, ClientError>),
}

impl Http {
    /// Follows the answer to the request `id` until its response.
    pub(super) async fn follow(
        &self,
        core: &Arc<Core>,
        peer: &Arc<Peer>,
        ctx: &Arc<Ctx>,
        id: &RequestId,
        response: Response<Incoming>,
    ) -> Result<Reply, ClientError> {
        let policy = core.options.reconnect;
        let stream = if peer.modern {
            CallStream::unresumable(policy, id.clone())
        } else {
            CallStream::new(policy, id.clone())
        };
        self.follow_stream(core, peer, ctx, id, stream, Some(response)).await
    }

    /// Follows a stream: from the answer that is there, or from its first resume.
    pub(crate) async fn follow_stream(
        &self,
        core: &Arc<Core>,
        peer: &Arc<Peer>,
        ctx: &Arc<Ctx>,
        id: &RequestId,
        mut stream: CallStream,
        mut response: Option<Response<Incoming>>,
    ) -> Result<Reply, ClientError> {
        let mut presented: Option<String> = None;
        loop {
            if let Some(response) = response.take()
                && let Some(over) =
                    self.read(core, peer, ctx, id, &mut stream, response, presented.as_deref()).await
            {
                return over;
            }
            let (at, last_event_id) = match act(core, ctx, id, &mut stream).await {
                Next::Reconnect(at, last_event_id) => (at, last_event_id),
                Next::Over(over) => return over,
                // Neither over nor to be resumed: the machine does not do that.
                Next::ReadOn => return Err(lost()),
            };
            core.sleep_until(at).await;
            match self.get(core, peer, Some(&last_event_id)).await {
                Ok(answer) => response = Some(answer),
                Err(Fail::Unreachable(_) | Fail::Lost(_)) => {
                    stream.on_end(core.now(), StreamEnd::Error, random());
                }
                Err(Fail::Redirect(reason)) => return Err(resume_refused(reason)),
                Err(Fail::Auth(error)) => return Err(resume_refused(error.to_string())),
            }
            presented = Some(last_event_id);
        }
    }

    /// Reads one answer to its end. `Some`: the call is over.
    #[allow(clippy::too_many_arguments, reason = "one place, and each is a different thing")]
    async fn read(
        &self,
        core: &Arc<Core>,
        peer: &Arc<Peer>,
        ctx: &Arc<Ctx>,
        id: &RequestId,
        stream: &mut CallStream,
        response: Response<Incoming>,
        presented: Option<&str>,
    ) -> Option<Result<Reply, ClientError>> {
        let status = response.status().as_u16();
        let is_resume = presented.is_some();
        if is_resume && matches!(status, 404 | 410) && peer.session.is_some() {
            // The call is lost with its session; the next one finds a new session.
            let (core, generation) = (Arc::clone(core), peer.generation);
            tokio::spawn(async move { drop(core.renew(generation).await) });
        }
        stream.on_status(core.now(), status, retry_after(response.headers()), random());
        if !response.status().is_success() {
            drain(response);
            return None;
        }
        if !has_type(response.headers(), "text/event-stream") {
            let is_json = has_type(response.headers(), "application/json");
            if is_resume && !is_json {
                // A page of something on the way: an attempt in vain, like a stream without an event.
                drain(response);
                stream.on_end(core.now(), StreamEnd::Error, random());
                return None;
            }
            return match self.read_json(core, ctx, id, stream, response).await {
                // What broke off can be asked for again; what was read whole would only come again.
                Err(ClientError { kind: ClientErrorKind::NotResumable, .. }) if is_resume => {
                    stream.on_end(core.now(), StreamEnd::Error, random());
                    None
                }
                outcome => Some(outcome),
            };
        }
        let mut decoder = Decoder::resuming(core.options.sse, presented);
        let mut body = response.into_body();
        let end = loop {
            let frame = body.frame();
            // A stream that can be resumed need not be waited for when nothing at all comes any more.
            let frame = if stream.cursor().is_some() {
                match tokio::time::timeout(core.options.silence, frame).await {
                    Ok(frame) => frame,
                    Err(_) => break StreamEnd::Error,
                }
            } else {
                frame.await
            };
            let data = match frame {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(_)) => break StreamEnd::Error,
                None => break StreamEnd::Graceful,
            };
            let mut rest = &data[..];
            loop {
                let event = match decoder.next_event(&mut rest) {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(error) => {
                        let kind = ClientErrorKind::Unreadable { reason: error.to_string() };
                        return Some(Err(ClientError { kind, may_have_run: true }));
                    }
                };
                let before = stream.cursor().map(str::to_owned);
                let event_id = event.id.as_deref().filter(|_| event.sets_id);
                stream.on_event(event_id, event.message(), event.retry_ms);
                if stream.cursor() != before.as_deref() {
                    ctx.alive();
                    show_token(ctx, peer, id, stream);
                }
                match act(core, ctx, id, stream).await {
                    Next::ReadOn | Next::Reconnect(..) => {}
                    Next::Over(over) => {
                        drain(Response::new(body));
                        return Some(over);
                    }
                }
            }
        };
        stream.on_end(core.now(), end, random());
        None
    }

    async fn read_json(
        &self,
        core: &Arc<Core>,
        ctx: &Arc<Ctx>,
        id: &RequestId,
        stream: &mut CallStream,
        response: Response<Incoming>,
    ) -> Result<Reply, ClientError> {
        let is_json = has_type(response.headers(), "application/json");
        let unreadable =
            |reason: String| ClientError { kind: ClientErrorKind::Unreadable { reason }, may_have_run: true };
        let kind = response.headers().get(http::header::CONTENT_TYPE).cloned();
        let packed = response.headers().get(http::header::CONTENT_ENCODING).cloned();
        let no_text = || match packed.as_ref().and_then(|encoding| encoding.to_str().ok()) {
            Some(encoding) => format!("it is compressed ({encoding}), which was not asked for"),
            None => "it is not UTF-8".to_owned(),
        };
        let text = match whole(response.into_body(), core.options.max_body_bytes).await {
            Ok(body) => String::from_utf8(body.into()).map_err(|_| unreadable(no_text()))?,
            Err((reason, true)) => return Err(unreadable(reason)),
            Err((_, false)) => return Err(lost()),
        };
        // Some servers mark their text as Unicode; JSON itself knows no such mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // A message is a message, whatever its type is called.
        stream.on_event(None, Some(text), None);
        match act(core, ctx, id, stream).await {
            Next::Over(over) => over,
            Next::ReadOn | Next::Reconnect(..) if is_json && !text.trim().is_empty() => {
                let said = Raw::parse(text.to_owned()).ok().and_then(|body| body.member("error"));
                let said = said.and_then(|error| error.to::<ErrorObject>().ok());
                let said = said.map(|error| format!(": error {}: {}", error.code, error.message));
                Err(unreadable(format!(
                    "it is JSON, but not the response to this request{}",
                    said.unwrap_or_default()
                )))
            }
            Next::ReadOn | Next::Reconnect(..) => Err(unreadable(match kind {
                Some(kind) if !text.trim().is_empty() => {
                    format!("it is {}", kind.to_str().unwrap_or("of an odd type"))
                }
                _ => "it is empty".into(),
            })),
        }
    }
}

/// Does what the machine wants done.
async fn act(core: &Arc<Core>, ctx: &Arc<Ctx>, id: &RequestId, stream: &mut CallStream) -> Next {
    let mut reply = None;
    while let Some(action) = stream.poll() {
        match action {
            Action::Deliver { message, .. } => {
                ctx.alive();
                match message {
                    Ok(Message::Response(response)) if response.id == *id => reply = Some(response.reply),
                    Ok(message) => core.hear(message, Some(ctx), None).await,
                    Err(error) => core.tell_noise(&error),
                }
            }
            Action::Reconnect { at, last_event_id } => return Next::Reconnect(at, last_event_id),
            Action::Fail(error) => return Next::Over(Err(error)),
            Action::Done => return Next::Over(reply.ok_or_else(lost)),
        }
    }
    if stream.is_over() { Next::Over(Err(lost())) } else { Next::ReadOn }
}

fn show_token(ctx: &Ctx, peer: &Peer, id: &RequestId, stream: &CallStream) {
    if let Some(cursor) = stream.cursor() {
        ctx.show_token(id, || ResumePlace::Stream {
            session: peer.session.as_ref().and_then(|session| session.to_str().ok()).map(str::to_owned),
            revision: (*peer.revision).to_owned(),
            last_event_id: cursor.to_owned(),
        });
    }
}

/// What the resume met says nothing of the call itself, which may have run.
const fn resume_refused(reason: String) -> ClientError {
    ClientError { kind: ClientErrorKind::ResumeRefused { reason }, may_have_run: true }
}

const fn lost() -> ClientError {
    ClientError { kind: ClientErrorKind::NotResumable, may_have_run: true }
}
