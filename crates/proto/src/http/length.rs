//! Bodies that are too large or too slow (SEMANTICS 1.6).

use super::{Policy, Refusal, refusal::shown};
use crate::jsonrpc::{ErrorObject, code};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use std::time::Duration;

/// Refuses a body that is declared to be larger than the limit, before any of it is read. A body without a declared
/// length has to be counted while it is read.
///
/// # Errors
/// 413 as [`too_large`]; 400 for a length that is no number.
pub fn check_length(policy: &Policy, headers: &HeaderMap) -> Result<(), Refusal> {
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let digits = value.as_bytes().trim_ascii();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            let message = format!("Content-Length is not a number: {}", shown(digits));
            return Err(Refusal { close: true, ..Refusal::invalid_request(message, None) });
        }
        // A number of bytes that does not fit is over every limit.
        let declared = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        if declared.is_none_or(|declared: u64| declared > policy.body_limit) {
            return Err(too_large(policy.body_limit));
        }
    }
    Ok(())
}

/// 413: the body is larger than `limit` bytes. What is left of it is not read.
#[must_use]
pub fn too_large(limit: u64) -> Refusal {
    let error = ErrorObject::new(
        code::INVALID_REQUEST,
        format!("The body is larger than {limit} bytes, the limit of this server"),
    )
    .with_data(&json!({ "reason": "too_large", "limit": limit }));
    Refusal { close: true, ..Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error) }
}

/// 408: the body did not come within `timeout`.
#[must_use]
pub fn too_slow(timeout: Duration) -> Refusal {
    let error = ErrorObject::new(
        code::INVALID_REQUEST,
        format!("The body did not arrive within {} s", timeout.as_secs_f64()),
    )
    .with_data(&json!({ "reason": "timeout" }));
    Refusal { close: true, ..Refusal::new(StatusCode::REQUEST_TIMEOUT, error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::policy::tests::{STATEFUL, policy};
    use http::HeaderValue;

    #[test]
    fn a_declared_length_is_held_against_the_limit() {
        let policy = Policy { body_limit: 100, ..policy(STATEFUL) };
        for (lengths, status) in [
            (&[][..], None),
            (&["0"], None),
            (&["100"], None),
            (&["101"], Some(413)),
            (&["99999999999999999999999999"], Some(413)),
            (&["100", "101"], Some(413)),
            (&["-1"], Some(400)),
            (&["ten"], Some(400)),
            (&[""], Some(400)),
        ] {
            let mut headers = HeaderMap::new();
            for length in lengths {
                headers.append(header::CONTENT_LENGTH, HeaderValue::from_static(length));
            }
            let refusal = check_length(&policy, &headers).err();
            assert_eq!(refusal.as_ref().map(|refusal| refusal.status.as_u16()), status, "{lengths:?}");
            assert!(refusal.is_none_or(|refusal| refusal.close));
        }
    }

    #[test]
    fn both_faults_say_the_bound_and_close() {
        let refusal = too_large(4096);
        assert_eq!((refusal.status.as_u16(), refusal.close), (413, true));
        assert!(refusal.error.message.contains("4096"));
        let refusal = too_slow(Duration::from_millis(1500));
        assert_eq!((refusal.status.as_u16(), refusal.close), (408, true));
        assert!(refusal.error.message.contains("1.5 s"));
    }
}
