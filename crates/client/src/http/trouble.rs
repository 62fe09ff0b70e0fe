//! What a failed connection means, for a person: what happened, with whom, and what to do about it.

use http::Uri;
use rustls::{AlertDescription, CertificateError};
use std::{error::Error, io};

/// Names of a certificate that are told; it may have a thousand.
const MAX_NAMES: usize = 5;
const DAY: u64 = 24 * 60 * 60;

/// Why a request to `url` has no answer, in words for the person who typed the address.
///
/// `error` is what an HTTP client over rustls failed with; causes are looked for in it. Where nothing better is known, it is the
/// error with its causes.
#[must_use]
pub fn connection_trouble(url: &Uri, error: &(dyn Error + 'static)) -> String {
    explained(url, error).map_or_else(|| with_causes(error), |(text, _)| text)
}

/// The same, and whether it is no use to try again soon: the server is there, and is not what it has to be.
pub(super) fn trouble(url: &Uri, error: &(dyn Error + 'static)) -> (String, bool) {
    explained(url, error).unwrap_or_else(|| (with_causes(error), false))
}

fn explained(url: &Uri, error: &(dyn Error + 'static)) -> Option<(String, bool)> {
    let host = url.authority().map_or("the server", |authority| authority.as_str());
    let is_tls = url.scheme_str() == Some("https");
    if let Some(error) = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return tls(host, error);
    }
    let mut hypers = causes(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>());
    if !is_tls && hypers.any(hyper::Error::is_parse) {
        let text = format!(
            "{host} answers in something that is not HTTP: if it is served with TLS, its address begins with https://"
        );
        return Some((text, true));
    }
    let mut kinds = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let closed = kinds.any(|kind| kind == io::ErrorKind::UnexpectedEof);
    let text = format!(
        "{host} closed the connection during the TLS handshake: if it is served without TLS, its address begins with http://"
    );
    (is_tls && closed).then_some((text, false))
}

fn tls(host: &str, error: &rustls::Error) -> Option<(String, bool)> {
    let text = match error {
        rustls::Error::InvalidCertificate(error) => certificate(host, error),
        rustls::Error::InvalidMessage(_) => format!(
            "{host} does not answer in TLS: if it is served without, its address begins with http://, not https://"
        ),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            format!("{host} wants a certificate of its clients (mutual TLS), and this client has none")
        }
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            format!("{host} has no certificate for that name: is the host in the address the right one?")
        }
        rustls::Error::AlertReceived(alert) => {
            format!("{host} refused the TLS handshake ({alert:?}): its TLS settings or versions do not fit")
        }
        rustls::Error::PeerIncompatible(_) => {
            format!("{host} has no version or cipher of TLS that is safe (TLS 1.2 or 1.3): {error}")
        }
        _ => return None,
    };
    Some((text, true))
}

fn certificate(host: &str, error: &CertificateError) -> String {
    match error {
        // An authority of the same name, and another key, is known in the other cases.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => format!(
            "the certificate of {host} is signed by nobody whom this machine trusts: add its authority (or the certificate, if it signs itself) to the system's, or name a PEM file with all that are to be trusted in the variable SSL_CERT_FILE"
        ),
        CertificateError::Expired => format!(
            "the certificate of {host} has expired: whoever runs the server has to renew it, unless this machine's clock is wrong"
        ),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate of {host} expired {}: whoever runs the server has to renew it, unless this machine's clock is wrong",
            ago(time.as_secs().saturating_sub(not_after.as_secs()))
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of {host} is not valid yet: is this machine's clock right?")
        }
        CertificateError::NotValidForName => {
            format!("the certificate of {host} is for another name: use that name in the address")
        }
        CertificateError::NotValidForNameContext { presented, .. } => format!(
            "the certificate of {host} is for another name{}: use that name in the address, or give the server a certificate for this one",
            names(presented)
        ),
        CertificateError::Revoked => {
            format!("the certificate of {host} was revoked: do not trust that server")
        }
        error => {
            let reason = error.to_string();
            let reason = reason.split_once(" {").map_or(&*reason, |(kind, _)| kind);
            format!("the certificate of {host} cannot be trusted: {reason}")
        }
    }
}

fn ago(seconds: u64) -> String {
    match seconds / DAY {
        0 => "today".into(),
        1 => "a day ago".into(),
        days => format!("{days} days ago"),
    }
}

/// The names in a certificate, as rustls writes them: `DnsName("a.example")`.
fn names(presented: &[String]) -> String {
    let mut text = String::new();
    for (at, name) in presented.iter().take(MAX_NAMES).enumerate() {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        text.push_str(if at == 0 { " (" } else { ", " });
        text.push_str(inner.trim_matches('"'));
    }
    if !text.is_empty() {
        text.push_str(if presented.len() > MAX_NAMES { ", ...)" } else { ")" });
    }
    text
}

/// An error and its causes. What an `io::Error` wraps is not among its sources, and is here.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

/// An error with its causes, as one line: hyper's own says little, and the pool's that it is one of a client.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let pool = error.downcast_ref::<hyper_util::client::legacy::Error>();
    let error = pool.and_then(Error::source).unwrap_or(error);
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{ServerName, UnixTime};
    use std::time::Duration;

    fn said(url: &'static str, error: impl Error + Send + Sync + 'static) -> (String, bool) {
        // As a connector wraps it.
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
        trouble(&Uri::from_static(url), &wrapped)
    }

    #[test]
    fn certificates() {
        let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired = |seconds| CertificateError::ExpiredContext { time: time(seconds), not_after: time(1) };
        let other = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.example").unwrap(),
            presented: presented.iter().map(|&name| name.to_owned()).collect(),
        };
        for (error, parts) in [
            (CertificateError::UnknownIssuer, ["a.example:8443 is signed by nobody", "SSL_CERT_FILE"]),
            (CertificateError::Expired, ["has expired", "clock"]),
            (expired(10), ["expired today", "renew"]),
            (expired(DAY * 4), ["expired 3 days ago", "renew"]),
            (CertificateError::NotValidYet, ["not valid yet", "clock"]),
            (other(&[]), ["for another name:", "use that name"]),
            (other(&[r#"DnsName("b.example")"#, "IpAddress(1.2.3.4)"]), ["(b.example, 1.2.3.4)", "use that"]),
            (other(&["x"; 9]), ["(x, x, x, x, x, ...)", "use that name"]),
            (CertificateError::Revoked, ["was revoked", "a.example:8443"]),
            (CertificateError::BadSignature, ["a.example:8443 is signed by nobody", "SSL_CERT_FILE"]),
            (CertificateError::BadEncoding, ["cannot be trusted", "a.example:8443"]),
        ] {
            let shown = format!("{error:?}");
            let (text, lasts) = said("https://a.example:8443/mcp", rustls::Error::from(error));
            assert!(lasts && parts.iter().all(|part| text.contains(part)), "{shown}: {text}");
        }
    }

    #[test]
    fn what_is_no_matter_of_certificates() {
        let alert = |alert| said("https://a/", rustls::Error::AlertReceived(alert)).0;
        assert!(alert(AlertDescription::CertificateRequired).contains("mutual TLS"));
        assert!(alert(AlertDescription::HandshakeFailure).contains("HandshakeFailure"));
        let (text, lasts) = said("https://a/", io::Error::from(io::ErrorKind::UnexpectedEof));
        assert!(text.contains("a closed the connection") && text.contains("http://") && !lasts, "{text}");
        let (text, lasts) = said("https://a/", io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(text.contains("refused") && !lasts, "{text}");
    }
}
