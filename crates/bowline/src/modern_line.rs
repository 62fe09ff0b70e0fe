//! Messages of a modern client on a pipe: what HTTP has in headers is put there, and a cancel ends the request that it names.

use bowline_proto::{
    jsonrpc::{Message, RequestId, parse_message},
    modern::{encode, header_name_of, meta::PROTOCOL_VERSION},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::task::AbortHandle;

/// From how many requests on those that are over are looked for.
const SWEEP: usize = 64;

/// What a line of a modern client is.
pub(crate) struct ModernLine {
    pub(crate) id: RequestId,
    /// Whether it listens, which goes on until it is cancelled or the pipe ends.
    pub(crate) listens: bool,
    /// The headers that the request would have over HTTP.
    pub(crate) headers: HeaderMap,
}

impl ModernLine {
    /// What this line is, if it is a request that claims a revision in its metadata.
    pub(crate) fn of(line: &Bytes) -> Option<Self> {
        // Lines of legacy clients, which are most, are not read twice.
        let claims = |text: &[u8]| text.windows(15).any(|part| part == b"protocolVersion");
        if !claims(line) {
            return None;
        }
        let Ok(Message::Request(request)) = parse_message(line.clone()) else { return None };
        let params = request.params.as_ref()?;
        let claim = params.member("_meta")?.member(PROTOCOL_VERSION)?;
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        put("mcp-protocol-version", &claim.string()?);
        put("mcp-method", &request.method);
        let named = header_name_of(&request.method).and_then(|member| params.member(member)?.string());
        if let Some(named) = named {
            put("mcp-name", &encode(&named));
        }
        Some(Self { listens: &*request.method == "subscriptions/listen", id: request.id, headers })
    }

    /// The request that this line cancels, if it does.
    pub(crate) fn cancelled(line: &Bytes) -> Option<RequestId> {
        if !line.windows(23).any(|part| part == b"notifications/cancelled") {
            return None;
        }
        let Ok(Message::Notification(notification)) = parse_message(line.clone()) else { return None };
        let id = notification.params.filter(|_| &*notification.method == "notifications/cancelled")?;
        RequestId::from_json(id.member("requestId")?.as_str()).ok()
    }
}

/// The requests of modern clients that are being answered.
#[derive(Default)]
pub(crate) struct ModernLines(Mutex<HashMap<RequestId, (AbortHandle, bool)>>);

impl ModernLines {
    pub(crate) fn add(&self, id: RequestId, listens: bool, work: AbortHandle) {
        let mut running = self.0.lock();
        if running.len() >= SWEEP {
            running.retain(|_, (work, _)| !work.is_finished());
        }
        running.insert(id, (work, listens));
    }

    /// Ends a request; `false` where it is none of these.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        // What its answer would have been read from is dropped, which is how a client goes away.
        self.0.lock().remove(id).map(|(work, _)| work.abort()).is_some()
    }

    /// Ends every request that would go on for ever.
    pub(crate) fn stop_listening(&self) {
        for (work, listens) in self.0.lock().values() {
            if *listens {
                work.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn a_modern_request_has_the_headers_that_it_would_have() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gr\u00f6\u00dfe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let found = ModernLine::of(&line(text)).unwrap();
        let header = |name| found.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("mcp-protocol-version"), "2026-07-28");
        assert_eq!(header("mcp-method"), "tools/call");
        assert_eq!(header("mcp-name"), "=?base64?Z3LDtsOfZQ==?=");
        assert!(!found.listens);
        for other in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            "protocolVersion",
        ] {
            assert!(ModernLine::of(&line(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn a_cancel_names_its_request() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        assert_eq!(ModernLine::cancelled(&line(text)), Some("a".into()));
        let other = r#"{"jsonrpc":"2.0","method":"x","params":{"requestId":"notifications/cancelled"}}"#;
        assert_eq!(ModernLine::cancelled(&line(other)), None);
    }
}
