//! What an endpoint is configured to.

use super::{AllowedHosts, AllowedOrigins};
use crate::revision::Revision;

/// What one endpoint serves, to whom; built once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The path, `/mcp` by default. It is served with and without a slash at its end.
    pub path: String,
    /// Web origins that may call, beside the loopback ones of a loopback bind.
    pub origins: AllowedOrigins,
    /// Values of `Host` that are taken, beside the loopback ones of a loopback bind.
    pub hosts: AllowedHosts,
    /// Whether the endpoint is bound to a loopback address. Loopback origins are allowed then, and `Host` is checked, which
    /// is what stops a web page that rebinds its own name to 127.0.0.1.
    pub loopback: bool,
    /// Whether there are sessions.
    pub mode: SessionMode,
    /// The largest body that is read, in bytes.
    pub body_limit: u64,
    /// Whether modern revisions are served beside the legacy ones (SEMANTICS 4).
    pub modern: bool,
}

/// Whether `initialize` starts a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    /// It does. A later request has to bring the id of its session.
    Stateful,
    /// It does not, and every request stands alone. Nothing can be asked of a client.
    Stateless {
        /// Whether the stream of a slow call may be polled with GET and `Last-Event-ID`.
        resumable: bool,
        /// What is said to a session id, which nobody here can have given out.
        stale_session: StaleSession,
    },
}

/// What an endpoint without sessions says to a session id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaleSession {
    /// 404, so that the client learns that its session is gone.
    #[default]
    NotFound,
    /// Nothing: the request is served as if the header were absent, for platforms that inject ids.
    Ignore,
}

/// The HTTP methods that an endpoint serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Sessions, standalone streams and resumption.
    PostGetDelete,
    /// No sessions, but resumption.
    PostGet,
    /// No sessions and nothing to resume.
    Post,
}

impl Methods {
    /// The value of `Allow`. It holds `OPTIONS`, which is always served.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PostGetDelete => "POST, GET, DELETE, OPTIONS",
            Self::PostGet => "POST, GET, OPTIONS",
            Self::Post => "POST, OPTIONS",
        }
    }
}

impl Policy {
    /// The methods that are served in this session mode.
    #[must_use]
    pub const fn methods(&self) -> Methods {
        match self.mode {
            SessionMode::Stateful => Methods::PostGetDelete,
            SessionMode::Stateless { resumable: true, .. } => Methods::PostGet,
            SessionMode::Stateless { resumable: false, .. } => Methods::Post,
        }
    }

    /// Whether `revision` is served.
    #[must_use]
    pub const fn serves_revision(&self, revision: Revision) -> bool {
        self.modern || !revision.is_modern()
    }

    /// The revisions that are served, newest first.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> + use<> {
        let modern = self.modern;
        Revision::ALL.into_iter().rev().filter(move |revision| modern || !revision.is_modern())
    }

    /// Whether `path` is the endpoint's, with or without a slash at its end.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        fn bare(path: &str) -> &str {
            path.strip_suffix('/').unwrap_or(path)
        }
        bare(path) == bare(&self.path)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A policy as `bowline serve` has it by default.
    pub(in crate::http) fn policy(mode: SessionMode) -> Policy {
        Policy {
            path: "/mcp".into(),
            origins: AllowedOrigins::default(),
            hosts: AllowedHosts::default(),
            loopback: true,
            mode,
            body_limit: 4 << 20,
            modern: false,
        }
    }

    pub(in crate::http) const STATEFUL: SessionMode = SessionMode::Stateful;
    pub(in crate::http) const STATELESS: SessionMode =
        SessionMode::Stateless { resumable: false, stale_session: StaleSession::NotFound };
    pub(in crate::http) const RESUMABLE: SessionMode =
        SessionMode::Stateless { resumable: true, stale_session: StaleSession::NotFound };

    #[test]
    fn one_path_is_served_with_and_without_its_slash() {
        for configured in ["/mcp", "/mcp/"] {
            let policy = Policy { path: configured.into(), ..policy(STATEFUL) };
            for (path, served) in [
                ("/mcp", true),
                ("/mcp/", true),
                ("/mcp//", false),
                ("/MCP", false),
                ("/mcpx", false),
                ("/", false),
                ("/mcp/x", false),
                ("//mcp", false),
            ] {
                assert_eq!(policy.serves(path), served, "{configured} {path}");
            }
        }
        let root = Policy { path: "/".into(), ..policy(STATEFUL) };
        assert!(root.serves("/"));
        assert!(!root.serves("/mcp"));
    }
}
