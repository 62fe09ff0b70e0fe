//! The head of the request that brought a call, kept for as long as the call runs.

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
    Shared(Arc<Parts>),
    Packed(Box<Packed>),
    /// It was asked for: the copy is all that is needed.
    Copied,
}

/// A head in as few bytes as it takes.
struct Packed {
    version: Version,
    extensions: Extensions,
    /// The method and the URI, and behind them names and values in turn; before each its length, and before that of a value whether it is
    /// sensitive.
    bytes: Box<[u8]>,
}

impl Head {
    pub(crate) fn new(parts: &Arc<Parts>) -> Self {
        Self { kept: Mutex::new(Kept::Shared(parts.clone())), asked: OnceLock::new() }
    }

    /// The head. The first time costs a copy.
    pub(crate) fn get(&self) -> &Parts {
        self.asked.get_or_init(|| {
            let packed = match std::mem::replace(&mut *self.kept.lock(), Kept::Copied) {
                Kept::Shared(parts) => Packed::of(&parts),
                Kept::Packed(packed) => *packed,
                // Who replaced it has put the copy there, or is doing so: then this is not run.
                Kept::Copied => Packed::of(&Request::new(()).into_parts().0),
            };
            Box::new(packed.unpack())
        })
    }

    /// Lets go of the connection's buffer.
    pub(crate) fn pack(&self) {
        let mut kept = self.kept.lock();
        if let Kept::Shared(parts) = &*kept {
            *kept = Kept::Packed(Box::new(Packed::of(parts)));
        }
    }
}

impl Packed {
    fn of(parts: &Parts) -> Self {
        let uri = parts.uri.to_string();
        let headers: usize =
            parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 9).sum();
        let method = parts.method.as_str();
        let mut bytes = Vec::with_capacity(8 + method.len() + uri.len() + headers);
        put(&mut bytes, method.as_bytes());
        put(&mut bytes, uri.as_bytes());
        for (name, value) in &parts.headers {
            put(&mut bytes, name.as_str().as_bytes());
            bytes.push(u8::from(value.is_sensitive()));
            put(&mut bytes, value.as_bytes());
        }
        Self { version: parts.version, extensions: parts.extensions.clone(), bytes: bytes.into_boxed_slice() }
    }

    fn unpack(self) -> Parts {
        let mut parts = Request::new(()).into_parts().0;
        parts.version = self.version;
        parts.extensions = self.extensions;
        let mut rest = &self.bytes[..];
        // This was a method, that a URI, these were names and values: none of the readings fails.
        parts.method = take(&mut rest).and_then(|method| Method::from_bytes(method).ok()).unwrap_or_default();
        parts.uri = take(&mut rest).and_then(|uri| Uri::try_from(uri).ok()).unwrap_or_default();
        while let Some(name) = take(&mut rest) {
            let Some((sensitive, after)) = rest.split_first() else { break };
            rest = after;
            let value = take(&mut rest).and_then(|value| HeaderValue::from_bytes(value).ok());
            if let (Ok(name), Some(mut value)) = (HeaderName::from_bytes(name), value) {
                value.set_sensitive(*sensitive != 0);
                parts.headers.append(name, value);
            }
        }
        parts
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    // The listener bounds a head far below this.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<4>()?;
    let (found, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = after;
    Some(found)
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
        for pack in [false, true] {
            let head = Head::new(&parts);
            if pack {
                head.pack();
                assert_eq!(Arc::strong_count(&parts), 1, "nothing of the connection's is kept");
            }
            same(head.get(), &parts);
            head.pack();
            same(head.get(), &parts);
            assert_eq!(Arc::strong_count(&parts), 1);
        }
    }
}
