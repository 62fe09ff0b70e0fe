//! Messages for a process whose revision is older than its client's (SEMANTICS 6, last item): what the process does not know
//! is taken out, or said in its words. The other direction is the endpoint's.
//!
//! Everything that goes to a process passes here once its answer to `initialize` has said what it speaks.

use bowline_proto::jsonrpc::{Notification, Raw, Reply};
use bowline_proto::projection::{self, Unsupported};
use bowline_proto::revision::Revision;

/// What a process speaks. `None` where it has not said so yet, or named a revision that nobody knows: everything passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fit(Option<Revision>);

impl Fit {
    /// Of a result of `initialize`.
    pub(crate) fn of_hello(result: &Raw) -> Self {
        let version = result.member("protocolVersion").and_then(|version| version.string());
        Self(version.and_then(|version| Revision::from_wire(&version)))
    }

    /// The parameters of a request.
    ///
    /// # Errors
    /// The process has no such request.
    pub(crate) fn request(self, method: &str, params: Option<Raw>) -> Result<Option<Raw>, Unsupported> {
        match self.0 {
            Some(revision) => projection::project_request(revision, method, params),
            None => Ok(params),
        }
    }

    /// A notification; `None` where the process has none of the kind.
    pub(crate) fn notification(self, notification: Notification) -> Option<Notification> {
        match self.0 {
            Some(revision) => projection::project_notification(revision, notification),
            None => Some(notification),
        }
    }

    /// The answer to a request of the process.
    pub(crate) fn reply(self, method: &str, reply: Reply) -> Reply {
        match self.0 {
            Some(revision) => projection::project_reply(revision, method, reply),
            None => reply,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_proto::jsonrpc::ErrorObject;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    fn speaks(revision: &str) -> Fit {
        Fit::of_hello(&raw(&format!(r#"{{"protocolVersion":"{revision}"}}"#)))
    }

    #[test]
    fn requests() {
        let sampled = r#"{"name":"x","arguments":{"a": 1.0},"task":{"ttl":1}}"#;
        let context = r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":""},"context":{}}"#;
        let hello = r#"{"protocolVersion":"x","capabilities":{"elicitation":{"url":{}},"roots":{}},"clientInfo":{"name":"c","version":"1","title":"C"}}"#;
        for (revision, method, params, expected) in [
            ("2025-11-25", "tools/call", sampled, Some(sampled)),
            ("2025-06-18", "tools/call", sampled, Some(r#"{"name":"x","arguments":{"a": 1.0}}"#)),
            ("2025-06-18", "completion/complete", context, Some(context)),
            (
                "2025-03-26",
                "completion/complete",
                context,
                Some(r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#),
            ),
            (
                "2024-11-05",
                "initialize",
                hello,
                Some(
                    r#"{"protocolVersion":"x","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}"#,
                ),
            ),
            ("2025-06-18", "tasks/get", r#"{"taskId":"1"}"#, None),
            ("2024-11-05", "x/custom", r#"{"icons":[]}"#, Some(r#"{"icons":[]}"#)),
            ("1999-01-01", "tasks/get", r#"{"taskId":"1"}"#, Some(r#"{"taskId":"1"}"#)),
        ] {
            let said = speaks(revision).request(method, Some(raw(params)));
            let said = said.ok().flatten().map(|params| params.as_str().to_owned());
            assert_eq!(said.as_deref(), expected, "{revision} {method}");
        }
    }

    #[test]
    fn notifications() {
        let progress = r#"{"progressToken":1,"progress":1,"message":"half"}"#;
        for (revision, method, params, expected) in [
            ("2025-03-26", "notifications/progress", progress, Some(progress)),
            ("2024-11-05", "notifications/progress", progress, Some(r#"{"progressToken":1,"progress":1}"#)),
            ("2025-06-18", "notifications/tasks/status", "{}", None),
            ("2025-06-18", "notifications/cancelled", "{}", None),
            ("2024-11-05", "notifications/roots/list_changed", "{}", Some("{}")),
        ] {
            let said = speaks(revision).notification(Notification::new(method, Some(raw(params))));
            let said = said.and_then(|said| said.params).map(|params| params.as_str().to_owned());
            assert_eq!(said.as_deref(), expected, "{revision} {method}");
        }
    }

    #[test]
    fn answers_to_the_process() {
        let sampled = r#"{"role":"assistant","model":"m","content":{"type":"audio","data":"AAAA","mimeType":"audio/wav"}}"#;
        let roots = r#"{"roots":[{"uri":"file:///a","_meta":{"x":1}}]}"#;
        let said = |revision: &str, method: &str, result: &str| match speaks(revision)
            .reply(method, Reply::Result(raw(result)))
        {
            Reply::Result(result) => result.as_str().to_owned(),
            Reply::Error(error) => panic!("{error:?}"),
        };
        assert_eq!(said("2025-03-26", "sampling/createMessage", sampled), sampled);
        let older = said("2024-11-05", "sampling/createMessage", sampled);
        assert!(older.contains(r#""type":"text""#) && !older.contains("AAAA"), "{older}");
        assert_eq!(said("2025-06-18", "roots/list", roots), roots);
        assert_eq!(said("2025-03-26", "roots/list", roots), r#"{"roots":[{"uri":"file:///a"}]}"#);
        let error = Reply::from(ErrorObject::new(-1, "User rejected sampling request"));
        assert!(speaks("2024-11-05").reply("sampling/createMessage", error).is_error());
    }
}
