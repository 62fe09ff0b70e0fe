//! Whom to call.

use crate::{ConnectError, pipe::Connector};
use bowline_proto::http::address_shown;
use http::Uri;
use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc};

/// A server to connect to.
#[derive(Clone)]
#[non_exhaustive]
pub enum Target {
    /// Streamable HTTP; HTTP+SSE (2024-11-05) where the server has nothing newer.
    Http(Uri),
    /// HTTP+SSE (2024-11-05) and nothing else.
    HttpSse(Uri),
    /// A program that speaks MCP on its standard input and output.
    Stdio(StdioCommand),
    /// Something else that carries messages both ways.
    Custom(Arc<dyn Connector>),
}

/// A program to start, and to start again when it ended.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct StdioCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables besides those of this process.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub directory: Option<PathBuf>,
}

impl StdioCommand {
    /// A program with arguments.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl Target {
    /// The server at `url`, `http` or `https`.
    ///
    /// # Errors
    /// When `url` is no such address.
    pub fn http(url: &str) -> Result<Self, ConnectError> {
        parse(url).map(Self::Http)
    }

    /// The 2024-11-05 server at `url`.
    ///
    /// # Errors
    /// When `url` is no such address.
    pub fn http_sse(url: &str) -> Result<Self, ConnectError> {
        parse(url).map(Self::HttpSse)
    }

    /// A program with arguments.
    pub fn stdio<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        Self::Stdio(StdioCommand::new(program, args))
    }

    /// A transport of one's own.
    pub fn custom(connector: impl Connector) -> Self {
        Self::Custom(Arc::new(connector))
    }
}

fn parse(url: &str) -> Result<Uri, ConnectError> {
    let bad = |message: &str| ConnectError::BadUrl { url: shown(url), message: message.to_owned() };
    let text = url.split('#').next().unwrap_or_default();
    let scheme = text
        .split_once("://")
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"));
    let Some((_, rest)) = scheme else {
        return Err(bad("not an address that starts with http:// or https://"));
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(bad("a user name or password in the address is not sent; use a header"));
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(bad("the host is missing, as in http://HOST:8000/mcp"));
    }
    let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    // Without this it would be the usual port of the scheme, which nobody named.
    let port = uri.authority().and_then(|all| all.as_str().strip_prefix(all.host())).unwrap_or_default();
    if port.len() > 1 && uri.port_u16().is_none() {
        return Err(bad("the port is no number up to 65535"));
    }
    if uri.path().is_empty() {
        let with_slash = format!("{}/", text.trim_end_matches('/'));
        return with_slash.parse().map_err(|_| bad("not an address"));
    }
    Ok(uri)
}

/// An address as it may be shown, without a password and without a query, which may be a key: errors end up in the logs of hosts.
pub(crate) fn shown(url: &str) -> String {
    if url.is_empty() {
        return "the empty address".into();
    }
    address_shown(url)
}

impl fmt::Display for Target {
    /// The address, or the program: no arguments, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(uri) | Self::HttpSse(uri) => {
                let path = uri.path();
                write!(
                    f,
                    "{}://{}{path}",
                    uri.scheme_str().unwrap_or("http"),
                    uri.authority().map_or("", |a| a.as_str())
                )
            }
            Self::Stdio(command) => write!(f, "{}", command.program.to_string_lossy()),
            Self::Custom(connector) => f.write_str(&connector.describe()),
        }
    }
}

/// Arguments and values of variables may be secrets: they are counted, and not shown.
impl fmt::Debug for StdioCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, env, directory } = self;
        let names: Vec<_> = env.iter().map(|(name, _)| name).collect();
        f.debug_struct("StdioCommand")
            .field("program", program)
            .field("args", &args.len())
            .field("env", &names)
            .field("directory", directory)
            .finish()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let Target::Stdio(mut command) = Target::stdio("server", ["--token", "hunter2"]) else {
            unreachable!()
        };
        command.env.push(("PASSWORD".into(), "hunter2".into()));
        let shown = format!("{command:?} {:?}", Target::Stdio(command.clone()));
        assert!(
            shown.contains("server") && shown.contains("PASSWORD") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn addresses() {
        assert_eq!(Target::http("http://a").unwrap().to_string(), "http://a/");
        for url in ["http://a:8080/mcp", "http://[::1]:8080/mcp", "http://[::1]/mcp"] {
            assert_eq!(Target::http(url).unwrap().to_string(), url);
        }
        assert_eq!(Target::http("https://a:1/mcp?key=secret#x").unwrap().to_string(), "https://a:1/mcp");
        assert_eq!(Target::http("HTTP://a/x").unwrap().to_string(), "http://a/x");
        for (url, why) in [
            ("", "starts with http://"),
            ("a/mcp", "starts with http://"),
            ("ftp://a/", "starts with http://"),
            ("http:/a/", "starts with http://"),
            ("http://", "the host is missing"),
            ("https:///mcp", "the host is missing"),
            ("http://:8000/mcp", "the host is missing"),
            ("http://?x=1", "the host is missing"),
            ("http://u:p@a/", "user name or password"),
            ("http://a b/", "invalid uri character"),
            ("http://a:80x/", "port"),
            ("http://a:65536/", "no number up to 65535"),
        ] {
            match Target::http(url) {
                Err(ConnectError::BadUrl { message, .. }) => {
                    assert!(message.contains(why), "{url}: {message}");
                }
                other => panic!("{url}: {other:?}"),
            }
        }
        let message = Target::http("ftp://a/x?key=hunter2").unwrap_err().to_string();
        assert!(message.starts_with("ftp://a/x: ") && !message.contains("hunter2"), "{message}");
        for url in [
            "http://u:secret@a/x@y",
            "http://u:secret@",
            "ftp://u:sec@ret@a/",
            "u:secret@a",
            "http://u:x/secret@a/mcp",
            "http://u:x?secret@a/mcp",
        ] {
            let message = Target::http(url).unwrap_err().to_string();
            assert!(!message.contains("secret") && !message.contains("ret@"), "{message}");
            assert!(message.contains("***@"), "{message}");
        }
    }
}
