//! Tasks (`io.modelcontextprotocol/tasks`): what a task says of itself, and when a call becomes one (SEMANTICS 4).
//!
//! The log of a task holds its states, the newest last: each is an event, and the last one seals the log. A log that another backend
//! had to seal ends with a JSON-RPC error instead, as that of any call.

use super::input::InputRequest;
use crate::{
    jsonrpc::{ErrorObject, Notification, Raw},
    projection::quoted,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The notification that tells a listening client of a task.
pub const NOTIFICATION: &str = "notifications/tasks";

/// The method of the events in the log of a task; it never leaves the server.
const EVENT: &str = "bowline/task";

/// Whether calls of a tool may become tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// They are answered on their connection, however long they take.
    #[default]
    Never,
    /// One that takes longer than a plain answer is waited for becomes a task, where its client can have one.
    Optional,
    /// They need a client that can have tasks, and become one as soon as they wait for anything but the client's own answers.
    Required,
}

/// What is to become of a call that takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It is answered on its connection.
    Stays,
    /// It becomes a task when it has been waited for long enough, or wishes to.
    WhenSlow,
    /// It becomes a task as soon as it waits.
    AtOnce,
    /// It is refused: it needs a client that can have tasks.
    Refused,
}

/// What is to become of a call of `method` by a client with these capabilities.
#[must_use]
pub fn course(method: &str, support: TaskSupport, capabilities: &Raw) -> Course {
    if method != "tools/call" {
        return Course::Stays;
    }
    match (support, declared(capabilities)) {
        (TaskSupport::Never, _) | (TaskSupport::Optional, false) => Course::Stays,
        (TaskSupport::Optional, true) => Course::WhenSlow,
        (TaskSupport::Required, true) => Course::AtOnce,
        (TaskSupport::Required, false) => Course::Refused,
    }
}

/// Whether a client with these capabilities can have tasks.
#[must_use]
pub fn declared(capabilities: &Raw) -> bool {
    let extension = capabilities.member("extensions").and_then(|extensions| extensions.member(EXTENSION));
    extension.is_some_and(|extension| extension.is_object())
}

/// The capabilities that a client needs for tasks.
#[must_use]
pub fn required() -> Value {
    json!({ "extensions": { EXTENSION: {} } })
}

/// The capabilities of a server, with tasks among its extensions.
#[must_use]
pub fn announced(capabilities: &Raw) -> Raw {
    let extensions =
        capabilities.member("extensions").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    let extensions = extensions.with_member(EXTENSION, &Raw::empty_object()).unwrap_or(extensions);
    capabilities.with_member("extensions", &extensions).unwrap_or_else(|| capabilities.clone())
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It is being worked on.
    Working,
    /// The client has to answer these requests, an object by key.
    InputRequired(Raw),
    /// It ended with this result.
    Completed(Raw),
    /// It ended with this JSON-RPC error.
    Failed(Raw),
    /// It was cancelled.
    Cancelled,
}

impl TaskState {
    /// What a task is that waits for answers to these questions.
    #[must_use]
    pub fn asking(questions: &[InputRequest]) -> Self {
        if questions.is_empty() {
            return Self::Working;
        }
        Self::InputRequired(Raw::from_members(
            questions.iter().map(|question| (&question.key, question.to_raw())),
        ))
    }

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired(_) => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing will change any more.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }

    /// Whether the client has to answer something.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        matches!(self, Self::InputRequired(_))
    }

    /// The keys of the requests that wait for an answer.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        match self {
            Self::InputRequired(asked) => {
                asked.members().unwrap_or_default().into_iter().map(|(key, _)| key).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The member of the wire form that only this state has.
    fn member(&self) -> Option<(&'static str, &Raw)> {
        match self {
            Self::Working | Self::Cancelled => None,
            Self::InputRequired(asked) => Some(("inputRequests", asked)),
            Self::Completed(result) => Some(("result", result)),
            Self::Failed(error) => Some(("error", error)),
        }
    }
}

/// A task at one moment. Times are in milliseconds, points in time since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// When it was made.
    pub created: u64,
    /// When it changed last.
    pub updated: u64,
    /// How long it is kept at least, from its making.
    pub ttl: u64,
    /// What is going on, for people.
    pub message: Option<String>,
    /// How far it is.
    pub state: TaskState,
}

impl Task {
    /// A task that was just made.
    #[must_use]
    pub const fn new(created: u64, ttl: u64) -> Self {
        Self { created, updated: created, ttl, message: None, state: TaskState::Working }
    }

    /// The event that says so in the log.
    #[must_use]
    pub fn to_event(&self) -> Bytes {
        let stored = Stored {
            created: self.created,
            updated: self.updated,
            ttl: self.ttl,
            message: self.message.clone(),
            status: self.state.as_str().into(),
            is: self.state.member().map(|(_, value)| value.clone()),
        };
        // Numbers, texts and what is JSON already are always expressible.
        Notification::new(EVENT, Raw::from_value(&stored).ok()).to_bytes()
    }

    /// What a log says that begins with `begun` and whose newest events are these, oldest first.
    #[must_use]
    pub fn of_log(begun: Self, events: &[Bytes], sealed: bool) -> Self {
        let mut task = begun;
        for event in events {
            match read(event) {
                Some(Event::State(state)) => task = *state,
                // Another backend sealed the log, or a result was too large: a response, without a time of its own.
                Some(Event::End(state)) => (task.message, task.state) = (None, state),
                None => {}
            }
        }
        if sealed && !task.state.is_terminal() {
            (task.message, task.state) = (None, TaskState::Cancelled);
        }
        task
    }

    /// What `tasks/get` answers. `poll` is how long to wait before the next one, in milliseconds.
    #[must_use]
    pub fn to_result(&self, id: &str, poll: u32) -> Raw {
        Raw::from_members(self.members(id, poll, true))
    }

    /// What the call answers that became this task.
    #[must_use]
    pub fn to_created(&self, id: &str, poll: u32) -> Raw {
        let kind = ("resultType", quoted("task"));
        Raw::from_members([kind].into_iter().chain(self.members(id, poll, false)))
    }

    /// What a client is told that listens to this task.
    #[must_use]
    pub fn to_notification(&self, id: &str, poll: u32) -> Notification {
        Notification::new(NOTIFICATION, Some(self.to_result(id, poll)))
    }

    fn members(&self, id: &str, poll: u32, whole: bool) -> Vec<(&'static str, Raw)> {
        let number = |number: u64| Raw::from_trusted(number.to_string().into());
        let mut members = vec![("taskId", quoted(id)), ("status", quoted(self.state.as_str()))];
        members.extend(self.status_message().map(|text| ("statusMessage", quoted(&text))));
        members.extend([
            ("createdAt", quoted(&timestamp(self.created))),
            ("lastUpdatedAt", quoted(&timestamp(self.updated))),
            ("ttlMs", number(self.ttl.max(1))),
        ]);
        if !self.state.is_terminal() {
            members.push(("pollIntervalMs", number(poll.max(1).into())));
        }
        if whole {
            members.extend(self.state.member().map(|(name, value)| (name, value.clone())));
        }
        members
    }

    fn status_message(&self) -> Option<String> {
        match &self.state {
            TaskState::Failed(error) => error.member("message").and_then(|message| message.string()),
            _ => self.message.clone(),
        }
    }
}

/// A task as it stands in its log.
#[derive(Serialize, Deserialize)]
struct Stored {
    created: u64,
    updated: u64,
    ttl: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is: Option<Raw>,
}

impl Stored {
    fn into_task(self) -> Option<Task> {
        let Self { created, updated, ttl, message, status, is } = self;
        let state = match (status.as_str(), is) {
            ("working", _) => TaskState::Working,
            ("cancelled", _) => TaskState::Cancelled,
            ("input_required", Some(asked)) => TaskState::InputRequired(asked),
            ("completed", Some(result)) => TaskState::Completed(result),
            ("failed", Some(error)) => TaskState::Failed(error),
            _ => return None,
        };
        Some(Task { created, updated, ttl, message, state })
    }
}

/// What an event in the log says.
enum Event {
    State(Box<Task>),
    End(TaskState),
}

fn read(event: &Bytes) -> Option<Event> {
    let text = std::str::from_utf8(event).ok()?;
    let message = Raw::parse(text.to_owned()).ok()?;
    if let Some(params) = message.member("params") {
        let stored: Stored = params.to().ok()?;
        return stored.into_task().map(|task| Event::State(Box::new(task)));
    }
    if let Some(error) = message.member("error") {
        return Some(Event::End(TaskState::Failed(error)));
    }
    message.member("result").map(|result| Event::End(TaskState::Completed(result)))
}

/// What progress says in words, for the status of a task: its message, else how much of how much.
#[must_use]
pub fn progress_message(progress: &Notification) -> Option<String> {
    let params = progress.params.as_ref()?;
    if let Some(message) = params.member("message").and_then(|message| message.string()) {
        return Some(message);
    }
    let number = |name: &str| params.member(name).filter(|number| number.to::<f64>().is_ok());
    Some(format!("{} of {}", number("progress")?.as_str(), number("total")?.as_str()))
}

/// The parameters of `tasks/get`, `tasks/update` and `tasks/cancel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskParams {
    /// The id as the client has it.
    pub id: String,
    /// The answers of `tasks/update` by key, as far as they may be answers.
    pub responses: Vec<(String, Raw)>,
}

impl TaskParams {
    /// Reads the parameters of `method`.
    ///
    /// # Errors
    /// What is missing or of another kind, for the sender.
    pub fn of(method: &str, params: Option<&Raw>) -> Result<Self, String> {
        let member = |name: &str| params.and_then(|params| params.member(name));
        let id = member("taskId").and_then(|id| id.string()).ok_or("taskId has to be a string")?;
        let mut responses = Vec::new();
        if method == "tasks/update" {
            let all = member("inputResponses").and_then(|all| all.members());
            responses = all.ok_or("inputResponses has to be an object")?;
            responses.retain(|(_, answer)| answer.is_object());
        }
        Ok(Self { id, responses })
    }
}

/// -32602: nothing is known of such a task. One text for every reason.
#[must_use]
pub fn unknown_task() -> ErrorObject {
    ErrorObject::new(
        crate::jsonrpc::code::INVALID_PARAMS,
        "Task not found: it has expired, or there never was one of this id for this caller",
    )
}

/// A point in time as RFC 3339 has it, in UTC: `2026-07-28T00:00:00.000Z`. `unix` is in milliseconds.
#[must_use]
pub fn timestamp(unix: u64) -> String {
    let (seconds, ms) = (unix / 1_000, unix % 1_000);
    let (mut days, clock) = (seconds / 86_400, seconds % 86_400);
    // Years from the first of March of the year 0 on, so that a leap day is the last of its year.
    days += 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests;
