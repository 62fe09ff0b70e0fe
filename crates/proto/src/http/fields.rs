//! The headers of MCP, each read in one place.

use http::{HeaderMap, HeaderName};

/// The header that names the session.
pub static MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that says which revision the sender speaks.
pub static MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header with the cursor of a resumption.
pub static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The longest session id that is looked up, in bytes.
pub const MAX_SESSION_ID_BYTES: usize = 256;
/// The longest cursor that is looked at, in bytes (SEMANTICS 5.6).
pub const MAX_LAST_EVENT_ID_BYTES: usize = 512;

/// A cursor that a client presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastEventId<'h> {
    /// 1 to [`MAX_LAST_EVENT_ID_BYTES`] visible ASCII characters.
    Text(&'h str),
    /// Anything else: no cursor of ours. Whether the session lives decides what that is answered (see [`super::resume`]).
    Malformed,
}

/// A header that may stand once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'h> {
    /// It does not stand there, or is blank.
    Absent,
    /// Visible ASCII within the bound; the same value wherever it stands.
    Text(&'h str),
    /// Other characters, over the bound, or two values.
    Unusable,
}

impl<'h> Field<'h> {
    fn read(headers: &'h HeaderMap, name: &HeaderName, max: usize) -> Self {
        let mut found = Self::Absent;
        for value in headers.get_all(name) {
            let bytes = value.as_bytes().trim_ascii();
            if bytes.is_empty() {
                continue;
            }
            let text = match std::str::from_utf8(bytes) {
                Ok(text) if bytes.len() <= max && bytes.iter().all(u8::is_ascii_graphic) => text,
                _ => return Self::Unusable,
            };
            match found {
                Self::Text(first) if first != text => return Self::Unusable,
                _ => found = Self::Text(text),
            }
        }
        found
    }

    /// `Mcp-Session-Id`. An unusable one is an id that nobody gave out: it is unknown.
    pub(super) fn session(headers: &'h HeaderMap) -> Self {
        Self::read(headers, &MCP_SESSION_ID, MAX_SESSION_ID_BYTES)
    }
}

/// `Last-Event-ID`, where there is one.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<LastEventId<'_>> {
    match Field::read(headers, &LAST_EVENT_ID, MAX_LAST_EVENT_ID_BYTES) {
        Field::Absent => None,
        Field::Text(text) => Some(LastEventId::Text(text)),
        Field::Unusable => Some(LastEventId::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(name: &HeaderName, values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_session_id_is_usable_or_unknown() {
        let long = [b'a'; 257];
        for (values, field) in [
            (&[][..], Field::Absent),
            (&[&b""[..]], Field::Absent),
            (&[b"  "], Field::Absent),
            (&[b"abc"], Field::Text("abc")),
            (&[b" abc "], Field::Text("abc")),
            (&[b"abc", b"abc"], Field::Text("abc")),
            (&[b"abc", b""], Field::Text("abc")),
            (&[b"abc", b"abd"], Field::Unusable),
            (&[b"a b"], Field::Unusable),
            (&[b"\xc3\xa9"], Field::Unusable),
            (&[b"\xff"], Field::Unusable),
            (&[&long[..256]], Field::Text(std::str::from_utf8(&long[..256]).unwrap())),
            (&[&long], Field::Unusable),
        ] {
            let headers = headers(&MCP_SESSION_ID, values);
            assert_eq!(Field::session(&headers), field, "{values:?}");
        }
    }

    #[test]
    fn a_cursor_is_text_or_malformed() {
        let long = [b'a'; 513];
        for (values, cursor) in [
            (&[][..], None),
            (&[&b""[..]], None),
            (&[b"1.abc"], Some(LastEventId::Text("1.abc"))),
            (&[b"a", b"a"], Some(LastEventId::Text("a"))),
            (&[b"a", b"b"], Some(LastEventId::Malformed)),
            (&[b"a b"], Some(LastEventId::Malformed)),
            (&[b"\xff"], Some(LastEventId::Malformed)),
            (&[&long[..512]], Some(LastEventId::Text(std::str::from_utf8(&long[..512]).unwrap()))),
            (&[&long], Some(LastEventId::Malformed)),
        ] {
            let headers = headers(&LAST_EVENT_ID, values);
            assert_eq!(last_event_id(&headers), cursor, "{values:?}");
        }
    }
}
