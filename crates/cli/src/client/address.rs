//! The address of the far side, and whether it may be called without encryption.

use bowline_client::{ConnectError, Target};
use bowline_oauth::Url;
use std::net::IpAddr;

/// Why an address is not called.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error(transparent)]
    Bad(#[from] ConnectError),
    #[error(
        "{0}: everything, credentials included, would go over the network in the clear; use https, or say --allow-http if you trust that network"
    )]
    Clear(String),
}

/// Checks an address: `https`, or `http` to this machine, or any `http` where that is allowed.
pub(super) fn check(url: &str, allow_http: bool) -> Result<Url, AddressError> {
    // The client's own rules come first; their message says what is wrong.
    let target = Target::http(url)?;
    let bad = |error: &dyn std::fmt::Display| ConnectError::BadUrl {
        url: target.to_string(),
        message: error.to_string(),
    };
    let parsed = Url::parse(url).map_err(|error| bad(&error))?;
    if parsed.scheme() == "http" && !allow_http && !is_here(&parsed) {
        let mut shown = parsed;
        shown.set_query(None);
        shown.set_fragment(None);
        return Err(AddressError::Clear(shown.into()));
    }
    Ok(parsed)
}

/// Whether the host is this machine, by its name or number.
fn is_here(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    number.map_or_else(|_| host == "localhost" || host.ends_with(".localhost"), |number| number.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_not_left_out_by_accident() {
        for url in [
            "https://a.example/mcp",
            "http://127.0.0.1:1/",
            "http://localhost/x",
            "http://[::1]:9/",
            "http://a.localhost",
        ] {
            assert!(check(url, false).is_ok(), "{url}");
        }
        for url in ["http://a.example/mcp?key=hunter2", "http://10.0.0.1/", "http://localhost.example/"] {
            let error = check(url, false).unwrap_err();
            assert!(matches!(&error, AddressError::Clear(_)), "{url}");
            assert!(
                error.to_string().contains("--allow-http") && !error.to_string().contains("hunter2"),
                "{error}"
            );
            assert!(check(url, true).is_ok(), "{url}");
        }
        for url in ["ftp://a/", "a.example/mcp", "", "http://u:p@a/"] {
            assert!(matches!(check(url, true), Err(AddressError::Bad(_))), "{url}");
        }
    }
}
