//! The words of the host: it was told one revision, and hears that one, whatever the server speaks now (SEMANTICS 2 to 4).

use crate::Peer;
use bowline_proto::{
    jsonrpc::{ErrorObject, Notification, Raw},
    projection::{
        Unsupported, notification_for_legacy, project_error, project_notification, project_request,
        project_result, question_for_legacy, request_for_modern, result_for_legacy,
    },
    revision::Revision,
};

/// The way between a server and a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// The server speaks a revision without a handshake, the host this one.
    Modern(Revision),
    /// The server speaks the first, the host the second: another server took the place of the one that the host met.
    Legacy(Revision, Revision),
    /// Both the same, or one that nobody here knows.
    Same,
}

impl Words {
    /// Between a server and a host that was told `told`.
    pub(super) fn between(peer: &Peer, told: Option<Revision>) -> Self {
        match (told, Revision::from_wire(&peer.revision)) {
            (Some(told), _) if peer.modern => Self::Modern(told),
            (Some(told), Some(spoken)) if told != spoken => Self::Legacy(spoken, told),
            _ => Self::Same,
        }
    }

    /// The parameters of a request of the host.
    ///
    /// # Errors
    /// The server has no such request.
    pub(super) fn request(self, method: &str, params: Option<Raw>) -> Result<Option<Raw>, Unsupported> {
        match self {
            Self::Modern(_) => Ok(params.map(|params| request_for_modern(method, params))),
            Self::Legacy(spoken, told) if spoken < told => project_request(spoken, method, params),
            Self::Legacy(..) | Self::Same => Ok(params),
        }
    }

    /// The result of a request of the host.
    ///
    /// # Errors
    /// It is none that the host could have.
    pub(super) fn result(self, method: &str, result: Raw) -> Result<Raw, ErrorObject> {
        match self {
            Self::Modern(told) => result_for_legacy(told, method, result),
            Self::Legacy(spoken, told) if told < spoken => Ok(project_result(told, method, result)),
            Self::Legacy(..) | Self::Same => Ok(result),
        }
    }

    /// The error that a request of the host ended with.
    pub(super) fn error(self, error: ErrorObject) -> ErrorObject {
        let told = match self {
            Self::Modern(told) => told,
            Self::Legacy(spoken, told) if told < spoken => told,
            Self::Legacy(..) | Self::Same => return error,
        };
        let fitted = Raw::from_value(&error).ok().map(|raw| project_error(told, raw));
        fitted.and_then(|raw| raw.to().ok()).unwrap_or(error)
    }

    /// A notification of the server; `None` where the host has none of the kind.
    pub(super) fn notification(self, note: &Notification) -> Option<Notification> {
        match self {
            Self::Modern(told) => notification_for_legacy(told, note.clone()),
            Self::Legacy(spoken, told) if told < spoken => project_notification(told, note.clone()),
            Self::Legacy(..) | Self::Same => Some(note.clone()),
        }
    }

    /// The parameters of a question of the server, which has this `id` at the host.
    ///
    /// # Errors
    /// The host has no such question.
    pub(super) fn question(
        self,
        method: &str,
        params: Option<Raw>,
        id: &str,
    ) -> Result<Option<Raw>, Unsupported> {
        match self {
            Self::Modern(told) => question_for_legacy(told, method, params, id),
            Self::Legacy(spoken, told) if told < spoken => project_request(told, method, params),
            Self::Legacy(..) | Self::Same => Ok(params),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    fn legacy(revision: &str) -> Peer {
        Peer::legacy(raw(&format!(r#"{{"protocolVersion":"{revision}"}}"#)), None).unwrap()
    }

    #[test]
    fn who_speaks_with_whom() {
        let old = Some(Revision::V2025_03_26);
        let modern = Peer::modern(Raw::empty_object());
        assert_eq!(Words::between(&modern, old), Words::Modern(Revision::V2025_03_26));
        assert_eq!(Words::between(&legacy("2025-03-26"), old), Words::Same);
        assert_eq!(Words::between(&legacy("1999-01-01"), old), Words::Same);
        assert_eq!(Words::between(&legacy("2025-03-26"), None), Words::Same);
        let newer = Words::between(&legacy("2025-11-25"), old);
        assert_eq!(newer, Words::Legacy(Revision::V2025_11_25, Revision::V2025_03_26));
    }

    #[test]
    fn another_server_is_heard_in_the_words_of_the_first() {
        let (old, new) = (Revision::V2025_03_26, Revision::V2025_11_25);
        let tools = r#"{"tools":[{"name":"t","title":"T","outputSchema":{"type":"object"}}]}"#;
        let fitted = |words: Words| words.result("tools/list", raw(tools)).unwrap().as_str().to_owned();
        assert!(!fitted(Words::Legacy(new, old)).contains("outputSchema"));
        assert_eq!(fitted(Words::Legacy(old, new)), tools);
        assert_eq!(fitted(Words::Same), tools);
        let task = r#"{"name":"t","task":{}}"#;
        let asked = |words: Words| words.request("tools/call", Some(raw(task))).unwrap().unwrap();
        assert_eq!(asked(Words::Legacy(old, new)).as_str(), r#"{"name":"t"}"#);
        assert_eq!(asked(Words::Modern(new)).as_str(), r#"{"name":"t"}"#);
        assert_eq!(asked(Words::Legacy(new, old)).as_str(), task);
        assert!(Words::Legacy(new, old).question("elicitation/create", None, "q").is_err());
        let url = ErrorObject::new(-32042, "Log in")
            .with_data(&serde_json::json!({ "elicitations": [{ "url": "https://e" }] }));
        assert!(Words::Legacy(new, old).error(url.clone()).message.contains("https://e"));
        assert_eq!(Words::Same.error(url.clone()), url);
    }
}
