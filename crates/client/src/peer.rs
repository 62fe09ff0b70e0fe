//! Who is at the other end, as the handshake said.

use bowline_proto::jsonrpc::Raw;
use http::HeaderValue;
use std::sync::Arc;

/// The server, as it introduced itself. Another one may take its place at any time: ask again after a while.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision in force.
    pub revision: Arc<str>,
    /// Whether that is one without a handshake.
    pub modern: bool,
    /// `capabilities`.
    pub capabilities: Raw,
    /// `serverInfo`, where it was given.
    pub server_info: Option<Raw>,
    /// `instructions`.
    pub instructions: Option<String>,
    /// The whole result of `initialize` or `server/discover`.
    pub result: Raw,
    /// Counts the handshakes of this client.
    pub generation: u64,
    pub(crate) session: Option<HeaderValue>,
}

impl Peer {
    pub(crate) fn legacy(result: Raw, session: Option<HeaderValue>) -> Option<Self> {
        let revision = result.member("protocolVersion")?.string()?;
        Some(Self::new(revision.into(), false, result.member("serverInfo"), result, session))
    }

    pub(crate) fn modern(result: Raw) -> Self {
        let meta = result.member("_meta");
        let info = meta.and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo"));
        let info = info.or_else(|| result.member("serverInfo"));
        Self::new(bowline_proto::client::MODERN.into(), true, info, result, None)
    }

    /// Puts another session in its place.
    pub(crate) fn set_session(&mut self, mut session: Option<HeaderValue>) {
        // Whoever has it has the session: no `Debug` shows it.
        if let Some(session) = &mut session {
            session.set_sensitive(true);
        }
        self.session = session;
    }

    fn new(
        revision: Arc<str>,
        modern: bool,
        server_info: Option<Raw>,
        result: Raw,
        session: Option<HeaderValue>,
    ) -> Self {
        let mut peer = Self {
            revision,
            modern,
            capabilities: result.member("capabilities").unwrap_or_else(Raw::empty_object),
            server_info,
            instructions: result.member("instructions").and_then(|text| text.string()),
            result,
            generation: 0,
            session: None,
        };
        peer.set_session(session);
        peer
    }

    /// Whether the server declared this capability.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.member(capability).is_some()
    }

    pub(crate) fn says_list_changed(&self, capability: &str) -> bool {
        let declared = self.capabilities.member(capability).and_then(|value| value.member("listChanged"));
        declared.is_some_and(|value| value.as_str() == "true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_session() {
        let result = Raw::parse(r#"{"protocolVersion":"2025-11-25"}"#).unwrap();
        let peer = Peer::legacy(result, Some(HeaderValue::from_static("hunter2"))).unwrap();
        let shown = format!("{peer:?}");
        assert!(shown.contains("2025-11-25") && !shown.contains("hunter2"), "{shown}");
    }
}
