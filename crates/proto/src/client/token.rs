//! A call's place, written down.

use crate::jsonrpc::RequestId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What another process needs to take a call over and receive its result.
///
/// It is a key to the session: whoever holds it, and the credentials of the session's owner, can read the call's messages. Keep
/// it as you keep a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeToken {
    /// The endpoint.
    pub url: String,
    /// The id of the request that is waited for.
    pub request: RequestId,
    /// Where the call is.
    pub place: ResumePlace,
}

/// Where a call is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[non_exhaustive]
pub enum ResumePlace {
    /// A stream of a legacy session.
    Stream {
        /// `Mcp-Session-Id`, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// The negotiated revision.
        revision: String,
        /// `Last-Event-ID`.
        #[serde(rename = "lastEventId")]
        last_event_id: String,
    },
    /// A task (`2026-07-28`).
    Task {
        /// Its id.
        #[serde(rename = "taskId")]
        task_id: String,
    },
}

impl fmt::Debug for ResumeToken {
    /// Without the ids: they are keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumeToken")
            .field("url", &self.url)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ResumePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream { .. } => "Stream",
            Self::Task { .. } => "Task",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_down_and_read_again_and_says_nothing_in_logs() {
        let places = [
            ResumePlace::Stream {
                session: Some("secret".into()),
                revision: "2025-11-25".into(),
                last_event_id: "secret-id".into(),
            },
            ResumePlace::Task { task_id: "secret".into() },
        ];
        for place in places {
            let token = ResumeToken { url: "http://a/mcp".into(), request: 7.into(), place };
            let text = serde_json::to_string(&token).unwrap();
            assert_eq!(serde_json::from_str::<ResumeToken>(&text).unwrap(), token);
            assert!(!format!("{token:?}").contains("secret"));
        }
    }
}
