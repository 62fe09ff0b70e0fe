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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{
        AllowedHosts, AllowedOrigins,
        policy::tests::{RESUMABLE, STATEFUL, STATELESS, policy},
    };
    use http::HeaderValue;

    fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    fn status(policy: &Policy, lines: &[(&str, &[u8])]) -> u16 {
        admit(policy, &Method::POST, "/mcp", &headers(lines))
            .map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    const LOCAL: (&str, &[u8]) = ("host", b"localhost:8000");

    #[test]
    fn origin_on_a_loopback_bind() {
        let policy = policy(STATEFUL);
        for (origins, expected) in [
            (&[][..], 200),
            (&[&b"http://localhost:5173"[..]], 200),
            (&[b"https://evil.example"], 403),
            (&[b"null"], 403),
            (&[b""], 403),
            (&[b"http://localhost\xff"], 403),
            (&[b"http://localhost", b"http://localhost"], 403),
            (&[b"http://localhost", b"https://evil.example"], 403),
        ] {
            let mut lines: Vec<_> = origins.iter().map(|origin| ("origin", *origin)).collect();
            lines.push(LOCAL);
            assert_eq!(status(&policy, &lines), expected, "{origins:?}");
        }
    }

    #[test]
    fn host_on_a_loopback_bind() {
        let mut policy = policy(STATEFUL);
        for (hosts, expected) in [
            (&[][..], 403),
            (&[&b""[..]], 403),
            (&[b"127.0.0.1:8000"], 200),
            (&[b"rebound.example:8000"], 403),
            (&[b"localhost\xff"], 403),
            (&[b"localhost", b"localhost"], 400),
        ] {
            let lines: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(status(&policy, &lines), expected, "{hosts:?}");
        }
        policy.hosts = AllowedHosts::parse(["rebound.example"]).unwrap();
        assert_eq!(status(&policy, &[("host", b"rebound.example:8000")]), 200);
        policy.hosts = AllowedHosts::any();
        assert_eq!(status(&policy, &[]), 200);
    }

    #[test]
    fn another_bind_checks_hosts_that_are_configured_and_origins_always() {
        let mut policy = Policy { loopback: false, ..policy(STATEFUL) };
        assert_eq!(status(&policy, &[("host", b"anything")]), 200);
        assert_eq!(status(&policy, &[]), 200);
        assert_eq!(status(&policy, &[("origin", b"http://localhost")]), 403);
        policy.hosts = AllowedHosts::parse(["mcp.example.com"]).unwrap();
        policy.origins = AllowedOrigins::parse(["https://app.example.com"]).unwrap();
        assert_eq!(status(&policy, &[("host", b"anything")]), 403);
        assert_eq!(status(&policy, &[]), 403);
        assert_eq!(
            status(&policy, &[("host", b"mcp.example.com"), ("origin", b"https://app.example.com")]),
            200
        );
    }

    #[test]
    fn a_403_names_the_option_and_what_was_seen() {
        let told = |lines| {
            admit(&policy(STATEFUL), &Method::POST, "/mcp", &headers(lines)).unwrap_err().error.message
        };
        let message = told(&[LOCAL, ("origin", b"https://app.example.com")]);
        assert!(message.contains("--allow-origin https://app.example.com"), "{message}");
        let message = told(&[("host", b"mcp.example.com")]);
        assert!(message.contains("--allow-host mcp.example.com"), "{message}");
        assert!(told(&[]).contains("--allow-host"));
        let message = told(&[LOCAL, ("origin", &[b'\xe9'; 5000])]);
        assert!(message.is_ascii() && message.len() < 400, "{message}");
    }

    #[test]
    fn methods_of_each_mode() {
        const ALL: &str = "POST, GET, DELETE, OPTIONS";
        const SOME: &str = "POST, GET, OPTIONS";
        const FEW: &str = "POST, OPTIONS";
        let cursor: &[(&str, &[u8])] = &[LOCAL, ("last-event-id", b"x")];
        let plain: &[(&str, &[u8])] = &[LOCAL];
        for (mode, method, lines, expected) in [
            (STATEFUL, Method::POST, plain, Ok(Verb::Post)),
            (STATEFUL, Method::GET, plain, Ok(Verb::Get)),
            (STATEFUL, Method::GET, cursor, Ok(Verb::Get)),
            (STATEFUL, Method::DELETE, plain, Ok(Verb::Delete)),
            (STATEFUL, Method::OPTIONS, plain, Ok(Verb::Preflight)),
            (STATEFUL, Method::HEAD, plain, Err(ALL)),
            (STATEFUL, Method::PUT, plain, Err(ALL)),
            (STATEFUL, Method::PATCH, plain, Err(ALL)),
            (STATEFUL, Method::from_bytes(b"post").unwrap(), plain, Err(ALL)),
            (STATELESS, Method::POST, plain, Ok(Verb::Post)),
            (STATELESS, Method::OPTIONS, plain, Ok(Verb::Preflight)),
            (STATELESS, Method::GET, plain, Err(FEW)),
            (STATELESS, Method::GET, cursor, Err(FEW)),
            (STATELESS, Method::DELETE, plain, Err(FEW)),
            (STATELESS, Method::HEAD, plain, Err(FEW)),
            (RESUMABLE, Method::POST, plain, Ok(Verb::Post)),
            (RESUMABLE, Method::GET, cursor, Ok(Verb::Get)),
            (RESUMABLE, Method::GET, plain, Err(SOME)),
            (RESUMABLE, Method::DELETE, plain, Err(SOME)),
            (RESUMABLE, Method::TRACE, plain, Err(SOME)),
        ] {
            let answer = admit(&policy(mode), &method, "/mcp/", &headers(lines));
            let answer = answer.map(|admitted| admitted.verb).map_err(|refusal| {
                assert_eq!(refusal.status, 405);
                refusal.allow.unwrap().as_str()
            });
            assert_eq!(answer, expected, "{mode:?} {method}");
        }
    }

    #[test]
    fn the_first_check_that_fails_answers() {
        let policy = policy(STATELESS);
        let status = |method: Method, path, lines| {
            admit(&policy, &method, path, &headers(lines)).unwrap_err().status.as_u16()
        };
        let evil: &[(&str, &[u8])] = &[("origin", b"https://evil.example"), ("host", b"a"), ("host", b"b")];
        assert_eq!(status(Method::PUT, "/x", evil), 403);
        assert_eq!(status(Method::PUT, "/x", &evil[1..]), 400);
        assert_eq!(status(Method::PUT, "/x", &[LOCAL]), 404);
        assert_eq!(status(Method::OPTIONS, "/x", &[LOCAL]), 404);
        assert_eq!(status(Method::PUT, "/mcp", &[LOCAL]), 405);
    }
}
