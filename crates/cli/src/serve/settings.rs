//! What the options mean together: everything that can be refused before anything is started.

use super::{
    address::{Address, AddressError},
    command::{self, CommandError, ModernSettings},
    keys::{self, KeyError},
    options::{ChildMode, Mode, Response, ServeOptions, Stale, TakeoverOption},
    store::{StoreOptions, StoreUrl, StoreUrlError},
    tls::{Tls, TlsError},
    tokens::{TokenError, Tokens},
};
use bowline_gateway::{Sharing, child::ChildSpec};
use bowline_proto::{
    cursor::Keyring,
    http::{AllowListError, AllowedHosts, AllowedOrigins, SessionMode, StaleSession},
    legacy::RetryPolicy,
};
use bowline_server::{ListenerOptions, Options, Rate, ResponseMode, Takeover};
use clap::{ArgMatches, parser::ValueSource};
use std::{ffi::OsString, num::NonZeroUsize, sync::Arc, time::Duration};

/// Wrong usage: what is said before anything is started. Exit code 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreUrlError),
    #[error(
        "--rotate-key-every needs a --store that several processes share, and no key of yours: keys of BOWLINE_KEY or --key-file are replaced there"
    )]
    Rotation,
    #[error(
        "--takeover rerun needs a --store that several processes share: nobody else could run the calls of this one"
    )]
    TakeoverAlone,
    #[error("--reuse-port needs a port: with port 0 every process has one of its own; say --port N")]
    ReuseAnyPort,
    #[error("--allow-origin: {0}")]
    Origin(#[source] AllowListError),
    #[error("--allow-host: {0}")]
    Host(#[source] AllowListError),
    #[error("--path {0:?}: write a path that starts with a slash, such as /mcp, without `?`, `#` or blanks")]
    Path(String),
    #[error("--path {0:?} is taken: /healthz and /readyz are the probes, /metrics the metrics")]
    PathTaken(String),
    #[error(
        "{0} needs --session-mode stateless: with sessions, calls can be resumed, a stale id is 404 in any case, and --child says who shares a process"
    )]
    NeedsStateless(&'static str),
    #[error(
        "--child session cannot serve --session-mode stateless: there is no session that a process could belong to. Leave it out (a pool of --pool N processes, 2 if not told, serves the requests), or say --child shared for one process"
    )]
    ChildNeedsSession,
    #[error("--pool and --child shared contradict each other: one process is no pool; leave one out")]
    PoolShared,
    #[error(
        "--join-reissued needs tokens (--auth-token-file): where nobody says who it is, no two requests are provably of one client"
    )]
    JoinNeedsTokens,
    #[error("--stateful and --stateless (or --session-mode stateless) contradict each other; give one")]
    ModeConflict,
}

/// Everything that `bowline serve` was told, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    /// Where health and metrics are, if not beside the endpoint.
    pub(crate) admin: Option<Address>,
    pub(crate) path: String,
    pub(crate) mode: SessionMode,
    pub(crate) origins: AllowedOrigins,
    pub(crate) hosts: AllowedHosts,
    pub(crate) trust_proxy: bool,
    pub(crate) keyring: Option<Keyring>,
    /// Anybody may call where there are none.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// Plain HTTP where there is none.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Where everything is kept.
    pub(crate) store: StoreUrl,
    pub(crate) store_options: StoreOptions,
    /// Whether others may listen on the address too.
    pub(crate) reuse_port: bool,
    pub(crate) endpoint: Options,
    pub(crate) listener: ListenerOptions,
    pub(crate) child: ChildSpec,
    /// Who shares a process of the server.
    pub(crate) sharing: Sharing,
    pub(crate) init_timeout: Duration,
    pub(crate) max_children: usize,
    pub(crate) modern: ModernSettings,
    pub(crate) drain_timeout: Duration,
}

/// A variable of the environment.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Settings {
    /// Checks `options`; `matches` says which of them were typed and which came from variables.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to write in its place.
    pub(crate) fn new(
        options: ServeOptions,
        matches: &ArgMatches,
        environment: Environment<'_>,
    ) -> Result<Self, UsageError> {
        let typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let child = command::child_spec(options.command, options.child, typed("stdio"), environment)?;
        let network = options.network;
        let address = Address::choose(
            (network.listen.as_deref(), typed("listen")),
            (network.host.as_deref(), typed("host")),
            (network.port, typed("port")),
        )?;
        let path = check_path(network.path)?;
        let mode = session_mode(&options.sessions)?;
        let sharing = sharing(mode, child.mode, child.pool)?;
        let keyring = keys::keyring(network.key_file.as_deref(), typed("key_file"), environment)?;
        let state = options.state;
        let store = StoreUrl::parse(&state.store)?;
        if state.rotate_key_every.is_some() && (!store.is_shared() || keyring.is_some()) {
            return Err(UsageError::Rotation);
        }
        if state.takeover == TakeoverOption::Rerun && !store.is_shared() {
            return Err(UsageError::TakeoverAlone);
        }
        if state.reuse_port && address.port == 0 {
            return Err(UsageError::ReuseAnyPort);
        }
        let access = options.access;
        let tokens = Tokens::new(access.auth_token_file.as_deref(), typed("auth_token_file"), environment)?;
        if child.modern.join_reissued.is_some() && tokens.is_none() {
            return Err(UsageError::JoinNeedsTokens);
        }
        let tls = match (access.tls_cert, access.tls_key) {
            (Some(cert), Some(key)) => Some(Tls::new(cert, key)?),
            // The options require one another.
            _ => None,
        };
        let admin = network.admin.as_deref().map(Address::admin).transpose()?;
        let origins = AllowedOrigins::parse(entries(&network.allow_origin)).map_err(UsageError::Origin)?;
        let hosts = AllowedHosts::parse(entries(&network.allow_host)).map_err(UsageError::Host)?;

        let mut endpoint = Options::default();
        let streams = options.streams;
        endpoint.response = match streams.response {
            Response::Auto => ResponseMode::Auto,
            Response::Sse => ResponseMode::Sse,
            Response::Json => ResponseMode::Json,
        };
        endpoint.json_hold = streams.json_hold;
        endpoint.json_hold_progress = endpoint.json_hold_progress.min(streams.json_hold);
        endpoint.max_connection = (!streams.max_connection.is_zero()).then_some(streams.max_connection);
        endpoint.retry = RetryPolicy {
            explicit: streams.retry,
            expected_outage: streams.expected_outage,
            ..RetryPolicy::default()
        };
        endpoint.max_held_streams = streams.max_held_streams;
        endpoint.keep_alive = streams.keep_alive;
        endpoint.sealed_ttl = streams.sealed_ttl;
        endpoint.call_timeout = streams.call_timeout;
        endpoint.abandon_after = streams.abandon_after;
        endpoint.session_ttl = options
            .sessions
            .session_timeout_ms
            .map_or(options.sessions.session_ttl, |millis| Duration::from_millis(millis.into()));
        endpoint.max_sessions = options.sessions.max_sessions;
        endpoint.max_calls_per_session = options.sessions.max_calls_per_session;
        endpoint.body_limit = network.body_limit;
        endpoint.body_timeout = access.body_timeout;
        endpoint.max_sessions_per_client = access.max_sessions_per_client;
        endpoint.max_concurrent_per_client = access.max_concurrent_per_client;
        endpoint.rate = access.rate_limit.map(|rate| Rate {
            requests: rate.count,
            per: rate.per,
            burst: access.rate_burst.unwrap_or(rate.count),
        });
        endpoint.rotate_key_every = state.rotate_key_every;
        endpoint.takeover = match state.takeover {
            TakeoverOption::Error => Takeover::Error,
            TakeoverOption::Rerun => Takeover::Rerun,
        };
        endpoint.max_reruns = state.max_reruns;
        // At most 16 MiB, so that it fits everywhere.
        endpoint.max_rerun_bytes = usize::try_from(state.max_rerun_bytes).unwrap_or(usize::MAX);
        let mut listener = ListenerOptions::default();
        listener.max_connections = network.max_connections;
        listener.header_timeout = access.header_timeout;
        listener.write_timeout = access.write_timeout;
        listener.handshake_timeout = access.handshake_timeout;

        Ok(Self {
            address,
            admin,
            path,
            mode,
            origins,
            hosts,
            trust_proxy: network.trust_proxy,
            keyring,
            tokens,
            tls,
            store,
            store_options: StoreOptions { durability: state.store_durability, prefix: state.store_prefix },
            reuse_port: state.reuse_port,
            endpoint,
            listener,
            child: child.spec,
            sharing,
            init_timeout: child.init_timeout,
            max_children: child.max_children,
            modern: child.modern,
            drain_timeout: network.drain_timeout,
        })
    }
}

/// Entries of a list; a comma at the end is no entry.
fn entries(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty())
}

fn check_path(path: String) -> Result<String, UsageError> {
    let plain = path.starts_with('/')
        && !path.bytes().any(|byte| byte <= b' ' || byte == 0x7f || matches!(byte, b'?' | b'#'));
    if !plain || path.parse::<http::uri::PathAndQuery>().is_err() {
        return Err(UsageError::Path(path));
    }
    if matches!(path.trim_end_matches('/'), "/healthz" | "/readyz" | "/metrics") {
        return Err(UsageError::PathTaken(path));
    }
    Ok(path)
}

fn session_mode(sessions: &super::options::SessionOptions) -> Result<SessionMode, UsageError> {
    let stateless = sessions.stateless || sessions.session_mode == Mode::Stateless;
    if stateless && sessions.stateful {
        return Err(UsageError::ModeConflict);
    }
    if stateless {
        let stale_session = match sessions.stale_session {
            Stale::NotFound => StaleSession::NotFound,
            Stale::Ignore => StaleSession::Ignore,
        };
        return Ok(SessionMode::Stateless { resumable: sessions.resumable, stale_session });
    }
    if sessions.resumable {
        return Err(UsageError::NeedsStateless("--resumable"));
    }
    if sessions.stale_session == Stale::Ignore {
        return Err(UsageError::NeedsStateless("--stale-session ignore"));
    }
    Ok(SessionMode::Stateful)
}

/// Processes of a pool when nobody says how many.
const POOL: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// Who shares a process. Without sessions nobody can have one of its own.
fn sharing(mode: SessionMode, child: Option<ChildMode>, pool: Option<usize>) -> Result<Sharing, UsageError> {
    match (mode, child, pool) {
        (SessionMode::Stateful, _, Some(_)) => Err(UsageError::NeedsStateless("--pool")),
        (_, Some(ChildMode::Shared), Some(_)) => Err(UsageError::PoolShared),
        (_, Some(ChildMode::Shared), None) => Ok(Sharing::Shared),
        (SessionMode::Stateful, Some(ChildMode::Session) | None, None) => Ok(Sharing::PerSession),
        (SessionMode::Stateless { .. }, Some(ChildMode::Session), _) => Err(UsageError::ChildNeedsSession),
        (SessionMode::Stateless { .. }, None, pool) => {
            Ok(Sharing::Pool(pool.and_then(NonZeroUsize::new).unwrap_or(POOL)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn settings(line: &str) -> Result<Settings, String> {
        let args =
            std::iter::once("bowline").chain(["serve"]).chain(line.split(' ').filter(|w| !w.is_empty()));
        let (options, matches) = cli::serve_for_tests(args).map_err(|error| error.to_string())?;
        Settings::new(options, &matches, &|_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_endpoint() {
        let settings = settings("-- cat").unwrap();
        let (ours, theirs) = (format!("{:?}", settings.endpoint), format!("{:?}", Options::default()));
        assert_eq!(ours, theirs);
        assert_eq!(format!("{:?}", settings.listener), format!("{:?}", ListenerOptions::default()));
        assert_eq!(settings.address.to_string(), "127.0.0.1:8000");
        assert_eq!((settings.path.as_str(), settings.mode), ("/mcp", SessionMode::Stateful));
        assert_eq!(settings.drain_timeout, Duration::from_secs(30));
        assert_eq!(settings.sharing, Sharing::PerSession);
        assert!(!settings.trust_proxy && settings.keyring.is_none());
    }

    #[test]
    fn every_option_arrives() {
        let settings = settings(
            "--listen [::1]:0 --path /x/ --json-hold 500ms --max-connection 0 --retry 3s --expected-outage 8s \
             --keep-alive 5s --session-ttl 1h --sealed-ttl 10m --call-timeout 2h --abandon-after 1m --drain-timeout 0 \
             --body-limit 64KiB --max-sessions 5 --max-children 6 --max-modern-children 16 --modern-idle 17s --max-connections 7 --max-calls-per-session 8 \
             --max-held-streams 9 --allow-origin https://a.example,https://b.example --allow-origin null --allow-host a.example \
             --trust-proxy --child shared --admin 127.0.0.1:0 --rate-limit 600/m --rate-burst 9 --max-concurrent-per-client 10 \
             --max-sessions-per-client 11 --body-timeout 12s --header-timeout 13s --write-timeout 14s --handshake-timeout 15s --init-timeout 5s --response sse -- cat",
        )
        .unwrap();
        let endpoint = &settings.endpoint;
        assert_eq!(endpoint.response, ResponseMode::Sse);
        assert_eq!(endpoint.json_hold, Duration::from_millis(500));
        assert_eq!(endpoint.json_hold_progress, Duration::from_millis(250));
        assert_eq!(endpoint.max_connection, None);
        assert_eq!(endpoint.retry.explicit, Some(Duration::from_secs(3)));
        assert_eq!(endpoint.retry.expected_outage, Duration::from_secs(8));
        assert_eq!(endpoint.keep_alive, Duration::from_secs(5));
        assert_eq!(endpoint.session_ttl, Duration::from_secs(3_600));
        assert_eq!(endpoint.sealed_ttl, Duration::from_secs(600));
        assert_eq!(endpoint.call_timeout, Duration::from_secs(7_200));
        assert_eq!(endpoint.abandon_after, Duration::from_secs(60));
        assert_eq!(endpoint.body_limit, 65_536);
        assert_eq!((endpoint.max_sessions, endpoint.max_calls_per_session), (5, 8));
        assert_eq!(endpoint.max_held_streams, 9);
        assert_eq!((settings.max_children, settings.listener.max_connections), (6, 7));
        let modern = settings.modern;
        assert_eq!((modern.max_children, modern.idle), (16, Duration::from_secs(17)));
        assert_eq!(modern.join_reissued, None);
        assert_eq!(settings.drain_timeout, Duration::ZERO);
        assert_eq!(settings.address.to_string(), "[::1]:0");
        assert_eq!(settings.path, "/x/");
        assert_eq!(settings.init_timeout, Duration::from_secs(5));
        assert_eq!(settings.sharing, Sharing::Shared);
        assert!(settings.trust_proxy);
        assert_eq!(settings.admin.as_ref().unwrap().to_string(), "127.0.0.1:0");
        let rate = endpoint.rate.unwrap();
        assert_eq!((rate.requests, rate.per, rate.burst), (600, Duration::from_secs(60), 9));
        assert_eq!(endpoint.max_concurrent_per_client, Some(10));
        assert_eq!(endpoint.max_sessions_per_client, Some(11));
        assert_eq!(endpoint.body_timeout, Duration::from_secs(12));
        let listener = &settings.listener;
        let timeouts = [listener.header_timeout, listener.write_timeout, listener.handshake_timeout];
        assert_eq!(timeouts, [13, 14, 15].map(Duration::from_secs));
        for origin in ["https://a.example", "https://b.example", "null"] {
            assert!(settings.origins.allow(origin.as_bytes(), false), "{origin}");
        }
        assert!(settings.hosts.allow(b"a.example", false));
    }

    #[test]
    fn a_short_hold_bounds_the_one_for_progress() {
        let settings = settings("--json-hold 100ms -- cat").unwrap();
        assert_eq!(settings.endpoint.json_hold_progress, Duration::from_millis(100));
    }

    #[test]
    fn session_modes() {
        let resumable = SessionMode::Stateless { resumable: true, stale_session: StaleSession::Ignore };
        let line = "--session-mode stateless --resumable --stale-session ignore -- cat";
        assert_eq!(settings(line).unwrap().mode, resumable);
        let plain = SessionMode::Stateless { resumable: false, stale_session: StaleSession::NotFound };
        let stateless = settings("--stateless -- cat").unwrap();
        assert_eq!((stateless.mode, stateless.sharing), (plain, Sharing::Pool(POOL)));
        let pool = settings("--stateless --pool 5 -- cat").unwrap().sharing;
        assert_eq!(pool, Sharing::Pool(NonZeroUsize::new(5).unwrap()));
        assert_eq!(settings("--stateless --child shared -- cat").unwrap().sharing, Sharing::Shared);
        assert_eq!(settings("--stateful -- cat").unwrap().mode, SessionMode::Stateful);
    }

    #[test]
    fn spellings_of_others() {
        let settings =
            settings("--stdio cat --streamableHttpPath /x --outputTransport streamableHttp --sessionTimeout 60000 --logLevel none")
                .unwrap();
        assert_eq!(settings.path, "/x");
        assert_eq!(settings.endpoint.session_ttl, Duration::from_secs(60));
    }

    #[test]
    fn a_take_over_is_an_error_unless_somebody_says_otherwise() {
        let endpoint = settings("--store sqlite:/tmp/x -- cat").unwrap().endpoint;
        assert_eq!((endpoint.takeover, endpoint.max_reruns), (Takeover::Error, 1));
        assert_eq!(endpoint.max_rerun_bytes, 64 << 10);
        let told = "--store redis://localhost --takeover rerun --max-reruns 3 --max-rerun-bytes 1MiB -- cat";
        let endpoint = settings(told).unwrap().endpoint;
        assert_eq!((endpoint.takeover, endpoint.max_reruns), (Takeover::Rerun, 3));
        assert_eq!(endpoint.max_rerun_bytes, 1 << 20);
    }

    #[test]
    fn refusals_say_what_to_write() {
        for (line, message) in [
            ("", "no command: say which MCP server to serve"),
            ("--stdio cat -- cat", "both --stdio and a command after `--` were given; give one"),
            ("--allow-origin app.example.com -- cat", "--allow-origin: \"app.example.com\" is not an origin"),
            ("--allow-host http://x -- cat", "--allow-host: \"http://x\" is not a host"),
            ("--path mcp -- cat", "--path \"mcp\": write a path that starts with a slash"),
            ("--path /m?x -- cat", "--path \"/m?x\": write a path"),
            ("--path /metrics -- cat", "--path \"/metrics\" is taken"),
            ("--admin 9000 -- cat", "--admin \"9000\": write ADDR:PORT"),
            ("--rate-limit 100 -- cat", "such as 100/s"),
            ("--rate-burst 5 -- cat", "--rate-limit"),
            ("--tls-cert x -- cat", "--tls-key"),
            ("--tls-cert /no/such --tls-key /no/such -- cat", "--tls-cert /no/such cannot be read"),
            ("--auth-token-file /no/such -- cat", "the token file /no/such cannot be read"),
            ("--path /healthz/ -- cat", "--path \"/healthz/\" is taken"),
            ("--resumable -- cat", "--resumable needs --session-mode stateless"),
            ("--stale-session ignore -- cat", "--stale-session ignore needs --session-mode stateless"),
            ("--stateful --stateless -- cat", "contradict each other"),
            ("--stateless --child session -- cat", "--child session cannot serve --session-mode stateless"),
            ("--takeover rerun -- cat", "--takeover rerun needs a --store that several processes share"),
            ("--takeover maybe -- cat", "error, rerun"),
            ("--max-reruns 0 -- cat", "1..=100"),
            ("--max-rerun-bytes 17MiB -- cat", "expected 16MiB or less"),
            ("--max-rerun-bytes 0 -- cat", "has to be more than 0"),
            ("--pool 3 -- cat", "--pool needs --session-mode stateless"),
            ("--stateless --child shared --pool 3 -- cat", "--pool and --child shared contradict each other"),
            ("--join-reissued 30s -- cat", "--join-reissued needs tokens"),
            ("--max-modern-children 0 -- cat", "expected a whole number from 1"),
            ("--stateless --pool 0 -- cat", "expected a whole number from 1"),
            ("--listen 127.0.0.1:1 --port 2 -- cat", "--listen already names address and port"),
            ("--listen 8000 -- cat", "--port 8000"),
            ("--json-hold 5 -- cat", "a number needs its unit: 5ms, 5s, 5m or 5h"),
            ("--keep-alive 0 -- cat", "has to be more than 0"),
            ("--body-limit 4M -- cat", "say MiB (1024) or MB (1000)"),
            ("--max-sessions 0 -- cat", "expected a whole number from 1"),
            ("--outputTransport sse --stdio cat", "only streamableHttp is served"),
            ("--log-level loud -- cat", "expected off, error, warn"),
        ] {
            let refused = settings(line).unwrap_err();
            assert!(refused.contains(message), "{line}: {refused}");
        }
    }
}
