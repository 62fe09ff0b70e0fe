//! The first two checks: who asks from where, and for what (SEMANTICS 1.1 and 1.2).

use super::{
    Policy, Refusal, SessionMode,
    get::{check_get_served, no_delete},
    refusal::shown,
};
use crate::jsonrpc::{ErrorObject, code};
use http::{HeaderMap, Method, StatusCode, header};

/// A request that passed the first two checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// What it wants.
    pub verb: Verb,
}

/// A method that this session mode serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Messages: [`super::route_post`].
    Post,
    /// A stream: [`super::route_get`].
    Get,
    /// The end of a session: [`super::route_delete`].
    Delete,
    /// `OPTIONS`: [`super::preflight`].
    Preflight,
}

/// `Origin`, `Host`, path and method, in this order.
///
/// `Host` is checked on a loopback bind, and wherever hosts are configured; a request without one (HTTP/1.0) is then
/// refused. Over HTTP/2 the caller puts `:authority` in its place first.
///
/// # Errors
/// - 400: more than one `Host`.
/// - 403: an `Origin` or a `Host` that is not allowed; the message names the option that would allow it.
/// - 404: another path.
/// - 405: a method that this session mode does not serve, with what it does.
pub fn admit(policy: &Policy, method: &Method, path: &str, headers: &HeaderMap) -> Result<Admitted, Refusal> {
    check_origin(policy, headers)?;
    check_host(policy, headers)?;
    if !policy.serves(path) {
        return Err(Refusal::not_found(path));
    }
    let verb = match *method {
        Method::POST => Verb::Post,
        Method::GET => {
            check_get_served(policy, headers)?;
            Verb::Get
        }
        Method::DELETE if policy.mode == SessionMode::Stateful => Verb::Delete,
        Method::DELETE => return Err(no_delete(policy)),
        Method::OPTIONS => Verb::Preflight,
        _ => {
            let message = format!("{} is not served here", shown(method.as_str().as_bytes()));
            return Err(Refusal::method_not_allowed(policy.methods(), message));
        }
    };
    Ok(Admitted { verb })
}

fn check_origin(policy: &Policy, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    if origins.next().is_some() {
        return Err(forbidden("More than one Origin header".into()));
    }
    if policy.origins.allow(origin.as_bytes(), policy.loopback) {
        return Ok(());
    }
    let origin = shown(origin.as_bytes());
    Err(forbidden(format!("Origin {origin} is not allowed; --allow-origin {origin} would allow it")))
}

fn check_host(policy: &Policy, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Refusal::invalid_request("More than one Host header", None));
    }
    if !policy.loopback && policy.hosts.is_empty() {
        return Ok(());
    }
    let host = host.map_or(&b""[..], http::HeaderValue::as_bytes);
    if policy.hosts.allow(host, policy.loopback) {
        return Ok(());
    }
    if host.trim_ascii().is_empty() {
        return Err(forbidden(
            "No Host header; --allow-host '*' would allow every host and its absence".into(),
        ));
    }
    let host = shown(host);
    Err(forbidden(format!("Host {host} is not allowed; --allow-host {host} would allow it")))
}

fn forbidden(message: String) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, ErrorObject::new(code::INVALID_REQUEST, message))
}
