//! Media types: what a POST sends, and what its sender takes (SEMANTICS 1.4 and 1.5).

use super::{Refusal, Verb, refusal::shown};
use crate::jsonrpc::{ErrorObject, code};
use http::{HeaderMap, StatusCode, header};

const JSON: (&str, &str) = ("application", "json");
const EVENT_STREAM: (&str, &str) = ("text", "event-stream");

/// `Content-Type` and `Accept`.
///
/// Parameters of a type are ignored, its charset too: a body that is not UTF-8 is found when it is read. For `Accept` the
/// most specific range decides, so that `application/json;q=0, */*` does not take JSON.
///
/// # Errors
/// - 415: a POST whose `Content-Type` is not exactly one `application/json`, or whose body is compressed (`Content-Encoding`).
/// - 406: a POST that does not take both `application/json` and `text/event-stream`, a GET that does not take the latter.
pub fn negotiate(verb: Verb, headers: &HeaderMap) -> Result<(), Refusal> {
    match verb {
        Verb::Post => {
            check_content_type(headers)?;
            check_content_encoding(headers)?;
            if says_the_usual(headers) || accepts(headers, JSON) && accepts(headers, EVENT_STREAM) {
                return Ok(());
            }
            Err(not_acceptable("A POST has to accept both application/json and text/event-stream", headers))
        }
        Verb::Get => {
            if accepts(headers, EVENT_STREAM) {
                return Ok(());
            }
            Err(not_acceptable("A GET has to accept text/event-stream", headers))
        }
        Verb::Delete | Verb::Preflight => Ok(()),
    }
}

/// Whether `Accept` is, to the letter, what the SDKs send with a POST: that need not be taken apart.
fn says_the_usual(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().map(|value| value.as_bytes());
    let usual = matches!(
        values.next(),
        Some(
            b"application/json, text/event-stream"
                | b"text/event-stream, application/json"
                | b"application/json,text/event-stream"
        )
    );
    usual && values.next().is_none()
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let (first, more) = (values.next(), values.next());
    if let (Some(first), None) = (first, more) {
        if first == b"application/json" {
            return Ok(());
        }
        let essence = first.split(|&byte| byte == b';').next().unwrap_or(first);
        if split_type(essence).is_some_and(|found| same(found, JSON)) {
            return Ok(());
        }
    }
    let seen = match (first, more) {
        (None, _) => "it is absent".to_owned(),
        (Some(_), Some(_)) => "it stands more than once".to_owned(),
        (Some(first), None) => format!("it is {}", shown(first)),
    };
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorObject::new(
            code::INVALID_REQUEST,
            format!("The Content-Type of a POST has to be application/json; {seen}"),
        ),
    ))
}

/// Nothing is decompressed here: a small body could become one of any size.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = codings.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let plain = |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
    let Some(coding) = codings.find(|coding| !plain(coding.trim_ascii())) else { return Ok(()) };
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorObject::new(
            code::INVALID_REQUEST,
            format!(
                "The body of a POST has to be sent as it is, without a Content-Encoding; it is {}",
                shown(coding.trim_ascii())
            ),
        ),
    ))
}

fn not_acceptable(rule: &str, headers: &HeaderMap) -> Refusal {
    let seen = headers.get(header::ACCEPT).map_or_else(String::new, |value| shown(value.as_bytes()));
    Refusal::new(
        StatusCode::NOT_ACCEPTABLE,
        ErrorObject::new(code::INVALID_REQUEST, format!("{rule}; Accept is {seen}")),
    )
}

/// How closely a range means a type: `*/*`, `type/*`, `type/subtype`.
type Closeness = u8;

/// Whether `Accept` takes `wanted`. An absent or blank header takes everything; a range that cannot be read is skipped, a
/// weight that cannot be read is 1.
fn accepts(headers: &HeaderMap, wanted: (&str, &str)) -> bool {
    let mut blank = true;
    // The closest range so far, and whether one that close has a weight over 0.
    let mut best: Option<(Closeness, bool)> = None;
    for value in headers.get_all(header::ACCEPT) {
        for range in unquoted(value.as_bytes(), b',') {
            if range.trim_ascii().is_empty() {
                continue;
            }
            blank = false;
            let mut parts = unquoted(range, b';');
            let essence = parts.next().unwrap_or_default();
            let Some(closeness) = split_type(essence).and_then(|found| closeness(found, wanted)) else {
                continue;
            };
            let weighs = !parts.any(is_zero_weight);
            best = match best {
                Some((closest, _)) if closest > closeness => best,
                Some((closest, taken)) if closest == closeness => Some((closest, taken || weighs)),
                _ => Some((closeness, weighs)),
            };
        }
    }
    blank || best.is_some_and(|(_, taken)| taken)
}

fn closeness(range: (&[u8], &[u8]), wanted: (&str, &str)) -> Option<Closeness> {
    match range {
        (b"*", b"*") => Some(0),
        (kind, b"*") => kind.eq_ignore_ascii_case(wanted.0.as_bytes()).then_some(1),
        _ => same(range, wanted).then_some(2),
    }
}

fn same(found: (&[u8], &[u8]), wanted: (&str, &str)) -> bool {
    found.0.eq_ignore_ascii_case(wanted.0.as_bytes()) && found.1.eq_ignore_ascii_case(wanted.1.as_bytes())
}

fn split_type(essence: &[u8]) -> Option<(&[u8], &[u8])> {
    let essence = essence.trim_ascii();
    let slash = essence.iter().position(|&byte| byte == b'/')?;
    Some((&essence[..slash], &essence[slash + 1..]))
}

/// Whether this parameter is `q=0`, with or without decimals.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let parameter = parameter.trim_ascii();
    let Some(equals) = parameter.iter().position(|&byte| byte == b'=') else { return false };
    let (name, value) = (parameter[..equals].trim_ascii(), parameter[equals + 1..].trim_ascii());
    name.eq_ignore_ascii_case(b"q")
        && value.first() == Some(&b'0')
        && value[1..].iter().all(|&byte| matches!(byte, b'0' | b'.'))
}

/// The parts of `text` between `separator`s that stand outside of quoted strings.
fn unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => return !quoted && byte == separator,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    const BOTH: &[u8] = b"application/json, text/event-stream";

    fn status(verb: Verb, lines: &[(&HeaderName, &[u8])]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        match negotiate(verb, &headers) {
            Ok(()) => 200,
            Err(refusal) => {
                assert_eq!(refusal.error.code, -32600);
                refusal.status.as_u16()
            }
        }
    }

    #[test]
    fn a_post_is_json() {
        for (values, expected) in [
            (&[][..], 415),
            (&[&b""[..]], 415),
            (&[b"application/json"], 200),
            (&[b"Application/JSON"], 200),
            (&[b" application/json ; charset=utf-8"], 200),
            (&[b"application/json;charset=\"UTF-8\""], 200),
            (&[b"application/json; charset=latin1"], 200),
            (&[b"application/json;"], 200),
            (&[b"application/json, application/json"], 415),
            (&[b"application/json", b"application/json"], 415),
            (&[b"application/json", b"text/plain"], 415),
            (&[b"text/plain"], 415),
            (&[b"text/plain; a=application/json"], 415),
            (&[b"application/jsonx"], 415),
            (&[b"application/json-rpc"], 415),
            (&[b"application/vnd.api+json"], 415),
            (&[b"application/x-www-form-urlencoded"], 415),
            (&[b"*/*"], 415),
            (&[b"json"], 415),
            (&[b"application/\xff"], 415),
        ] {
            let mut lines: Vec<_> = values.iter().map(|value| (&header::CONTENT_TYPE, *value)).collect();
            lines.push((&header::ACCEPT, BOTH));
            assert_eq!(status(Verb::Post, &lines), expected, "{values:?}");
        }
    }

    #[test]
    fn a_post_is_not_compressed() {
        for (values, expected) in [
            (&[][..], 200),
            (&[&b""[..]], 200),
            (&[b"identity"], 200),
            (&[b" Identity, identity"], 200),
            (&[b"gzip"], 415),
            (&[b"identity, br"], 415),
            (&[b"identity", b"deflate"], 415),
        ] {
            let mut lines: Vec<_> = values.iter().map(|value| (&header::CONTENT_ENCODING, *value)).collect();
            lines.push((&header::CONTENT_TYPE, b"application/json"));
            lines.push((&header::ACCEPT, BOTH));
            assert_eq!(status(Verb::Post, &lines), expected, "{values:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        let refusal = check_content_encoding(&headers).unwrap_err();
        assert!(refusal.error.message.ends_with("without a Content-Encoding; it is gzip"));
    }

    /// What each `Accept` is answered: a POST, a GET.
    #[test]
    fn accept_lists_what_is_taken() {
        for (values, post, get) in [
            (&[][..], 200, 200),
            (&[&b""[..]], 200, 200),
            (&[b" , "], 200, 200),
            (&[BOTH], 200, 200),
            (&[b"text/event-stream, application/json"], 200, 200),
            (&[b"text/event-stream,application/json"], 200, 200),
            (&[b"application/json", b"text/event-stream"], 200, 200),
            (&[b"APPLICATION/JSON, Text/Event-Stream"], 200, 200),
            (&[b"application/json;q=0.9, text/event-stream;q=0.1"], 200, 200),
            (&[b"application/json; charset=utf-8, text/event-stream; charset=utf-8"], 200, 200),
            (&[b"*/*"], 200, 200),
            (&[b"*/*;q=0.1"], 200, 200),
            (&[b"application/*, text/*"], 200, 200),
            (&[b"application/json, text/*"], 200, 200),
            (&[b"text/html, application/xhtml+xml, */*;q=0.8"], 200, 200),
            (&[b"application/json"], 406, 406),
            (&[b"application/*"], 406, 406),
            (&[b"text/event-stream"], 406, 200),
            (&[b"text/*"], 406, 200),
            (&[b"text/html"], 406, 406),
            (&[b"application/json, text/event-stream;q=0"], 406, 406),
            (&[b"application/json;q=0, text/event-stream"], 406, 200),
            (&[b"application/json;Q=0.000, text/event-stream"], 406, 200),
            (&[b"application/json; q = 0, text/event-stream"], 406, 200),
            (&[b"application/json;q=0.001, text/event-stream"], 200, 200),
            (&[b"*/*;q=0"], 406, 406),
            // The closest range decides, in any order.
            (&[b"*/*, application/json;q=0"], 406, 200),
            (&[b"application/json;q=0, */*"], 406, 200),
            (&[b"text/event-stream;q=0, text/*, */*"], 406, 406),
            (&[b"*/*;q=0, application/json, text/event-stream"], 200, 200),
            (&[b"text/*;q=0, */*"], 406, 406),
            (&[b"text/*;q=0, text/event-stream, */*"], 200, 200),
            (&[b"application/json;q=0, application/json, text/event-stream"], 200, 200),
            (&[b"application/json, application/json;q=0, text/event-stream"], 200, 200),
            // A weight that cannot be read is 1; a range that cannot be read is skipped.
            (&[b"application/json;q=zero, text/event-stream;q="], 200, 200),
            (&[b"nonsense, application/json, text/event-stream"], 200, 200),
            (&[b"nonsense"], 406, 406),
            (&[b"\xff\xfe"], 406, 406),
            (&[b"\xff, application/json, text/event-stream"], 200, 200),
            // Separators inside of quoted strings separate nothing.
            (&[b"text/html;a=\", application/json, text/event-stream\""], 406, 406),
            (&[b"application/json;a=\";q=0\", text/event-stream;b=\"\\\",\""], 200, 200),
        ] {
            let accept: Vec<_> = values.iter().map(|value| (&header::ACCEPT, *value)).collect();
            let mut with_type = accept.clone();
            with_type.push((&header::CONTENT_TYPE, b"application/json"));
            assert_eq!(status(Verb::Post, &with_type), post, "POST {values:?}");
            assert_eq!(status(Verb::Get, &accept), get, "GET {values:?}");
        }
    }

    #[test]
    fn the_type_is_checked_first_and_only_where_it_matters() {
        assert_eq!(status(Verb::Post, &[(&header::ACCEPT, b"text/html")]), 415);
        for verb in [Verb::Delete, Verb::Preflight] {
            assert_eq!(status(verb, &[(&header::ACCEPT, b"text/html")]), 200);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(accept in proptest::collection::vec(b' '..=255_u8, 0..200)) {
            if let Ok(value) = HeaderValue::from_bytes(&accept) {
                let lines = [(&header::ACCEPT, value.as_bytes())];
                prop_assert!(matches!(status(Verb::Get, &lines), 200 | 406));
            }
        }
    }
}
