//! Our own requests to a client: sampling, elicitation, roots.

use crate::{Call, call::CallState, core::Core, mailbox, modern, progress, random, session::Session};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, RequestId},
    projection::project_request,
};
use bowline_store::EventClass;
use std::{fmt, pin::Pin, sync::Arc, task::Poll};
use tokio::sync::oneshot;

/// A question to the client. Nothing is sent before it is first polled; dropping it stops waiting for the answer.
#[must_use = "a question is asked when it is awaited"]
pub struct Ask {
    id: RequestId,
    answer: Pin<Box<dyn Future<Output = Reply> + Send>>,
}

/// Where a question goes.
enum On {
    Call(Arc<CallState>),
    Standalone,
}

impl Ask {
    pub(crate) fn on_call(call: &Call, method: &str, params: Option<Raw>) -> Self {
        if call.0.modern.is_some() {
            let (asking, method) = (call.0.clone(), method.to_owned());
            let id = RequestId::String(method.as_str().into());
            return Self { id, answer: Box::pin(modern::ask(asking, method, params)) };
        }
        // The id names the call's mailbox, so that any backend can route the answer.
        let mailbox = call.0.mailbox();
        Self::new(&call.0.core, &call.0.session, mailbox, On::Call(call.0.clone()), method, params)
    }

    pub(crate) fn on_standalone(
        core: &Arc<Core>,
        session: &Arc<Session>,
        method: &str,
        params: Option<Raw>,
    ) -> Self {
        Self::new(core, session, random::stream_id(), On::Standalone, method, params)
    }

    fn new(
        core: &Arc<Core>,
        session: &Arc<Session>,
        mailbox: StreamId,
        on: On,
        method: &str,
        params: Option<Raw>,
    ) -> Self {
        // Only where the client may answer another backend than this one does anything have to be found by its token.
        let shared = core.is_shared() && !session.stateless;
        let token = params.as_ref().filter(|_| shared).and_then(progress::token);
        let (id, receiver) = session.open_ask(core, mailbox, token.clone());
        let waiting = Waiting { session: session.clone(), id: id.clone() };
        let id = RequestId::String(id);
        let params = match (params, &token) {
            (Some(params), Some(_)) => Some(progress::under(&params, &id).unwrap_or(params)),
            (params, _) => params,
        };
        let told = token.map(|_| waiting.id.clone());
        let request = project_request(session.revision, method, params).map(|params| Request {
            id: id.clone(),
            method: method.into(),
            params,
        });
        let core = core.clone();
        let answer = Box::pin(async move {
            let reply = match request {
                Ok(request) => {
                    let answer = ask(&core, &waiting.session, on, mailbox, request, receiver);
                    let heard = progress::hear(&core, &waiting.session, told.as_deref());
                    tokio::select! {
                        biased;
                        reply = answer => reply,
                        never = heard => match never {},
                    }
                }
                Err(unsupported) => unsupported.to_error().into(),
            };
            drop(waiting);
            reply
        });
        Self { id, answer }
    }

    /// The id under which a legacy client sees the question. A modern one sees none; then it is the method.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.id
    }
}

impl Future for Ask {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Reply> {
        self.answer.as_mut().poll(cx)
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({})", self.id)
    }
}

async fn ask(
    core: &Arc<Core>,
    session: &Arc<Session>,
    on: On,
    mailbox: StreamId,
    request: Request,
    receiver: oneshot::Receiver<Reply>,
) -> Reply {
    if session.stateless {
        return ErrorObject::internal(
            "stateless",
            if session.revision.is_modern() {
                format!("{} needs a call: a modern client can be asked nothing else", request.method)
            } else {
                format!(
                    "{} needs a session: the server runs in the session mode \"stateless\"",
                    request.method
                )
            },
        )
        .into();
    }
    let method = request.method.clone();
    let undeliverable = || {
        ErrorObject::internal("undeliverable", format!("{method} cannot be delivered to the client")).into()
    };
    let ended = || {
        ErrorObject::internal("session_ended", format!("the session ended before {method} was answered"))
            .into()
    };
    // Whoever ended the session before has dropped the questions that were open, and this one was not among them.
    if session.has_ended() {
        return ended();
    }
    let outlet = match &on {
        On::Call(call) => call.outlet_or_open(),
        On::Standalone => Some(session.standalone(core).clone()),
    };
    let Some(outlet) = outlet else { return undeliverable() };
    // A client that has not said that it is ready may not take questions; one that never says so gets them all the same.
    let _ = tokio::time::timeout(core.options.initialized_wait, session.wait_initialized()).await;
    core.metrics.asks.up();
    // Before it is in the log: whoever reads it there tells its client to poll soon.
    let _asking = outlet.ask();
    let sent = match &on {
        On::Call(call) => call.say(request.to_bytes(), EventClass::Kept, None),
        On::Standalone => outlet.push(request.to_bytes(), EventClass::Kept, None),
    };
    if !sent {
        return undeliverable();
    }
    let timed_out = async {
        outlet.wait_read().await;
        tokio::time::sleep(core.options.ask_timeout).await;
    };
    let cancelled = async {
        match &on {
            On::Call(call) => drop(call.cancelled().await),
            On::Standalone => std::future::pending().await,
        }
    };
    // The mailbox of a call is read by whoever runs it.
    let letters = async {
        match &on {
            On::Call(_) => std::future::pending().await,
            On::Standalone => mailbox::serve_question(core, session, mailbox).await,
        }
    };
    tokio::select! {
        () = letters => ended(),
        reply = receiver => reply.unwrap_or_else(|_| ended()),
        () = timed_out => {
            core.metrics.asks_timed_out.up();
            let params = Raw::from_value(&serde_json::json!({ "requestId": request.id, "reason": "timeout" })).ok();
            let cancel = Notification::new("notifications/cancelled", params).to_bytes();
            match &on {
                On::Call(call) => drop(call.say(cancel, EventClass::Droppable, None)),
                On::Standalone => drop(outlet.push(cancel, EventClass::Droppable, None)),
            }
            ErrorObject::internal("timeout", format!("the client did not answer {method} in time")).into()
        }
        () = cancelled => ErrorObject::internal("cancelled", format!("the call that asked {method} was cancelled")).into(),
    }
}

/// Gives the place in the table of open questions back.
struct Waiting {
    session: Arc<Session>,
    id: Box<str>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.session.close_ask(&self.id);
    }
}
