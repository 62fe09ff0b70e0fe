//! Trace context in `_meta` (W3C Trace Context and Baggage).

use crate::jsonrpc::Raw;

/// The longest `tracestate` and `baggage` that are passed on, in bytes: what the W3C recommends at most for either, rounded up.
const MAX_BYTES: usize = 8 * 1024;

/// Which trace a message belongs to. What does not keep to the format is as if it were absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`: version, trace, parent span, flags.
    pub traceparent: Option<Box<str>>,
    /// `tracestate`; only with a `traceparent`.
    pub tracestate: Option<Box<str>>,
    /// `baggage`.
    pub baggage: Option<Box<str>>,
}

impl TraceContext {
    /// Reads the trace context of a `_meta` object.
    #[must_use]
    pub fn read(meta: &Raw) -> Self {
        // Most requests have none: one look at the text is cheaper than three searches for members.
        if !meta.as_str().contains("trace") && !meta.as_str().contains("baggage") {
            return Self::default();
        }
        let text = |name: &str| meta.member(name)?.string().map(String::into_boxed_str);
        let traceparent = text("traceparent").filter(|text| is_traceparent(text));
        let tracestate = text("tracestate").filter(|text| traceparent.is_some() && is_list(text));
        Self { tracestate, baggage: text("baggage").filter(|text| is_list(text)), traceparent }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.traceparent.is_none() && self.baggage.is_none()
    }

    /// The id of the trace, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_ref().map(|text| &text[3..35])
    }

    /// The members that say this in another message's `_meta`.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let named = [
            ("traceparent", &self.traceparent),
            ("tracestate", &self.tracestate),
            ("baggage", &self.baggage),
        ];
        named.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)))
    }
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, neither id all zeros. Later versions may have more behind a further `-`.
fn is_traceparent(text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    let nonzero = |text: &str| text.bytes().any(|byte| byte != b'0');
    if !text.is_ascii() || text.len() < 55 || text.len() > 256 {
        return false;
    }
    let (version, rest) = (&text[..2], &text[55..]);
    let (trace, span, flags) = (&text[3..35], &text[36..52], &text[53..55]);
    let dashes = [2, 35, 52].iter().all(|&at| text.as_bytes()[at] == b'-');
    dashes
        && hex(version)
        && version != "ff"
        && hex(trace)
        && nonzero(trace)
        && hex(span)
        && nonzero(span)
        && hex(flags)
        && (rest.is_empty() || (version != "00" && rest.starts_with('-')))
}

/// A list of `name=value`, as far as it has to be known to be fit for a header.
fn is_list(text: &str) -> bool {
    text.len() <= MAX_BYTES
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && text.split(',').filter(|entry| !entry.trim().is_empty()).all(|entry| entry.contains('='))
        && text.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn only_the_format_of_the_w3c_is_taken() {
        for (text, taken) in [
            (PARENT, true),
            ("01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more", true),
            ("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", false),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("00-0AF7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c_00f067aa0ba902b7-01", false),
            ("", false),
            ("ünicode-with-enough-characters-to-be-long-enough-for-a-trace", false),
        ] {
            assert_eq!(is_traceparent(text), taken, "{text}");
        }
        for (text, taken) in [
            ("a=1", true),
            ("a=1, b=2;x=y", true),
            ("a=1,,b=2", true),
            ("a", false),
            ("", false),
            ("a=\n", false),
        ] {
            assert_eq!(is_list(text), taken, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_context_is_as_if_it_were_absent() {
        let read = |meta| TraceContext::read(&Raw::from_value(&meta).unwrap());
        let full = read(json!({ "traceparent": PARENT, "tracestate": "v=1", "baggage": "k=v" }));
        assert_eq!(full.trace_id(), Some("0af7651916cd43dd8448eb211c80319c"));
        let members: Vec<_> = full.members().collect();
        assert_eq!(members, [("traceparent", PARENT), ("tracestate", "v=1"), ("baggage", "k=v")]);
        assert!(read(json!({ "traceparent": "x", "tracestate": "v=1" })).is_empty());
        assert!(read(json!({ "progressToken": 1 })).is_empty());
        assert!(!read(json!({ "baggage": "k=v" })).is_empty());
    }
}
