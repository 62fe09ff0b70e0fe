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
/// - 415: a POST whose `Content-Type` is not exactly one `application/json`.
/// - 406: a POST that does not take both `application/json` and `text/event-stream`, a GET that does not take the latter.
pub fn negotiate(verb: Verb, headers: &HeaderMap) -> Result<(), Refusal> {
    match verb {
        Verb::Post => {
            check_content_type(headers)?;
            if accepts(headers, JSON) && accepts(headers, EVENT_STREAM) {
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

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let (first, more) = (values.next(), values.next());
    if let (Some(first), None) = (first, more) {
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
