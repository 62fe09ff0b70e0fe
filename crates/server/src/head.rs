//! The head of the request that brought a call, kept for as long as the call runs.

mod words;

use bowline_proto::http::MCP_SESSION_ID;
use http::{Extensions, HeaderName, HeaderValue, Method, Request, Uri, Version, request::Parts};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// A head that is there when it is asked for.
///
/// What hyper hands over shares the buffer that the connection read it into, 8 KiB; a call that outlives its connection must not keep
/// that. So a head is copied when it is first asked for, and packed when the call begins to wait; most calls do neither.
pub(crate) struct Head {
    kept: Mutex<Kept>,
    asked: OnceLock<Box<Parts>>,
}

enum Kept {
    /// Nothing once it was asked for: the copy is all that is needed.
    Shared(Option<Arc<Parts>>),
    Packed(Packed),
}

/// A head in as few bytes as it takes.
struct Packed {
    extensions: Extensions,
    /// The place of the version; the method and the URI; names and values in turn.
    bytes: Box<[u8]>,
}

const VERSIONS: [Version; 5] =
    [Version::HTTP_11, Version::HTTP_10, Version::HTTP_2, Version::HTTP_3, Version::HTTP_09];

/// Stands before the name of a header that is sensitive; no name is empty.
const SENSITIVE: &[u8] = b"";

/// Stands for the header with the id of the call's session and its value; no name is like it.
const SESSION: &[u8] = b": session";

impl Head {
    pub(crate) fn new(parts: &Arc<Parts>) -> Self {
        Self { kept: Mutex::new(Kept::Shared(Some(parts.clone()))), asked: OnceLock::new() }
    }

    /// The head of a call of this session. The first time costs a copy.
    pub(crate) fn get(&self, session: &str) -> &Parts {
        self.asked.get_or_init(|| {
            let packed = match std::mem::replace(&mut *self.kept.lock(), Kept::Shared(None)) {
                Kept::Shared(Some(parts)) => Packed::of(&parts, session),
                Kept::Packed(packed) => packed,
                // Who replaced it has put the copy there, or is doing so: then this is not run.
                Kept::Shared(None) => Packed::of(&Request::new(()).into_parts().0, session),
            };
            Box::new(packed.unpack(session))
        })
    }

    /// Lets go of the connection's buffer, for a call of this session.
    pub(crate) fn pack(&self, session: &str) {
        let mut kept = self.kept.lock();
        if let Kept::Shared(Some(parts)) = &*kept {
            *kept = Kept::Packed(Packed::of(parts, session));
        }
    }
}

impl Packed {
    fn of(parts: &Parts, session: &str) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.push(VERSIONS.iter().position(|version| *version == parts.version).unwrap_or(0) as u8);
        words::put(&mut bytes, parts.method.as_str().as_bytes());
        words::put(&mut bytes, parts.uri.to_string().as_bytes());
        for (name, value) in &parts.headers {
            if *name == MCP_SESSION_ID && value.as_bytes() == session.as_bytes() && !value.is_sensitive() {
                words::put(&mut bytes, SESSION);
                continue;
            }
            if value.is_sensitive() {
                words::put(&mut bytes, SENSITIVE);
            }
            words::put(&mut bytes, name.as_str().as_bytes());
            words::put(&mut bytes, value.as_bytes());
        }
        Self { extensions: parts.extensions.clone(), bytes: bytes.into_boxed_slice() }
    }

    fn unpack(self, session: &str) -> Parts {
        let mut parts = Request::new(()).into_parts().0;
        parts.extensions = self.extensions;
        // This was a version, that a method, that a URI, these were names and values: none of the readings fails.
        let (version, mut rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        parts.version = VERSIONS.get(usize::from(*version)).copied().unwrap_or_default();
        let mut text = || words::take(&mut rest);
        parts.method = text().and_then(|method| Method::from_bytes(method).ok()).unwrap_or_default();
        parts.uri = text().and_then(|uri| Uri::try_from(uri).ok()).unwrap_or_default();
        while let Some(first) = text() {
            if first == SESSION {
                // It was the value of a header.
                if let Ok(value) = HeaderValue::from_str(session) {
                    parts.headers.append(MCP_SESSION_ID.clone(), value);
                }
                continue;
            }
            let sensitive = first == SENSITIVE;
            let Some(name) = (if sensitive { text() } else { Some(first) }) else { break };
            let value = text().and_then(|value| HeaderValue::from_bytes(value).ok());
            if let (Ok(name), Some(mut value)) = (HeaderName::from_bytes(name), value) {
                value.set_sensitive(sensitive);
                parts.headers.append(name, value);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Arc<Parts> {
        let mut secret = HeaderValue::from_static("Bearer t");
        secret.set_sensitive(true);
        let request = Request::post("/mcp?a=b")
            .version(Version::HTTP_11)
            .header("x-two", "1")
            .header("mcp-session-id", "one")
            .header("mcp-session-id", "a")
            .header("x-two", "2")
            .header("x-odd", HeaderValue::from_bytes(b"\xe9").unwrap())
            .header("authorization", secret)
            .extension(7_u8)
            .body(());
        Arc::new(request.unwrap().into_parts().0)
    }

    fn same(a: &Parts, b: &Parts) {
        assert_eq!((&a.method, &a.uri, a.version, &a.headers), (&b.method, &b.uri, b.version, &b.headers));
        assert_eq!(a.extensions.get::<u8>(), b.extensions.get());
        assert!(a.headers["authorization"].is_sensitive());
    }

    #[test]
    fn a_head_is_the_same_packed_or_not() {
        let parts = parts();
        for (pack, session) in [(false, "one"), (true, "one"), (true, ""), (true, "another")] {
            let head = Head::new(&parts);
            if pack {
                head.pack(session);
                assert_eq!(Arc::strong_count(&parts), 1, "nothing of the connection's is kept");
            }
            same(head.get(session), &parts);
            head.pack(session);
            same(head.get(session), &parts);
            assert_eq!(Arc::strong_count(&parts), 1);
        }
    }
}
