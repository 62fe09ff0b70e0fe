//! Which addresses that servers name may be fetched or opened.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use oauth2::url::{Host, Url};

use crate::error::Error;

/// The rule for addresses that come from outside: from a challenge, from metadata, from a redirect.
///
/// - `https`, or `http` where the host is this machine (or where the owner allowed `http`);
/// - this machine only if the MCP server is on it too, so that a server elsewhere cannot have this client talk to local services;
/// - never link-local or unspecified addresses (cloud metadata services are there), never user names or fragments.
///
/// A name that resolves to such an address is not caught: names of companies resolve to private addresses on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPolicy {
    /// `http` is accepted for every host.
    pub allow_http: bool,
    /// The MCP server is on this machine.
    pub local_server: bool,
}

impl AddressPolicy {
    /// The policy for a server.
    #[must_use]
    pub fn for_server(server: &Url, allow_http: bool) -> Self {
        Self { allow_http, local_server: is_loopback(server) }
    }

    /// Parses an address and applies the rule.
    ///
    /// # Errors
    /// [`Error::Address`] with the rule that it breaks.
    pub fn check(&self, address: &str) -> Result<Url, Error> {
        let refuse = |reason| Err(Error::Address { url: crate::error::printable(address), reason });
        let Ok(url) = Url::parse(address) else { return refuse("it is not an absolute URL") };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("it has a user name in it");
        }
        if url.fragment().is_some() {
            return refuse("it has a fragment");
        }
        let loopback = is_loopback(&url);
        match url.scheme() {
            "https" => {}
            "http" if loopback || self.allow_http => {}
            "http" => return refuse("it must be https (http is for this machine only)"),
            _ => return refuse("it must be https"),
        }
        if loopback && !self.local_server {
            return refuse("it is on this machine, and the server that named it is not");
        }
        if is_forbidden(&url) {
            return refuse("it is a link-local or unspecified address");
        }
        Ok(url)
    }
}

/// Whether the host of `url` is this machine by its name or number.
#[must_use]
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        None => false,
    }
}

fn is_forbidden(url: &Url) -> bool {
    let v4 =
        |ip: Ipv4Addr| ip.is_link_local() || ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast();
    let v6 = |ip: Ipv6Addr| ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast();
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        _ => return false,
    };
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => v6(ip),
    }
}

/// The origin of `url` as text: scheme, host, and the port if it is not the usual one.
#[must_use]
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// `url` without query and fragment, for messages.
#[must_use]
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule() {
        let remote = AddressPolicy { allow_http: false, local_server: false };
        let local = AddressPolicy { allow_http: false, local_server: true };
        let open = AddressPolicy { allow_http: true, local_server: false };
        let table: &[(&str, bool, bool, bool)] = &[
            ("https://a.example/x", true, true, true),
            ("http://a.example/x", false, false, true),
            ("http://localhost:1/x", false, true, false),
            ("http://127.0.0.1/x", false, true, false),
            ("https://[::1]/x", false, true, false),
            ("http://[::ffff:127.0.0.1]/", false, true, false),
            ("https://a.localhost./", false, true, false),
            ("https://169.254.169.254/latest", false, false, false),
            ("http://169.254.169.254/latest", false, false, false),
            ("https://[fe80::1]/", false, false, false),
            ("https://[::ffff:169.254.1.1]/", false, false, false),
            ("https://0.0.0.0/", false, false, false),
            ("https://u:p@a.example/", false, false, false),
            ("https://a.example/#f", false, false, false),
            ("file:///etc/passwd", false, false, false),
            ("javascript:alert(1)", false, false, false),
            ("/relative", false, false, false),
        ];
        for (address, for_remote, for_local, with_http) in table {
            assert_eq!(remote.check(address).is_ok(), *for_remote, "{address} from elsewhere");
            assert_eq!(local.check(address).is_ok(), *for_local, "{address} from this machine");
            assert_eq!(open.check(address).is_ok(), *with_http, "{address} with http allowed");
        }
    }
}
