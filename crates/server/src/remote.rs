//! Which address a request comes from.

use http::{HeaderMap, header::FORWARDED, request::Parts};
use std::net::{IpAddr, SocketAddr};

/// Who connected, in the extensions of a request. [`crate::serve`] knows it; a listener of another framework has to put it there, or limits
/// per address do not apply to callers without a [`crate::Principal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote(pub SocketAddr);

/// The address that limits and logs go by: whoever connected, or where that is a proxy of ours, whom the proxy names.
pub(crate) fn address(head: &Parts, connected: Option<IpAddr>, trust_proxy: bool) -> Option<IpAddr> {
    if !trust_proxy {
        return connected;
    }
    forwarded(&head.headers).or(connected)
}

/// What the nearest proxy wrote of its client: the last entry of `X-Forwarded-For`, else of `Forwarded` (RFC 7239). Entries before the
/// last may be the client's own.
fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let last = |name| {
        let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
        Some(value.rsplit(',').next().unwrap_or(value).trim())
    };
    if let Some(entry) = last(http::HeaderName::from_static("x-forwarded-for")) {
        return node(entry);
    }
    let for_ = |pair: &'_ str| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| node(value.trim().trim_matches('"')))?
    };
    last(FORWARDED)?.split(';').find_map(for_)
}

/// An address, with or without a port, an IPv6 one with or without brackets. Hidden names (`unknown`, `_x`) are none.
fn node(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').map_or(text, |rest| rest.split(']').next().unwrap_or(rest));
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(trust: bool, headers: &[(&str, &str)]) -> String {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        address(&head, Some("192.0.2.1".parse().unwrap()), trust).unwrap().to_string()
    }

    #[test]
    fn the_nearest_proxy_is_believed_where_it_is_ours() {
        let own = "192.0.2.1";
        for (headers, trusted) in [
            (&[][..], own),
            (&[("x-forwarded-for", "198.51.100.7")], "198.51.100.7"),
            (&[("x-forwarded-for", "10.0.0.1, 198.51.100.7 ")], "198.51.100.7"),
            (&[("x-forwarded-for", "10.0.0.1"), ("x-forwarded-for", "198.51.100.7:1234")], "198.51.100.7"),
            (&[("x-forwarded-for", "2001:db8::1")], "2001:db8::1"),
            (&[("x-forwarded-for", "[2001:db8::1]:80")], "2001:db8::1"),
            (&[("x-forwarded-for", "unknown")], own),
            (&[("x-forwarded-for", "")], own),
            (&[("forwarded", "for=10.0.0.1, for=\"[2001:db8::1]:4711\";proto=https")], "2001:db8::1"),
            (&[("forwarded", "proto=https;For=198.51.100.7")], "198.51.100.7"),
            (&[("forwarded", "for=_hidden")], own),
            (&[("forwarded", "for=198.51.100.8"), ("x-forwarded-for", "198.51.100.7")], "198.51.100.7"),
        ] {
            assert_eq!(of(true, headers), trusted, "{headers:?}");
            assert_eq!(of(false, headers), own, "{headers:?}");
        }
    }
}
