//! The life of `bowline serve`: start, serve, drain, leave.

use super::{
    announce::Announcement,
    bind::{self, BindError, Bound},
    reload::{Reload, Watch},
    settings::Settings,
    signals::Signals,
    store,
};
use crate::{duration, logging::LogFormat};
use bowline_gateway::{
    Gateway, GatewayOptions,
    child::{Guard, GuardCommand, GuardError, SpawnError},
};
use bowline_server::{
    Endpoint, ListenerOptions, Takeover, connections_within, raise_file_limit, serve, serve_admin,
    serve_secured,
};
use std::{io, process::ExitCode, sync::Arc};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
};

/// Why serving did not start, or ended by itself. Exit code 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Command(#[from] SpawnError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Store(#[from] store::OpenError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("this program's own file was not found: {0}")]
    OwnProgram(#[source] io::Error),
    #[error("signals cannot be received: {0}")]
    Signals(#[source] io::Error),
    #[error("the address of the listener is not known: {0}")]
    LocalAddress(#[source] io::Error),
    #[error("connections cannot be accepted any more: {0}")]
    Accept(#[source] io::Error),
}

/// Serves until a signal, or until the listener fails.
///
/// # Errors
/// What was found wrong before anything was started, or what ended the listener.
pub(crate) async fn run(settings: Settings, format: LogFormat) -> Result<ExitCode, RunError> {
    let watched = watched(&settings);
    let reload = (!watched.is_empty()).then(Arc::<Notify>::default);
    let mut signals = Signals::new(reload.clone()).map_err(RunError::Signals)?;
    settings.child.find_program()?;
    let store = settings.store.open(settings.store_options.clone()).await?;
    let Bound { listener, shared } = bind::endpoint(&settings.address, settings.reuse_port).await?;
    let bound = listener.local_addr().map_err(RunError::LocalAddress)?;
    let admin_listener = match &settings.admin {
        Some(address) => Some(bind::bind(address, "--admin ADDR:PORT").await?),
        None => None,
    };
    let admin_bound = admin_listener.as_ref().map(TcpListener::local_addr).transpose();
    let admin_bound = admin_bound.map_err(RunError::LocalAddress)?;
    let guard = Guard::start(GuardCommand::current_exe().map_err(RunError::OwnProgram)?)?;
    let open_files = raise_file_limit();
    tracing::debug!(open_files, "limits");
    let announcement = Announcement::new(&settings, bound, admin_bound);

    let gateway = gateway(&settings, guard);
    let drain_timeout = settings.drain_timeout;
    let mut options = settings.listener;
    // Others accept in our place, and find in the store what we leave there.
    options.hand_over = shared && store.is_some();
    options.max_connections = affordable(options.max_connections, open_files, settings.max_children);
    let tls = settings.tls.clone();
    let endpoint = endpoint(settings, store, Arc::clone(&gateway), bound.ip().is_loopback());
    let (stop, _) = watch::channel(false);
    let stopped = || {
        let mut stopped = stop.subscribe();
        async move { drop(stopped.wait_for(|stopped| *stopped).await) }
    };
    let mut serving = match tls {
        Some(tls) => tokio::spawn(serve_secured(listener, endpoint.clone(), tls, options, stopped())),
        None => tokio::spawn(serve(listener, endpoint.clone(), options, stopped())),
    };
    if let Some(listener) = admin_listener {
        tokio::spawn(administer(listener, endpoint.clone(), stopped()));
    }
    if let Some(reload) = reload {
        tokio::spawn(Watch::new(watched).run(reload));
    }
    announcement.say(format);

    let leave = tokio::select! {
        leave = signals.next() => leave,
        ended = &mut serving => {
            endpoint.close().await;
            gateway.shutdown().await;
            let ended = ended.map_err(io::Error::other).and_then(|ended| ended);
            return Err(RunError::Accept(ended.err().unwrap_or_else(|| io::ErrorKind::NotConnected.into())));
        }
    };
    let calls = endpoint.metrics().calls.get();
    tracing::info!(signal = leave.name(), calls, at_most = %duration::show(drain_timeout), "draining");
    let last = async {
        endpoint.drain(drain_timeout).await;
        endpoint.close().await;
        gateway.shutdown().await;
        stop.send_replace(true);
        let _ = serving.await;
    };
    tokio::select! {
        biased;
        again = signals.next() => {
            tracing::warn!(signal = again.name(), "stopping at once");
            Ok(again.exit_code())
        }
        () = last => {
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The bound of connections, lowered to what the limit of open files allows: then idle ones make room before there is none at all.
fn affordable(wanted: usize, open_files: u64, children: usize) -> usize {
    let most = connections_within(open_files, children);
    if wanted > most {
        tracing::warn!(
            open_files,
            most,
            wanted,
            "the limit of open files allows fewer connections than --max-connections; idle ones make room from there on. \
             Raise the limit (ulimit -n, LimitNOFILE), or lower --max-connections"
        );
    }
    wanted.min(most)
}

/// What came from files that may change.
fn watched(settings: &Settings) -> Vec<Arc<dyn Reload>> {
    let tokens = settings.tokens.clone().map(|tokens| tokens as Arc<dyn Reload>);
    let tls = settings.tls.clone().map(|tls| tls as Arc<dyn Reload>);
    tokens.into_iter().chain(tls).filter(|thing| !thing.files().is_empty()).collect()
}

/// How many connections probes and collectors may have.
const ADMIN_CONNECTIONS: usize = 100;

/// Serves health and metrics. Its failure is no reason to stop serving anything else.
async fn administer(listener: TcpListener, endpoint: Endpoint, stop: impl Future<Output = ()>) {
    let mut options = ListenerOptions::default();
    options.max_connections = ADMIN_CONNECTIONS;
    if let Err(error) = serve_admin(listener, endpoint.admin(), options, stop).await {
        tracing::error!(%error, "health and metrics are not served any more");
    }
}

fn gateway(settings: &Settings, guard: Guard) -> Arc<Gateway> {
    let mut options = GatewayOptions::new(settings.child.clone());
    options.sharing = settings.sharing;
    options.init_timeout = settings.init_timeout;
    options.max_children = settings.max_children;
    options.max_modern_children = settings.modern.max_children;
    options.modern_idle = settings.modern.idle;
    options.learn_tools = settings.endpoint.takeover == Takeover::Rerun;
    options.join_reissued = settings.modern.join_reissued;
    Gateway::new(options, guard)
}

fn endpoint(
    settings: Settings,
    store: Option<store::Opened>,
    gateway: Arc<Gateway>,
    loopback: bool,
) -> Endpoint {
    let mut builder = Endpoint::builder(gateway)
        .path(settings.path)
        .session_mode(settings.mode)
        .allowed_origins(settings.origins)
        .allowed_hosts(settings.hosts)
        .loopback(loopback)
        .trust_proxy(settings.trust_proxy)
        .health(settings.admin.is_none())
        // Never to the network, and never through a proxy.
        .metrics_page(settings.admin.is_none() && loopback && !settings.trust_proxy)
        .options(settings.endpoint);
    if let Some(store::Opened { store, name }) = store {
        tracing::info!(store = name, "sessions, calls and results are kept where other processes find them");
        builder = builder.shared_store(store);
    }
    if let Some(keyring) = settings.keyring {
        builder = builder.keyring(keyring);
    }
    if let Some(tokens) = settings.tokens {
        builder = builder.authenticator(tokens);
    }
    builder.build()
}
