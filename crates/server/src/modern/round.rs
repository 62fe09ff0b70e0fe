//! One round of a request whose handler can run again.

use crate::{BoxFuture, Call, core::Core, random};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{ErrorObject, Raw, Reply, Request, code},
    modern::{
        RequestDigest, RequestMeta, RequestState, RoundParams, SERIAL_BYTES, StateCodec,
        input::{InputRequest, missing_capabilities, missing_capability},
        input_required, takes_input,
    },
    time::millis,
};
use bowline_store::{CreateError, NewStream, StreamKind, WriteAt};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::sync::watch;

/// How many questions one round may ask.
const MAX_QUESTIONS: usize = 64;

/// What a round of a request came with, and what it leaves with the client for the next one.
///
/// The answers to earlier questions are here, by key, and so is what the handler wanted to keep. A handler that needs an answer that is
/// not here asks for it ([`Round::ask`]) and does not go on; [`rerun`] then ends the round.
pub struct Round {
    core: Weak<Core>,
    principal: Option<Box<str>>,
    method: bytestring::ByteString,
    params: Option<Raw>,
    capabilities: Raw,
    answers: BTreeMap<String, Raw>,
    kept: Mutex<BTreeMap<String, Raw>>,
    /// The state that it came with: its number, and until when it is good.
    came_with: Option<([u8; SERIAL_BYTES], u64)>,
    held: Option<[u8; SERIAL_BYTES]>,
    responses: Vec<(String, Raw)>,
    pending: Mutex<Pending>,
    over: watch::Sender<bool>,
}

#[derive(Default)]
struct Pending {
    questions: Vec<InputRequest>,
    waker: Option<Waker>,
}

impl Round {
    pub(super) fn new(
        core: &Arc<Core>,
        principal: Option<&str>,
        meta: &RequestMeta,
        request: &Request,
        earlier: RoundParams,
    ) -> Result<Self, String> {
        let mut round = Self {
            core: Arc::downgrade(core),
            principal: principal.map(Into::into),
            method: request.method.clone(),
            params: request.params.clone(),
            capabilities: meta.capabilities.clone(),
            answers: BTreeMap::new(),
            kept: Mutex::default(),
            came_with: None,
            held: None,
            responses: Vec::new(),
            pending: Mutex::default(),
            over: watch::Sender::new(false),
        };
        let usable = |(key, answer): (String, Raw)| answer.is_object().then(|| (key, answer.detached()));
        // A client may know what it will be asked and answer it at once; what it says is its own in any case.
        let Some(text) = earlier.state else {
            round.answers = earlier.responses.into_iter().filter_map(usable).collect();
            return Ok(round);
        };
        let state =
            round.codec(core).open(&round.digest(), core.unix(), &text).map_err(|fault| fault.to_string())?;
        round.answers = state.answers;
        round.kept = Mutex::new(state.kept);
        round.came_with = Some((state.serial, state.expires));
        round.held = state.held;
        // What was not asked is not looked at, so that an answer that was given once stands; what is no answer is asked for again.
        let asked = state.asked;
        let responses = earlier.responses.into_iter().filter(|(key, _)| asked.contains_key(key));
        round.responses = responses.filter_map(usable).collect();
        if round.held.is_none() {
            round.answers.extend(std::mem::take(&mut round.responses));
        }
        Ok(round)
    }

    /// Whether it came with nothing of an earlier round.
    pub(crate) const fn is_first(&self) -> bool {
        self.came_with.is_none()
    }

    /// The client's answer to the question of this key, where it gave one in this or an earlier round.
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<Raw> {
        self.answers.get(key).cloned()
    }

    /// What this client would have to declare to be asked this, beside what it has; `None` where it can be asked.
    #[must_use]
    pub fn missing(&self, method: &str, params: Option<&Raw>) -> Option<Value> {
        missing_capabilities(&self.capabilities, method, params)
    }

    /// Asks the client. The round ends with this question and all others of this moment; whoever asks then waits for its end
    /// ([`Round::ended`]) and is usually dropped before.
    ///
    /// # Errors
    /// -32021 where the client does not declare what is needed; -32603 where this request may not ask, or asks too much.
    pub fn ask(&self, question: InputRequest) -> Result<(), ErrorObject> {
        if !takes_input(&self.method) {
            let text = format!("nothing can be asked of the client while it waits for {}", self.method);
            return Err(ErrorObject::internal("unsupported_by_revision", text));
        }
        if let Some(missing) = self.missing(&question.method, question.params.as_ref()) {
            return Err(missing_capability(&missing));
        }
        let mut pending = self.pending.lock();
        if pending.questions.len() >= MAX_QUESTIONS {
            let text = format!("more than {MAX_QUESTIONS} questions in one round");
            return Err(ErrorObject::internal("too_large", text));
        }
        match pending.questions.iter_mut().find(|asked| asked.key == question.key) {
            Some(asked) => *asked = question,
            None => pending.questions.push(question),
        }
        let waker = pending.waker.take();
        drop(pending);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Waits until the round is over: it was answered, or its client left. For whoever asked in a task of its own, which nothing else ends.
    pub async fn ended(&self) {
        // The sender lives in `self`, so the wait ends with what it waits for.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    pub(super) fn set_over(&self) {
        self.over.send_replace(true);
    }

    /// What was kept under `key` in this or an earlier round.
    #[must_use]
    pub fn kept(&self, key: &str) -> Option<Raw> {
        self.kept.lock().get(key).cloned()
    }

    /// Keeps a value for the next rounds: it travels sealed with the client.
    pub fn keep(&self, key: impl Into<String>, value: &Raw) {
        self.kept.lock().insert(key.into(), value.detached());
    }

    /// Spends the answers that this round came with: from here on, no other request can be served with the same `requestState`, on no
    /// backend that shares the store. Nothing is spent in a first round without answers. A second time in one round is refused as any other.
    ///
    /// # Errors
    /// -32602 where they were spent before, and for answers that came without a `requestState`; -32603 where the store cannot be asked.
    pub async fn spend(&self) -> Result<(), ErrorObject> {
        let Some((serial, expires)) = self.came_with else {
            if self.answers.is_empty() {
                return Ok(());
            }
            let text =
                "Invalid params: these answers are taken with the requestState of their questions only";
            return Err(ErrorObject::new(code::INVALID_PARAMS, text));
        };
        let Some(core) = self.core.upgrade() else { return Ok(()) };
        let left = Duration::from_millis(expires.saturating_sub(core.unix()).max(1));
        let stream = StreamId::from_bytes(serial);
        let mark = NewStream {
            id: stream,
            kind: StreamKind::Call,
            owner: core.backend,
            epoch: 1,
            incarnation: 0,
            session: None,
            request_id: None,
            rerun: None,
            open_ttl: left,
            max_events: 1,
            max_bytes: 1,
        };
        match core.store.create(mark).await {
            Ok(()) => {}
            Err(CreateError::Exists) => {
                let text = "Invalid params: requestState was used already; send the request again without it";
                return Err(ErrorObject::new(code::INVALID_PARAMS, text));
            }
            Err(error) => {
                let text = format!("it cannot be made sure that requestState is used once: {error}");
                return Err(ErrorObject::internal("store_unavailable", text));
            }
        }
        // Sealed, so that nobody takes it for a call whose backend is gone. That it is there is what counts.
        let sealed = core.store.seal(WriteAt { stream, epoch: 1, offset: 1 }, None, left).await;
        if let Err(error) = sealed {
            tracing::warn!(%error, "the mark of a spent requestState could not be sealed");
        }
        Ok(())
    }

    /// The end of a round that needs these answers, or any earlier one again.
    #[must_use]
    pub fn end(&self, questions: &[InputRequest]) -> Reply {
        let Some(core) = self.core.upgrade() else {
            return ErrorObject::internal("draining", "the server is shutting down").into();
        };
        let state = RequestState {
            expires: core.unix().saturating_add(millis(core.options.input_ttl)),
            serial: random::bytes(),
            asked: questions.iter().map(|asked| (asked.key.clone(), asked.method.to_string())).collect(),
            answers: self.answers.clone(),
            kept: self.kept.lock().clone(),
            held: None,
        };
        core.metrics.asks.add(questions.len() as u64);
        match self.seal(&core, &state) {
            Ok(text) => Reply::Result(input_required(questions, &text)),
            Err(error) => error.into(),
        }
    }

    /// The visits that an error demands before the request can be served, as questions; `None` where it demands none, or the client
    /// cannot be asked for one.
    fn visits(&self, reply: &Reply) -> Option<Vec<InputRequest>> {
        let Reply::Error(error) = reply else { return None };
        if error.member("code")?.to::<i64>().ok()? != code::URL_ELICITATION_REQUIRED
            || !takes_input(&self.method)
        {
            return None;
        }
        let asked: Vec<Raw> = error.member("data")?.member("elicitations")?.to().ok()?;
        let question = |(at, params): (usize, Raw)| {
            let asked = InputRequest {
                key: format!("visit{}", at + 1),
                method: "elicitation/create".into(),
                params: Some(params),
            };
            let can = self.missing(&asked.method, asked.params.as_ref()).is_none();
            // Who said no is told why nothing comes of the request.
            let refused = self.answer(&asked.key).is_some_and(|answer| {
                answer.member("action").and_then(|action| action.string()).as_deref() != Some("accept")
            });
            (can && !refused).then_some(asked)
        };
        let asked: Option<Vec<_>> = asked.into_iter().take(MAX_QUESTIONS).enumerate().map(question).collect();
        asked.filter(|asked| !asked.is_empty())
    }

    pub(super) fn seal(&self, core: &Core, state: &RequestState) -> Result<String, ErrorObject> {
        if !core.keys.are_known() {
            // What a key of this process alone has sealed, no other backend could open.
            let text = "the store that keeps the keys was not reached yet";
            return Err(ErrorObject::internal("store_unavailable", text));
        }
        self.codec(core)
            .seal(&self.digest(), state, random::bytes())
            .map_err(|error| ErrorObject::internal("too_large", error.to_string()))
    }

    pub(super) const fn held(&self) -> Option<[u8; SERIAL_BYTES]> {
        self.held
    }

    /// The answers for a call that stayed open.
    pub(super) fn responses(&self) -> &[(String, Raw)] {
        &self.responses
    }

    pub(super) fn capabilities(&self) -> &Raw {
        &self.capabilities
    }

    fn codec(&self, core: &Core) -> StateCodec {
        StateCodec::new(&core.keys.ring().1, self.principal.as_deref())
    }

    fn digest(&self) -> RequestDigest {
        RequestDigest::of(&self.method, self.params.as_ref())
    }

    fn poll_asked(&self, cx: &Context<'_>) -> Poll<Vec<InputRequest>> {
        let mut pending = self.pending.lock();
        if pending.questions.is_empty() {
            pending.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut pending.questions))
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("answers", &self.answers.len()).finish_non_exhaustive()
    }
}

/// Runs the work of a call that can be run again: when it asks something ([`Round::ask`]) and waits, it is dropped, and the round ends
/// with the questions. So it does where the work ends with a demand to visit URLs first (-32042), which this revision asks as questions.
/// The work of a legacy call and of a task is run as it is.
#[must_use]
pub fn rerun(call: Call, mut work: BoxFuture<'static, Reply>) -> BoxFuture<'static, Reply> {
    if call.round().is_none() {
        return work;
    }
    Box::pin(poll_fn(move |cx| {
        // A task is asked otherwise: nobody waits for the end of a round.
        if call.is_task() {
            return work.as_mut().poll(cx);
        }
        if let Poll::Ready(reply) = work.as_mut().poll(cx) {
            let visits = call.round().and_then(|round| Some((round, round.visits(&reply)?)));
            return Poll::Ready(visits.map_or(reply, |(round, visits)| round.end(&visits)));
        }
        match call.round().map(|round| (round, round.poll_asked(cx))) {
            Some((round, Poll::Ready(questions))) => Poll::Ready(round.end(&questions)),
            _ => Poll::Pending,
        }
    }))
}
