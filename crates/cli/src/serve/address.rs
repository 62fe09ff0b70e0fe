//! The address to listen on.

use std::fmt;

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 8000;

/// A host (a name or an address, an IPv6 one without brackets) and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("--listen already names address and port; leave {0} out, or give --host and --port alone")]
    Conflict(&'static str),
    #[error("--listen {0}: write ADDR:PORT, such as 127.0.0.1:{0}; for the port alone say --port {0}")]
    PortAlone(u16),
    #[error("--admin {0:?}: write ADDR:PORT, such as 127.0.0.1:9000, or 0.0.0.0:9000 for every interface")]
    Admin(String),
    #[error(
        "--listen {0:?}: write ADDR:PORT, such as 127.0.0.1:8000, [::1]:8000, or 0.0.0.0:8000 for every interface"
    )]
    Malformed(String),
    #[error(
        "--host {0:?}: write an address or a name, such as 127.0.0.1 or localhost, without scheme or port"
    )]
    Host(String),
}

/// A value, and whether it was typed (else it came from a variable).
type Given<T> = (Option<T>, bool);

impl Address {
    /// From `--listen`, or `--host` and `--port`. What is typed wins over variables; of two equals, neither is guessed.
    pub(crate) fn choose(
        (listen, listen_typed): Given<&str>,
        (host, host_typed): Given<&str>,
        (port, port_typed): Given<u16>,
    ) -> Result<Self, AddressError> {
        let mut address = Self { host: DEFAULT_HOST.into(), port: DEFAULT_PORT };
        if let Some(listen) = listen {
            for (name, given, typed) in
                [("--host", host.is_some(), host_typed), ("--port", port.is_some(), port_typed)]
            {
                if given && typed == listen_typed {
                    return Err(AddressError::Conflict(name));
                }
            }
            address = Self::parse(listen)?;
        }
        if let Some(host) = host
            && (listen.is_none() || host_typed)
        {
            address.host = check_host(host.trim()).ok_or_else(|| AddressError::Host(host.into()))?;
        }
        if let Some(port) = port
            && (listen.is_none() || port_typed)
        {
            address.port = port;
        }
        Ok(address)
    }

    /// From `--admin`.
    pub(crate) fn admin(text: &str) -> Result<Self, AddressError> {
        Self::parse(text).map_err(|_| AddressError::Admin(text.chars().take(100).collect()))
    }

    fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if let Ok(port) = text.parse::<u16>() {
            return Err(AddressError::PortAlone(port));
        }
        let malformed = || AddressError::Malformed(text.chars().take(100).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        // Without brackets the last group of an IPv6 address would be taken for the port.
        if host.contains(':') && !host.starts_with('[') {
            return Err(malformed());
        }
        let host = check_host(host).ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        Ok(Self { host, port })
    }
}

/// A host without its brackets.
fn check_host(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').map_or(Some(text), |inner| inner.strip_suffix(']'))?;
    if bare.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some(bare.into());
    }
    let name = !bare.is_empty()
        && bare == text
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    name.then(|| bare.into())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(listen: Given<&str>, host: Given<&str>, port: Given<u16>) -> Result<String, AddressError> {
        Address::choose(listen, host, port).map(|address| address.to_string())
    }

    const NOT: (Option<&str>, bool) = (None, false);
    const NO_PORT: (Option<u16>, bool) = (None, false);

    #[test]
    fn what_is_typed_wins() {
        assert_eq!(choose(NOT, NOT, NO_PORT).unwrap(), "127.0.0.1:8000");
        assert_eq!(choose((Some("0.0.0.0:1"), true), NOT, NO_PORT).unwrap(), "0.0.0.0:1");
        assert_eq!(choose(NOT, (Some("::1"), true), (Some(2), true)).unwrap(), "[::1]:2");
        assert_eq!(choose(NOT, (Some("[::1]"), false), (Some(2), true)).unwrap(), "[::1]:2");
        // Typed over a variable, in part.
        assert_eq!(choose((Some("0.0.0.0:1"), false), NOT, (Some(2), true)).unwrap(), "0.0.0.0:2");
        assert_eq!(
            choose((Some("0.0.0.0:1"), true), (Some("x"), false), (Some(2), false)).unwrap(),
            "0.0.0.0:1"
        );
        assert_eq!(
            choose((Some("0.0.0.0:1"), false), NOT, (Some(2), false)),
            Err(AddressError::Conflict("--port"))
        );
        assert_eq!(
            choose((Some("0.0.0.0:1"), true), (Some("x"), true), NO_PORT),
            Err(AddressError::Conflict("--host"))
        );
    }

    #[test]
    fn what_is_no_address() {
        for text in [
            "",
            "localhost",
            ":8000",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "::1:80",
            "[::1:80",
            "http://x:80",
            "a b:80",
        ] {
            assert!(matches!(Address::parse(text), Err(AddressError::Malformed(_))), "{text}");
        }
        assert_eq!(Address::parse("8000"), Err(AddressError::PortAlone(8000)));
        for host in ["", "x:80", "http://x", "[x]", "a b"] {
            assert!(matches!(choose(NOT, (Some(host), true), NO_PORT), Err(AddressError::Host(_))), "{host}");
        }
    }
}
