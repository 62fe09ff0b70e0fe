//! Results that are not the last word: questions first, or a task (`2026-07-28` on).

use crate::jsonrpc::Raw;

/// What a result is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The result. Also where `resultType` is missing or unknown: older servers have none.
    Complete(Raw),
    /// The server wants answers first; then the same request again, with them and with exactly this state.
    InputRequired {
        /// The questions: key, method, parameters.
        questions: Vec<Question>,
        /// `requestState` as it came; `None`: none is sent back.
        state: Option<Raw>,
    },
    /// The work goes on as a task.
    Task(TaskState),
}

/// One question of a server, under the key that its answer goes back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The key.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters.
    pub params: Option<Raw>,
}

/// The state of a task, as `tools/call` or `tasks/get` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    /// `taskId`.
    pub id: String,
    /// Where it is.
    pub status: TaskStatus,
    /// `pollIntervalMs`: how long to wait before asking again.
    pub poll_interval_ms: Option<u64>,
}

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Under way.
    Working,
    /// Answers are wanted.
    InputRequired(Vec<Question>),
    /// Done.
    Completed(Option<Raw>),
    /// Ended with a JSON-RPC error.
    Failed(Option<Raw>),
    /// Taken back.
    Cancelled,
}

impl Outcome {
    /// Reads a result.
    #[must_use]
    pub fn of(result: Raw) -> Self {
        let kind = result.member("resultType").and_then(|kind| kind.string());
        match kind.as_deref() {
            Some("input_required") => Self::InputRequired {
                questions: questions(&result),
                state: result.member("requestState").filter(|state| state.as_str() != "null"),
            },
            Some("task") => match TaskState::of(&result) {
                Some(task) => Self::Task(task),
                None => Self::Complete(result),
            },
            _ => Self::Complete(result),
        }
    }
}

impl TaskState {
    /// Reads a task; `None` where there is no `taskId`.
    #[must_use]
    pub fn of(result: &Raw) -> Option<Self> {
        let text = |name: &str| result.member(name).and_then(|value| value.string());
        let status = match text("status").as_deref() {
            Some("completed") => TaskStatus::Completed(result.member("result")),
            Some("failed") => TaskStatus::Failed(result.member("error")),
            Some("cancelled") => TaskStatus::Cancelled,
            Some("input_required") => TaskStatus::InputRequired(questions(result)),
            _ => TaskStatus::Working,
        };
        let poll_interval_ms = result.member("pollIntervalMs").and_then(|value| value.to().ok());
        Some(Self { id: text("taskId")?, status, poll_interval_ms })
    }
}

fn questions(result: &Raw) -> Vec<Question> {
    let members = result.member("inputRequests").and_then(|requests| requests.members()).unwrap_or_default();
    members
        .into_iter()
        .filter_map(|(key, request)| {
            let method = request.member("method")?.string()?;
            Some(Question { key, method, params: request.member("params") })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Outcome {
        Outcome::of(Raw::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn a_result_without_a_type_is_complete() {
        for text in ["{}", r#"{"resultType":"complete"}"#, r#"{"resultType":"later","x":1}"#] {
            assert!(matches!(of(text), Outcome::Complete(raw) if raw.as_str() == text));
        }
    }

    #[test]
    fn state_keeps_every_byte_and_none_stays_none() {
        let Outcome::InputRequired { questions, state } = of(
            r#"{"resultType":"input_required","requestState":"\u0061/\\","inputRequests":{"k":{"method":"roots/list"}}}"#,
        ) else {
            panic!()
        };
        assert_eq!(state.unwrap().as_str(), r#""\u0061/\\""#);
        assert_eq!(questions, [Question { key: "k".into(), method: "roots/list".into(), params: None }]);
        let Outcome::InputRequired { state, .. } = of(r#"{"resultType":"input_required"}"#) else { panic!() };
        assert_eq!(state, None);
    }

    #[test]
    fn tasks() {
        let Outcome::Task(task) =
            of(r#"{"resultType":"task","taskId":"t","status":"working","pollIntervalMs":5}"#)
        else {
            panic!()
        };
        assert_eq!(
            task,
            TaskState { id: "t".into(), status: TaskStatus::Working, poll_interval_ms: Some(5) }
        );
        let done = Raw::parse(r#"{"taskId":"t","status":"completed","result":{"a":1}}"#).unwrap();
        assert!(
            matches!(TaskState::of(&done).unwrap().status, TaskStatus::Completed(Some(raw)) if raw.as_str() == r#"{"a":1}"#)
        );
    }
}
