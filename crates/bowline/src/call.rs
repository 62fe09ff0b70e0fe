//! What a handler holds while it works on a call.

use crate::{
    ask::{self, AskError, AskErrorKind, Question, Questions, WireQuestion},
    content::Meta,
    error::Error,
    handle::Handle,
    level::Level,
    pipe::InProcess,
    server::Inner,
};
use bowline_proto::{
    jsonrpc::{ErrorObject, Notification, Raw, RequestId, code},
    modern::{
        input::{InputRequest, missing_capability},
        trace::TraceContext,
    },
    revision::Revision,
};
use bowline_server::{CancelReason, Peer};
use futures_util::future::join_all;
use http::request::Parts;
use serde::{Serialize, de::DeserializeOwned};
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

    /// Whether the client is one of the revision `2026-07-28`: then its headers have to agree with its arguments.
    pub(crate) fn is_modern(&self) -> bool {
        self.raw.round().is_some()
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

    /// The trace that the client says the call belongs to (`traceparent`, `tracestate`, `baggage`; from `2026-07-28` on), to be passed on
    /// to whatever the handler calls.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.raw.trace()
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
        // A task says in words how far it is, whether or not its client wanted to know of progress.
        let token = match self.raw.progress_token() {
            Some(token) => token.as_str(),
            None if self.raw.is_task() => "null",
            None => return false,
        };
        if !done.is_finite() || total.is_some_and(|total| !total.is_finite()) {
            return false;
        }
        // Rust writes finite numbers as JSON has them, whole ones without a fraction.
        let mut params = format!(r#"{{"progressToken":{token},"progress":{done}"#);
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
    /// [`Level::Info`] and above until it says so; one of the revision `2026-07-28` says so with each request, or wants none). Where it
    /// wants none, and in the session mode `stateless`, it goes to [`tracing`] instead.
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
        let wanted = if self.raw.round().is_some() {
            // A modern client that names no level wants nothing.
            self.raw.log_level().and_then(|level| Level::from_wire(level.as_str()))
        } else if peer.session_id().is_empty() {
            None
        } else {
            let set = peer.log_level().and_then(|name| Level::from_wire(&name));
            Some(set.unwrap_or(UNSET_LEVEL))
        };
        let Some(wanted) = wanted else {
            trace(level, logger, &data);
            return false;
        };
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
    /// `key` names the question among those of this handler and has to be the same whenever the same is asked: **clients of the revision
    /// `2026-07-28` answer by running the handler again**, and the key is what an answer is found by. What stands before the first
    /// question then runs again with every answer; [`Call::state`] is for what must not.
    ///
    /// # Errors
    /// Why there is no answer: the client cannot answer such questions, it refused, the call was cancelled.
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        let wire = question.wire().map_err(|why| AskError::new(key, AskErrorKind::Unaskable(why)))?;
        let raw = self.ask_raw(key, &wire).await?;
        ask::read(key, &question, &raw).map_err(|error| self.malformed(error))
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
        questions.read(answers).map_err(|error| self.malformed(error))
    }

    /// An answer that cannot be read is a mistake in the parameters of a modern request.
    fn malformed(&self, error: AskError) -> AskError {
        if self.raw.round().is_none() || !matches!(error.kind, AskErrorKind::Malformed(_)) {
            return error;
        }
        let told = ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: inputResponses: {error}"));
        error.told_as(told)
    }

    async fn ask_raw(&self, key: &str, wire: &WireQuestion) -> Result<Raw, AskError> {
        let peer = self.raw.peer();
        if let Some(round) = self.raw.round() {
            if let Some(answer) = round.answer(key) {
                return Ok(answer);
            }
            if let Some(missing) = round.missing(wire.method, Some(&wire.params)) {
                let held = peer.initialize_params().member("capabilities");
                let path = ask::missing(held.as_ref(), wire.needs).unwrap_or_else(|| wire.needs.join("."));
                let error = AskError::new(key, AskErrorKind::Unsupported(path));
                return Err(error.told_as(missing_capability(&missing)));
            }
            if !self.raw.is_task() {
                let params = Some(wire.params.clone());
                let question = InputRequest { key: key.into(), method: wire.method.into(), params };
                round.ask(question).map_err(|error| AskError::new(key, AskErrorKind::Failed(error)))?;
                // The round ends here, and with it this run of the handler, unless the call becomes a task in this moment. What runs beside
                // it learns of that.
                let is_task = tokio::select! {
                    () = round.ended() => false,
                    true = self.raw.becomes_task() => true,
                };
                if !is_task {
                    let error = ErrorObject::internal("cancelled", "the round ended with this question");
                    return Err(AskError::new(key, AskErrorKind::Failed(error)));
                }
            }
            return self.asked(key, wire).await;
        }
        // Without a session the layer below says so itself; there are no capabilities to look at.
        if !peer.session_id().is_empty() {
            let capabilities = peer.initialize_params().member("capabilities");
            if let Some(missing) = ask::missing(capabilities.as_ref(), wire.needs) {
                return Err(AskError::new(key, AskErrorKind::Unsupported(missing)));
            }
        }
        self.asked(key, wire).await
    }

    /// Asks, and waits for the answer as it is.
    async fn asked(&self, key: &str, wire: &WireQuestion) -> Result<Raw, AskError> {
        let reply = self.raw.ask(wire.method, Some(wire.params.clone())).await;
        reply.into_result().map_err(|error| AskError::new(key, AskErrorKind::Failed(error)))
    }

    /// Does something once in a call whose questions make its handler run again, and keeps what came of it for the next runs.
    ///
    /// A client of the revision `2026-07-28` answers questions ([`Call::ask`]) by sending the request again: the handler then runs from
    /// its beginning, and what stands before a question runs again too. What is done in here does not: its value travels with the client,
    /// sealed, so that nobody can read or change it. For a legacy client, whose answer the handler waits for, `work` is simply run. Each
    /// `key` is for one thing in a handler. The answers and the values of one call have to fit into 256 KiB.
    ///
    /// A value is kept from the next question on. A client that sends its request anew, or loses an answer and repeats it, starts anew.
    ///
    /// ```
    /// # use bowline::{Call, Elicit, Error};
    /// # async fn reserve() -> Result<String, Error> { Ok("r1".into()) }
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Confirm { sure: bool }
    /// # async fn handler(ctx: Call) -> Result<(), Error> {
    /// let reservation: String = ctx.state("reservation", || reserve()).await?;
    /// let answer = ctx.ask("confirm", Elicit::form::<Confirm>(format!("Keep {reservation}?"))).await?;
    /// # let _ = answer; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What `work` failed with; nothing is kept then. -32603 where a value cannot be written as JSON, or read again.
    pub async fn state<T, E, F>(&self, key: &str, work: impl FnOnce() -> F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let Some(round) = self.raw.round() else { return work().await.map_err(Into::into) };
        let unusable = |error: serde_json::Error| {
            Error::protocol(code::INTERNAL_ERROR, format!("what was kept as {key:?}: {error}"))
        };
        if let Some(kept) = round.kept(key) {
            return kept.to().map_err(unusable);
        }
        let value = work().await.map_err(Into::into)?;
        round.keep(key, &Raw::from_value(&value).map_err(unusable)?);
        Ok(value)
    }

    /// Makes sure that the client's answers are acted on once. Call it when all answers are there, right before what must not happen
    /// twice: a client of the revision `2026-07-28` whose answers were used already is refused from then on, on every backend that shares
    /// the store. One that lost the result and repeats its request is refused too. Legacy clients answer once in any case.
    ///
    /// # Errors
    /// -32602 where the answers were used before; -32603 where the store cannot be asked.
    pub async fn spend_answers(&self) -> Result<(), Error> {
        match self.raw.round() {
            Some(round) => round.spend().await.map_err(Error::from_object),
            None => Ok(()),
        }
    }

    // --- the call's own life ---

    /// Waits until the call is to stop: the client cancelled it, or a limit was reached. A handler that goes on is dropped after
    /// a grace ([`crate::Options::cancel_grace`]).
    pub fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + '_
    where
        S: Send + Sync,
    {
        self.raw.cancelled()
    }

    /// Why the call is to stop, if it is.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.raw.cancel_reason()
    }

    /// Lets go of the connection while the call runs on; the client comes back for the result (SEP-1699, in `2025-11-25`; one of
    /// `2026-07-28` is given a [task](Self::become_task), where it can have one; other clients keep their connection). For work that takes long and has nothing to say.
    pub fn close_connection(&self) {
        self.raw.close_connection();
    }

    /// Makes a task of this call now, where the client is one of the revision `2026-07-28` that can have tasks and the tool allows it
    /// ([`crate::Tool::tasks`]): the client gets a handle and lets go of its connection. Returns whether the call is a task.
    ///
    /// What is asked before this ends the round, and the handler runs again; what is asked after it is asked by the task, and
    /// the handler waits for the answer.
    pub async fn become_task(&self) -> bool {
        self.raw.become_task().await
    }

    /// Whether this call is a task.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.raw.is_task()
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
