//! Which era the server speaks, and the handshake of that era: SEMANTICS 7.6.

use super::{
    Fail, Http,
    body::{Refusal, drain, has_type, whole},
    exchange::{mirror_method, unauthorized},
};
use crate::{CallError, Era, Peer, core::Core, era};
use bowline_proto::{
    client::{AfterDiscover, AfterInitialize, MODERN, after_discover, after_initialize, request_meta},
    jsonrpc::{ErrorObject, Message, Notification, Raw, Request, parse_message},
    sse::Decoder,
};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::sync::Arc;

/// What came back for a request of the handshake.
struct Answered {
    status: u16,
    session: Option<HeaderValue>,
    response: Option<Result<Raw, ErrorObject>>,
}

impl Http {
    /// Shakes hands: discovers where that is wanted, else initializes. `first`: nobody knows the server yet.
    pub(crate) async fn shake_hands(&self, core: &Arc<Core>, first: bool) -> Result<Peer, CallError> {
        let origin = era::origin(&self.uri.read());
        let modern_first = match core.options.era {
            Era::Modern => return self.discover(core).await?.ok_or_else(no_modern),
            Era::Legacy => return self.initialize(core).await.map_err(|(error, _)| error),
            Era::Detect if first => era::known(&origin).unwrap_or(true),
            Era::Detect => core.peer().is_none_or(|peer| peer.modern),
        };
        let peer = if modern_first {
            match self.discover(core).await? {
                Some(peer) => peer,
                None => self.initialize(core).await.map_err(|(error, _)| error)?,
            }
        } else {
            match self.initialize(core).await {
                Ok(peer) => peer,
                // It may have become a modern one.
                Err((error, Some(400 | 404 | 405))) => match self.discover(core).await {
                    Ok(Some(peer)) => peer,
                    Ok(None) | Err(_) => return Err(error),
                },
                Err((error, _)) => return Err(error),
            }
        };
        era::learned(&origin, peer.modern);
        Ok(peer)
    }

    /// Asks the modern way. `None`: `initialize` is next.
    async fn discover(&self, core: &Arc<Core>) -> Result<Option<Peer>, CallError> {
        // A server may want the request once more, with what it said.
        for _ in 0..2 {
            let params = request_meta(None, MODERN, &core.client_info(), &core.capabilities(true), None);
            let mut headers = HeaderMap::new();
            mirror_method(&mut headers, "server/discover");
            headers.insert(super::REVISION, HeaderValue::from_static(MODERN));
            let answered = self.ask_once(core, None, "server/discover", Some(params), headers).await?;
            let response = answered.response.as_ref().map(Result::as_ref);
            match after_discover(answered.status, response) {
                AfterDiscover::Modern => {
                    if let Some(Ok(result)) = answered.response {
                        return Ok(Some(Peer::modern(result)));
                    }
                }
                AfterDiscover::ModernError => {}
                AfterDiscover::Initialize => return Ok(None),
                AfterDiscover::Incompatible => {
                    return Err(CallError::transport(
                        "the server speaks no revision that this client knows (it answers with newer ones only)",
                    ));
                }
                AfterDiscover::Unknown => {
                    return Err(CallError::transport(format!(
                        "the server answered with status {}",
                        answered.status
                    )));
                }
            }
        }
        Err(no_modern())
    }

    /// `initialize` and `notifications/initialized`. The status goes with an error where that is what failed.
    async fn initialize(&self, core: &Arc<Core>) -> Result<Peer, (CallError, Option<u16>)> {
        let params = initialize_params(core);
        let answered = self.ask_once(core, None, "initialize", Some(params), HeaderMap::new()).await;
        let Answered { status, session, response } = answered.map_err(|error| (error, None))?;
        let result = match response {
            Some(Ok(result)) => result,
            Some(Err(error)) => return Err((CallError::Protocol(error), Some(status))),
            None => {
                let error =
                    CallError::transport(format!("the server answered `initialize` with status {status}"));
                return Err((error, Some(status)));
            }
        };
        let Some(peer) = Peer::legacy(result, session) else {
            return Err((CallError::invalid("the answer to `initialize` has no protocolVersion"), None));
        };
        let ready = Notification::new("notifications/initialized", None);
        let post = self.post(core, Some(&peer), ready.to_bytes(), HeaderMap::new());
        match tokio::time::timeout(core.options.post_timeout, post).await {
            // Whatever is in it: the server was told.
            Ok(Ok(answer)) if answer.status().is_success() => drain(answer),
            Ok(Ok(answer)) => {
                let status = answer.status().as_u16();
                // Some servers know no notifications; a session that is gone already shows with the first call.
                tracing::warn!(status, "the server did not accept notifications/initialized");
                drain(answer);
            }
            Ok(Err(fail)) => return Err((CallError::transport(fail.into_message()), None)),
            Err(_) => {
                return Err((CallError::transport("no answer to notifications/initialized in time"), None));
            }
        }
        Ok(peer)
    }

    /// Whether the 2024-11-05 transport is worth a try after this error of the first handshake.
    pub(crate) fn is_sse_next(status: Option<u16>) -> bool {
        status.is_some_and(|status| after_initialize(status) == AfterInitialize::HttpSse)
    }

    /// The first handshake. With the error goes whether the 2024-11-05 transport is worth a try.
    pub(crate) async fn first_handshake(&self, core: &Arc<Core>) -> Result<Peer, (CallError, bool)> {
        match core.options.era {
            Era::Legacy => {
                self.initialize(core).await.map_err(|(error, status)| (error, Self::is_sse_next(status)))
            }
            Era::Detect => {
                let origin = era::origin(&self.uri.read());
                if era::known(&origin) == Some(false) {
                    return self.shake_hands(core, true).await.map_err(|error| (error, false));
                }
                match self.discover(core).await {
                    Ok(Some(peer)) => {
                        era::learned(&origin, true);
                        Ok(peer)
                    }
                    Ok(None) => match self.initialize(core).await {
                        Ok(peer) => {
                            era::learned(&origin, false);
                            Ok(peer)
                        }
                        Err((error, status)) => Err((error, Self::is_sse_next(status))),
                    },
                    Err(error) => Err((error, false)),
                }
            }
            Era::Modern => self.shake_hands(core, true).await.map_err(|error| (error, false)),
        }
    }

    /// One POST and the response in its answer, stream or not. Not repeated: the caller does that, where it helps.
    async fn ask_once(
        &self,
        core: &Arc<Core>,
        peer: Option<&Peer>,
        method: &str,
        params: Option<Raw>,
        headers: HeaderMap,
    ) -> Result<Answered, CallError> {
        let id = core.next_id();
        let request = Request { id: id.clone(), method: method.into(), params };
        let answer = self.post(core, peer, request.to_bytes(), headers).await;
        let answer = answer.map_err(|fail| match fail {
            // A handshake may be repeated, so nothing is lost with it.
            Fail::Lost(message) => CallError::transport(message),
            fail => fail.into_error(),
        })?;
        let status = answer.status().as_u16();
        let session = answer.headers().get(super::SESSION).cloned();
        if !answer.status().is_success() {
            let refusal = Refusal::read(answer, &id).await;
            if let Some(error) = unauthorized(core, &refusal) {
                return Err(error);
            }
            if refusal.wants_tls {
                return Err(CallError::invalid(
                    "TLS is spoken there, and the address says otherwise: it has to begin with https://",
                ));
            }
            return Ok(Answered { status, session, response: refusal.error.map(Err) });
        }
        let response = response_of(core, answer, &id).await?;
        Ok(Answered { status, session, response })
    }
}

/// The response in an answer; `None` where it has none.
async fn response_of(
    core: &Arc<Core>,
    answer: Response<Incoming>,
    id: &bowline_proto::jsonrpc::RequestId,
) -> Result<Option<Result<Raw, ErrorObject>>, CallError> {
    let read = |text: &str| match parse_message(bytes::Bytes::copy_from_slice(text.as_bytes())) {
        Ok(Message::Response(response)) if response.id == *id => Some(response.reply.into_result()),
        _ => None,
    };
    if !has_type(answer.headers(), "text/event-stream") {
        let body = whole(answer.into_body(), core.options.max_body_bytes).await;
        let body =
            body.map_err(|(error, _)| CallError::transport(format!("the answer broke off: {error}")))?;
        return Ok(str::from_utf8(&body).ok().and_then(read));
    }
    let mut decoder = Decoder::new(core.options.sse);
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| CallError::transport(format!("the answer broke off: {error}")))?;
        let data = frame.into_data().unwrap_or_default();
        let mut rest = &data[..];
        while let Some(event) =
            decoder.next_event(&mut rest).map_err(|error| CallError::transport(error.to_string()))?
        {
            if let Some(response) = event.message().and_then(read) {
                drain(Response::new(body));
                return Ok(Some(response));
            }
        }
    }
    Ok(None)
}

/// The parameters of `initialize`.
pub(crate) fn initialize_params(core: &Core) -> Raw {
    let text = |text: &str| Raw::from_trusted(serde_json::Value::from(text).to_string().into());
    Raw::from_members([
        ("protocolVersion", text(&core.options.revision)),
        ("capabilities", core.capabilities(false)),
        ("clientInfo", core.client_info()),
    ])
}

fn no_modern() -> CallError {
    CallError::transport(format!("the server does not speak {MODERN}"))
}
