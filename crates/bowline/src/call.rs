//! What a handler holds while it works on a call.

use crate::{
    ask::{self, AskError, AskErrorKind, Question, Questions, WireQuestion},
    content::Meta,
    handle::Handle,
    level::Level,
    pipe::InProcess,
    server::Inner,
};
use bowline_proto::{
    jsonrpc::{Notification, Raw, RequestId},
    revision::Revision,
};
use bowline_server::{CancelReason, Peer};
use futures_util::future::join_all;
use http::request::Parts;
use serde::Serialize;
use serde_json::json;
use std::{fmt, fmt::Write as _, sync::Arc};

/// The level from which messages go to a client that has set none.
const UNSET_LEVEL: Level = Level::Info;

/// A call that a handler works on: cheap to clone, and of use until the handler has returned.
///
/// `S` is the type of [`Call::shared`], what was given to [`crate::ServerBuilder::with_state`].
pub struct Call<S = ()> {
    raw: bowline_server::Call,
    inner: Arc<Inner<S>>,
}

impl<S> Call<S> {
    pub(crate) const fn new(raw: bowline_server::Call, inner: Arc<Inner<S>>) -> Self {
        Self { raw, inner }
    }

    /// What was given to [`crate::ServerBuilder::with_state`].
    #[must_use]
    pub fn shared(&self) -> &S {
        &self.inner.shared
    }

    /// The server, to announce changes from within a handler.
    #[must_use]
    pub fn server(&self) -> Handle<S> {
        Handle::new(self.inner.clone())
    }

    // --- who asks ---

    /// The id that the client gave the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        self.raw.id()
    }

    /// The negotiated revision. What a client of an older one cannot read is turned into what it can; a handler need not ask.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.raw.peer().revision()
    }

    /// Who calls; `None` where no authentication is configured.
    #[must_use]
    pub fn principal(&self) -> Option<String> {
        self.raw.peer().principal().map(str::to_owned)
    }

    /// The head of the HTTP request that brought the call: its headers, and what layers put into its extensions. `None` on stdio.
    #[must_use]
    pub fn parts(&self) -> Option<&Parts> {
        let parts = self.raw.parts();
        parts.extensions.get::<InProcess>().is_none().then_some(parts)
    }

    /// The client, beside this call.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.raw.peer()
    }

    /// The `_meta` member of the parameters; empty where there is none.
    #[must_use]
    pub fn meta(&self) -> Meta {
        let meta = self.raw.params().and_then(|params| params.member("_meta"));
        meta.and_then(|meta| meta.to().ok()).unwrap_or_default()
    }

    // --- what is said in between ---

    /// Says how far the work is. `done` grows from one to the next; `total` is left out (`None`) where it is not known.
    /// Integers are converted at the call: `ctx.progress(f64::from(step), f64::from(steps))`. (`.into()` is not enough for `total`.)
    ///
    /// Returns whether a client may come to see it: not where the client has not asked for progress.
    pub fn progress(&self, done: f64, total: impl Into<Option<f64>>) -> bool {
        self.say_progress(done, total.into(), None)
    }

    /// Says how far the work is, and in words what is being done (from `2025-03-26` on).
    ///
    /// Returns whether a client may come to see it.
    pub fn progress_with_message(&self, done: f64, total: impl Into<Option<f64>>, message: &str) -> bool {
        self.say_progress(done, total.into(), Some(message))
    }

    fn say_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) -> bool {
        let Some(token) = self.raw.progress_token() else { return false };
        if !done.is_finite() || total.is_some_and(|total| !total.is_finite()) {
            return false;
        }
        // Rust writes finite numbers as JSON has them, whole ones without a fraction.
        let mut params = format!(r#"{{"progressToken":{},"progress":{done}"#, token.as_str());
        // Writing into a string cannot fail.
        if let Some(total) = total {
            let _ = write!(params, r#","total":{total}"#);
        }
        if let Some(message) = message {
            let _ = write!(params, r#","message":{}"#, serde_json::Value::from(message));
        }
        params.push('}');
        let params = Raw::from_trusted(params.into());
        self.raw.notify(&Notification::new("notifications/progress", Some(params)))
    }

    /// Whether the client wants to know of progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.raw.progress_token().is_some()
    }

    /// Sends a log message, a text or any JSON value, if the client wants messages of this level (it is taken to want
    /// [`Level::Info`] and above until it says so). In the session mode `stateless` it goes to [`tracing`] instead.
    ///
    /// Never log secrets: the client, and perhaps its model, reads this.
    pub fn log(&self, level: Level, data: impl Serialize) -> bool {
        self.log_as(None, level, data)
    }

    /// [`Call::log`] with the name of the part that speaks.
    pub fn log_as<'a>(&self, logger: impl Into<Option<&'a str>>, level: Level, data: impl Serialize) -> bool {
        let logger = logger.into();
        let peer = self.raw.peer();
        let Ok(data) = serde_json::to_value(data) else { return false };
        if peer.session_id().is_empty() {
            trace(level, logger, &data);
            return false;
        }
        let wanted = peer.log_level().and_then(|name| Level::from_wire(&name)).unwrap_or(UNSET_LEVEL);
        if level < wanted {
            return false;
        }
        let params = match logger {
            Some(logger) => json!({ "level": level, "logger": logger, "data": data }),
            None => json!({ "level": level, "data": data }),
        };
        let Ok(params) = Raw::from_value(&params) else { return false };
        self.raw.notify(&Notification::new("notifications/message", Some(params)))
    }

    /// Sends any other notification that belongs to this call. Returns whether a client may come to see it.
    pub fn notify(&self, method: &str, params: impl Serialize) -> bool {
        let Ok(params) = Raw::from_value(&params) else { return false };
        params.is_object() && self.raw.notify(&Notification::new(method, Some(params)))
    }

    /// Says that the page of [`crate::Elicit::url`] with this id was left (from `2025-11-25` on).
    pub fn elicitation_complete(&self, id: &str) -> bool {
        self.notify("notifications/elicitation/complete", json!({ "elicitationId": id }))
    }

    // --- questions ---

    /// Asks the client something and waits for the answer, however long that takes within the server's limits.
    ///
    /// `key` names the question among those of this handler and has to be the same whenever the same is asked: clients of the revision
    /// `2026-07-28` answer by running the handler again, and the key is what an answer is found by.
    ///
    /// # Errors
    /// Why there is no answer: the client cannot answer such questions, it refused, the call was cancelled.
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        let wire = question.wire().map_err(|why| AskError::new(key, AskErrorKind::Unaskable(why)))?;
        let raw = self.ask_raw(key, &wire).await?;
        ask::read(key, &question, &raw)
    }

    /// Asks several things at once, and waits until each is answered or failed. The keys are those of [`Call::ask`], each another one.
    ///
    /// ```
    /// # use bowline::{AskError, Call, Roots, Sample};
    /// # async fn handler(ctx: Call) -> Result<(), AskError> {
    /// let capital = Sample::new(100).user("What is the capital of France?");
    /// let (sampled, roots) = ctx.ask_many((("capital", capital), ("roots", Roots))).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The first of the questions, in their order, that there is no answer to.
    pub async fn ask_many<Q: Questions>(&self, questions: Q) -> Result<Q::Answers, AskError> {
        let wires = questions.wires()?;
        let asked: Vec<_> = wires.iter().map(|(key, wire)| self.ask_raw(key, wire)).collect();
        let answers = join_all(asked).await;
        drop(wires);
        questions.read(answers)
    }

    async fn ask_raw(&self, key: &str, wire: &WireQuestion) -> Result<Raw, AskError> {
        let peer = self.raw.peer();
        // Without a session the layer below says so itself; there are no capabilities to look at.
        if !peer.session_id().is_empty() {
            let capabilities = peer.initialize_params().member("capabilities");
            if let Some(missing) = ask::missing(capabilities.as_ref(), wire.needs) {
                return Err(AskError::new(key, AskErrorKind::Unsupported(missing)));
            }
        }
        let reply = self.raw.ask(wire.method, Some(wire.params.clone())).await;
        reply.into_result().map_err(|error| AskError::new(key, AskErrorKind::Failed(error)))
    }

    // --- the call's own life ---

    /// Waits until the call is to stop: the client cancelled it, or a limit was reached. A handler that goes on is dropped after
    /// a grace ([`crate::Options::cancel_grace`]).
    pub async fn cancelled(&self) -> CancelReason {
        self.raw.cancelled().await
    }

    /// Why the call is to stop, if it is.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.raw.cancel_reason()
    }

    /// Lets go of the connection while the call runs on; the client comes back for the result (SEP-1699, from `2025-11-25` on; other
    /// clients keep their connection). For work that takes long and has nothing to say.
    pub fn close_connection(&self) {
        self.raw.close_connection();
    }
}

fn trace(level: Level, logger: Option<&str>, data: &serde_json::Value) {
    match level {
        Level::Debug => tracing::debug!(logger, %data, "log message of a handler"),
        Level::Info | Level::Notice => tracing::info!(logger, %data, "log message of a handler"),
        Level::Warning => tracing::warn!(logger, %data, "log message of a handler"),
        Level::Error | Level::Critical | Level::Alert | Level::Emergency => {
            tracing::error!(logger, %data, "log message of a handler");
        }
    }
}

impl<S> Clone for Call<S> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), inner: self.inner.clone() }
    }
}

impl<S> fmt::Debug for Call<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
