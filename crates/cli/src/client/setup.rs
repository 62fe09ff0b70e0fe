//! A server to call, and how, from what was typed.

use super::{
    AddressError, RemoteOptions, Transport, Variables, address,
    headers::{self, HeaderError},
    login::{self, Asking, LoginError},
    options::EraChoice,
};
use bowline_client::{ClientOptions, Era, Target};
use http::header::AUTHORIZATION;
use std::sync::Arc;

/// Why nothing is called. Exit code 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(
        "--enable-proxy: proxies for outgoing requests are not supported, and {0} is set; leave the option out to connect directly"
    )]
    Proxy(&'static str),
}

/// Whether the answer of a login may be pasted into the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paste {
    Allowed,
    /// The terminal, if there is one, is the host's.
    No,
}

/// The far side.
pub(crate) struct Far {
    pub(crate) target: Target,
    pub(crate) options: ClientOptions,
    /// Whether a person is being asked to log in.
    pub(crate) asking: Asking,
}

impl Far {
    /// A server that needs no login.
    pub(crate) fn new(target: Target) -> Self {
        Self { target, options: client_options(), asking: Asking::default() }
    }
}

fn client_options() -> ClientOptions {
    ClientOptions::new("bowline", env!("CARGO_PKG_VERSION"))
}

/// The era that was asked for.
pub(crate) const fn era(options: &RemoteOptions) -> Era {
    match options.era {
        EraChoice::Detect => Era::Detect,
        EraChoice::Legacy => Era::Legacy,
        EraChoice::Modern => Era::Modern,
    }
}

/// The server at `url`. `port`: where the redirect of a login comes.
pub(crate) fn far(
    url: &str,
    options: &RemoteOptions,
    port: Option<u16>,
    paste: Paste,
    variables: Variables<'_>,
) -> Result<Far, SetupError> {
    if options.enable_proxy {
        let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let set = names.into_iter().find(|name| variables(name).is_some_and(|value| !value.is_empty()));
        if let Some(name) = set {
            return Err(SetupError::Proxy(name));
        }
    }
    let parsed = address::check(url, options.allow_http)?;
    let mut client = client_options();
    client.headers = headers::headers(&options.headers, options.token.as_deref(), variables)?;
    client.era = era(options);
    client.sse_fallback = options.transport != Transport::HttpOnly;
    let target = match options.transport {
        Transport::SseOnly => Target::http_sse(url),
        _ => Target::http(url),
    };
    let target = target.map_err(AddressError::Bad)?;
    let mut asking = Asking::default();
    // Whoever brings credentials has logged in already.
    if !options.login.no_login && !client.headers.contains_key(AUTHORIZATION) {
        let (oauth, asks) =
            login::login(parsed, &options.login, options.allow_http, port, paste == Paste::Allowed)?;
        client.authorizer = Some(Arc::new(oauth));
        asking = asks;
    }
    Ok(Far { target, options: client, asking })
}
