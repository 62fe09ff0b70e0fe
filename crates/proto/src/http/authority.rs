//! Hosts and origins, and the lists of those that are allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Web origins that may call: scheme, host and port have to be equal, `null` has to be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins {
    any: bool,
    null: bool,
    listed: Vec<Origin<Box<str>>>,
}

/// Values of `Host` that are taken: a host with its port, or a host with any port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    any: bool,
    listed: Vec<Authority<Box<str>>>,
}

/// Why an entry of an allow list was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AllowListError {
    /// It is no web origin.
    #[error(
        "{0:?} is not an origin: write scheme and host, such as https://app.example.com or http://localhost:5173, without a path; or null; or * for any"
    )]
    NotAnOrigin(String),
    /// It is no host.
    #[error(
        "{0:?} is not a host: write a name or an address, such as mcp.example.com, mcp.example.com:8443 or [::1], without a scheme or a path; or * for any"
    )]
    NotAHost(String),
}

/// A name in any case, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host<S> {
    Name(S),
    Ip(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority<S> {
    host: Host<S>,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin<S> {
    scheme: S,
    authority: Authority<S>,
}

impl AllowedOrigins {
    /// Every origin, `null` too.
    #[must_use]
    pub const fn any() -> Self {
        Self { any: true, null: false, listed: Vec::new() }
    }

    /// Reads a list: `https://app.example.com`, `http://localhost:5173`, `null`, or `*` for any.
    ///
    /// # Errors
    /// The first entry that is none of these.
    pub fn parse<I: IntoIterator<Item: AsRef<str>>>(entries: I) -> Result<Self, AllowListError> {
        let mut list = Self::default();
        for entry in entries {
            match entry.as_ref().trim() {
                "*" => list.any = true,
                "null" => list.null = true,
                text => {
                    let origin = Origin::parse(text.as_bytes())
                        .ok_or_else(|| AllowListError::NotAnOrigin(text.to_owned()))?;
                    list.listed.push(origin.into_owned());
                }
            }
        }
        Ok(list)
    }

    /// Whether every origin is allowed.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.any
    }

    /// Whether the value of an `Origin` header is allowed. `loopback`: the endpoint is bound to a loopback address, so that
    /// http and https pages of this machine are allowed, on any port.
    #[must_use]
    pub fn allow(&self, origin: &[u8], loopback: bool) -> bool {
        if self.any {
            return true;
        }
        let origin = origin.trim_ascii();
        if origin == b"null" {
            return self.null;
        }
        let Some(origin) = Origin::parse(origin) else { return false };
        loopback && origin.is_loopback_page() || self.listed.iter().any(|listed| origin.is(listed))
    }
}

impl AllowedHosts {
    /// Every host, and its absence.
    #[must_use]
    pub const fn any() -> Self {
        Self { any: true, listed: Vec::new() }
    }

    /// Reads a list: `mcp.example.com` (any port), `mcp.example.com:8443`, an address, or `*` for any.
    ///
    /// # Errors
    /// The first entry that is none of these.
    pub fn parse<I: IntoIterator<Item: AsRef<str>>>(entries: I) -> Result<Self, AllowListError> {
        let mut list = Self::default();
        for entry in entries {
            match entry.as_ref().trim() {
                "*" => list.any = true,
                text => {
                    // An IPv6 address is taken without its brackets too: it cannot be anything else.
                    let host = match text.parse::<Ipv6Addr>() {
                        Ok(address) => Authority { host: Host::Ip(address.into()), port: None },
                        Err(_) => Authority::parse(text.as_bytes())
                            .ok_or_else(|| AllowListError::NotAHost(text.to_owned()))?,
                    };
                    list.listed.push(host.into_owned());
                }
            }
        }
        Ok(list)
    }

    /// Whether nothing is configured.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.any && self.listed.is_empty()
    }

    /// Whether the value of a `Host` header is allowed. `loopback`: the endpoint is bound to a loopback address, so that
    /// the names and addresses of this machine are allowed, with any port.
    #[must_use]
    pub fn allow(&self, host: &[u8], loopback: bool) -> bool {
        if self.any {
            return true;
        }
        let Some(host) = Authority::parse(host.trim_ascii()) else { return false };
        loopback && host.host.is_loopback() || self.listed.iter().any(|listed| host.is(listed))
    }
}

impl<'a> Host<&'a str> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Ip(address.into()));
        }
        // What nearly all servers of this machine are asked for is not worth a parse.
        if text == "127.0.0.1" {
            return Some(Self::Ip(Ipv4Addr::LOCALHOST.into()));
        }
        if text.starts_with(|first: char| first.is_ascii_digit())
            && let Ok(address) = text.parse::<Ipv4Addr>()
        {
            return Some(Self::Ip(address.into()));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        (!text.is_empty() && text.bytes().all(fits)).then_some(Self::Name(text))
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name.eq_ignore_ascii_case("localhost"),
            Self::Ip(address) => address.is_loopback(),
        }
    }

    fn is(&self, other: &Host<Box<str>>) -> bool {
        match (self, other) {
            (Self::Name(a), Host::Name(b)) => a.eq_ignore_ascii_case(b),
            (Self::Ip(a), Host::Ip(b)) => a == b,
            _ => false,
        }
    }
}

impl<'a> Authority<&'a str> {
    /// Reads `host`, `host:port` or `host:`; nothing else may stand there.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let host_end =
            if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
        let (host, rest) = text.split_at(host_end);
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            None => return None,
            Some("") => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self { host: Host::parse(host)?, port })
    }

    /// Whether the list means this one. An entry without a port means every port; one with a port that is the default of
    /// http or https also means its absence, because clients leave it out.
    fn is(&self, listed: &Authority<Box<str>>) -> bool {
        let port = match (self.port, listed.port) {
            (_, None) | (None, Some(80 | 443)) => true,
            (port, listed) => port == listed,
        };
        port && self.host.is(&listed.host)
    }

    fn into_owned(self) -> Authority<Box<str>> {
        let host = match self.host {
            Host::Name(name) => Host::Name(name.into()),
            Host::Ip(address) => Host::Ip(address),
        };
        Authority { host, port: self.port }
    }
}

impl<'a> Origin<&'a str> {
    /// Reads `scheme://host` or `scheme://host:port`; nothing else may stand there.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (scheme, rest) = std::str::from_utf8(text).ok()?.split_once("://")?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(fits) {
            return None;
        }
        Some(Self { scheme, authority: Authority::parse(rest.as_bytes())? })
    }

    fn is_loopback_page(&self) -> bool {
        (self.scheme.eq_ignore_ascii_case("http") || self.scheme.eq_ignore_ascii_case("https"))
            && self.authority.host.is_loopback()
    }

    fn is(&self, listed: &Origin<Box<str>>) -> bool {
        self.scheme.eq_ignore_ascii_case(&listed.scheme)
            && self.authority.host.is(&listed.authority.host)
            && port_of(self.scheme, self.authority.port) == port_of(&listed.scheme, listed.authority.port)
    }

    fn into_owned(self) -> Origin<Box<str>> {
        Origin { scheme: self.scheme.into(), authority: self.authority.into_owned() }
    }
}

/// The port, or the default one of the scheme.
fn port_of(scheme: &str, port: Option<u16>) -> Option<u16> {
    port.or_else(|| {
        if scheme.eq_ignore_ascii_case("http") {
            Some(80)
        } else if scheme.eq_ignore_ascii_case("https") {
            Some(443)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_pages_are_allowed_on_a_loopback_bind_only() {
        let none = AllowedOrigins::default();
        for (origin, allowed) in [
            ("http://localhost", true),
            ("http://localhost:5173", true),
            ("https://localhost:5173", true),
            ("HTTP://LocalHost:1", true),
            ("http://127.0.0.1:6274", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:80", true),
            ("http://[0:0:0:0:0:0:0:1]", true),
            ("http://localhost.evil.example", false),
            ("http://evil.example", false),
            ("http://127.0.0.1.evil.example", false),
            ("http://localhost@evil.example", false),
            ("http://evil.example#localhost", false),
            ("http://10.0.0.1", false),
            ("http://0.0.0.0", false),
            ("http://[::2]", false),
            ("http://localhost/", false),
            ("http://localhost:99999", false),
            ("http://localhost:80x", false),
            ("chrome-extension://localhost", false),
            ("file://", false),
            ("localhost", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(none.allow(origin.as_bytes(), true), allowed, "{origin}");
            assert!(!none.allow(origin.as_bytes(), false), "{origin}");
        }
        assert!(!none.allow(b"http://localhost\xff", true));
    }

    #[test]
    fn a_listed_origin_is_equal_in_scheme_host_and_port() {
        let list = AllowedOrigins::parse([
            "https://App.Example.com",
            "http://10.0.0.1:8080",
            "https://[2001:db8::1]",
            "chrome-extension://abcdef",
        ])
        .unwrap();
        for (origin, allowed) in [
            ("https://app.example.com", true),
            ("https://APP.example.com", true),
            ("https://app.example.com:443", true),
            (" https://app.example.com ", true),
            ("http://10.0.0.1:8080", true),
            ("https://[2001:DB8:0::1]:443", true),
            ("chrome-extension://abcdef", true),
            ("http://app.example.com", false),
            ("https://app.example.com:8443", false),
            ("https://app.example.com.evil.example", false),
            ("https://evil-app.example.com", false),
            ("https://example.com", false),
            ("https://app.example.com/", false),
            ("http://10.0.0.1", false),
            ("chrome-extension://abcdeg", false),
            ("http://localhost", false),
            ("null", false),
        ] {
            assert_eq!(list.allow(origin.as_bytes(), false), allowed, "{origin}");
        }
    }

    #[test]
    fn null_and_any_have_to_be_listed() {
        let null = AllowedOrigins::parse(["null"]).unwrap();
        assert!(null.allow(b"null", false) && !null.allow(b"https://a.example", false));
        let any = AllowedOrigins::parse(["*"]).unwrap();
        assert_eq!(any, AllowedOrigins::any());
        assert!(any.is_any());
        for origin in ["null", "https://a.example", "what is this"] {
            assert!(any.allow(origin.as_bytes(), false));
        }
    }

    #[test]
    fn a_host_is_listed_with_its_port_or_with_every_port() {
        let list =
            AllowedHosts::parse(["mcp.example.com", "a.example:8443", "b.example:443", "10.0.0.1", "::2"])
                .unwrap();
        for (host, allowed) in [
            ("mcp.example.com", true),
            ("MCP.example.com:8000", true),
            ("mcp.example.com:", true),
            ("a.example:8443", true),
            ("a.example", false),
            ("a.example:443", false),
            ("b.example", true),
            ("b.example:443", true),
            ("b.example:80", false),
            ("10.0.0.1:9", true),
            ("[::2]:9", true),
            ("mcp.example.com.evil.example", false),
            ("user@mcp.example.com", false),
            ("mcp.example.com/x", false),
            ("mcp.example.com:8000:1", false),
            ("[::2", false),
            ("[::2]x", false),
            ("localhost", false),
            ("", false),
        ] {
            assert_eq!(list.allow(host.as_bytes(), false), allowed, "{host}");
        }
        assert!(!list.is_empty() && AllowedHosts::default().is_empty());
        assert!(AllowedHosts::parse(["*"]).unwrap().allow(b"", false));
    }

    #[test]
    fn loopback_hosts_are_allowed_on_a_loopback_bind_only() {
        let none = AllowedHosts::default();
        for (host, allowed) in [
            ("localhost", true),
            ("LOCALHOST:8000", true),
            ("127.0.0.1:8000", true),
            ("127.9.9.9", true),
            ("[::1]:8000", true),
            ("rebound.example:8000", false),
            ("10.0.0.1", false),
            ("::1", false),
            ("", false),
        ] {
            assert_eq!(none.allow(host.as_bytes(), true), allowed, "{host}");
            assert!(!none.allow(host.as_bytes(), false), "{host}");
        }
    }

    #[test]
    fn an_entry_that_is_not_understood_is_named() {
        for entry in [
            "app.example.com",
            "https://",
            "https://a.example/x",
            "https://a.example/",
            "https://*.a.example",
            "",
        ] {
            let error = AllowedOrigins::parse(["null", entry]).unwrap_err();
            assert_eq!(error, AllowListError::NotAnOrigin(entry.into()));
            assert!(error.to_string().contains(&format!("{entry:?}")));
        }
        for entry in ["https://a.example", "a.example/x", "*.a.example", "a b", "a:b", ""] {
            assert_eq!(AllowedHosts::parse([entry]), Err(AllowListError::NotAHost(entry.into())));
        }
    }
}
