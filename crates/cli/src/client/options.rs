//! The options of everything that calls a server over HTTP. Their names are mcp-remote's where it has them.

use crate::duration;
use clap::ValueEnum;
use std::{fmt, path::PathBuf, time::Duration};

/// Which transport is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// Streamable HTTP; HTTP+SSE (2024-11-05) where the server has nothing newer.
    #[default]
    HttpFirst,
    /// The same. (Servers that have both lose nothing by it.)
    SseFirst,
    /// Streamable HTTP alone.
    HttpOnly,
    /// HTTP+SSE (2024-11-05) alone.
    SseOnly,
}

/// Which revisions are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraChoice {
    /// The newest that the server has.
    #[default]
    Detect,
    /// Those with a handshake, up to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

#[derive(clap::Args)]
pub(crate) struct RemoteOptions {
    /// A header for every request, such as `Authorization: Bearer ${TOKEN}`; repeat it. `${NAME}` is a variable of the
    /// environment. With an Authorization header nobody is asked to log in.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", help_heading = "Server")]
    pub(crate) headers: Vec<String>,

    /// A bearer token: `Authorization: Bearer TOKEN`. Better in the variable, where other users cannot see it.
    #[arg(long, value_name = "TOKEN", env = "BOWLINE_TOKEN", help_heading = "Server")]
    pub(crate) token: Option<String>,

    /// Which transport is used.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t, help_heading = "Server")]
    pub(crate) transport: Transport,

    /// Which revisions are spoken, where finding out goes wrong.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t, help_heading = "Server")]
    pub(crate) era: EraChoice,

    /// Call a server on another machine without encryption.
    #[arg(long, help_heading = "Server")]
    pub(crate) allow_http: bool,

    /// Accepted for mcp-remote's sake. Proxies for outgoing requests are not supported: an error if one is configured.
    #[arg(long, hide = true)]
    pub(crate) enable_proxy: bool,

    #[command(flatten)]
    pub(crate) login: LoginOptions,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Login (OAuth, when the server asks for it)")]
pub(crate) struct LoginOptions {
    /// Never log in: a server that asks for it is refused.
    #[arg(long)]
    pub(crate) no_login: bool,

    /// Open no browser; the address to open is printed in any case.
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// The host in the redirect address: 127.0.0.1, or localhost for authorization servers that know nothing else.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// The path in the redirect address.
    #[arg(long, value_name = "PATH", default_value = "/callback")]
    pub(crate) callback_path: String,

    /// How long a person may take to log in; a bare number is seconds.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = seconds_or_duration)]
    pub(crate) auth_timeout: Duration,

    /// Metadata of the client for its registration: JSON, or @FILE. A `scope` in it is what is asked for.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) static_oauth_client_metadata: Option<String>,

    /// A client that was registered beforehand: JSON with `client_id` and perhaps `client_secret`, or @FILE.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) static_oauth_client_info: Option<String>,

    /// The resource that tokens are for (RFC 8707), where it is not the one that the server names. Logins are kept apart by it.
    #[arg(long, value_name = "URL")]
    pub(crate) resource: Option<String>,

    /// Name no resource at all: some authorization servers refuse the parameter.
    #[arg(long)]
    pub(crate) disable_resource_parameter: bool,

    /// The file that logins are kept in, with mode 0600. Default: bowline/credentials.json below `$XDG_STATE_HOME` or
    /// `~/.local/state`.
    #[arg(long, value_name = "FILE", env = "BOWLINE_CREDENTIALS")]
    pub(crate) credentials: Option<PathBuf>,
}

/// Headers, tokens and what is said of a client hold secrets: none is shown.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, era, allow_http, .. } = self;
        f.debug_struct("RemoteOptions")
            .field("transport", transport)
            .field("era", era)
            .field("allow_http", allow_http)
            .finish_non_exhaustive()
    }
}

/// A duration; mcp-remote's are bare seconds.
fn seconds_or_duration(text: &str) -> Result<Duration, duration::DurationError> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return duration::parse_positive(&format!("{text}s"));
    }
    duration::parse_positive(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            remote: RemoteOptions,
        }
        let line = [
            "x",
            "--token",
            "hunter2",
            "-H",
            "A: hunter2",
            "--static-oauth-client-info",
            "hunter2",
            "--allow-http",
        ];
        let shown = format!("{:?}", <Line as clap::Parser>::parse_from(line).remote);
        assert!(shown.contains("allow_http: true") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn bare_numbers_are_seconds() {
        assert_eq!(seconds_or_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(seconds_or_duration("2m"), Ok(Duration::from_secs(120)));
        assert!(seconds_or_duration("0").is_err() && seconds_or_duration("").is_err());
    }
}
