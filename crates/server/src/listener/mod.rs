//! The listener: an accept loop with bounds, and a clean end.

mod bounded;
mod connection;
mod places;

use crate::{Admin, Endpoint, Metrics, body::Body};
use connection::connection;
use http::{Request, Response};
use hyper::body::Incoming;
use places::Places;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListenerOptions {
    /// How many connections there may be. Default 10,000. A further one takes the place of one that is idle: one that never sent a
    /// request first, then the one that has been quiet for longest. Where every connection is in the middle of a request, further ones wait.
    pub max_connections: usize,
    /// How long a connection may take until it is secured (a TLS handshake). Default 10 s.
    pub handshake_timeout: Duration,
    /// How long a connection may take for the head of a request, the time between two requests included. Default 90 s: above the
    /// 60 to 75 s that proxies keep idle connections.
    pub header_timeout: Duration,
    /// Whether another process accepts connections at the same address (`SO_REUSEPORT`, or a socket that was handed over). Then this
    /// one accepts no more as soon as its endpoint starts to leave, and not only when [`Endpoint::drain`] says so; connections that
    /// are open are served on. Default `false`.
    pub hand_over: bool,
    /// How long a peer may take nothing of what is written to it. Default 60 s; then the connection is closed, and a stream goes
    /// on without it.
    pub write_timeout: Duration,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(90),
            hand_over: false,
            write_timeout: Duration::from_secs(60),
        }
    }
}

/// Makes a connection what requests are read from: a TLS handshake, say. Which TLS that is, the program chooses.
pub trait Secure: Send + Sync + 'static {
    /// What requests are read from.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Secures a connection. Dropped when it takes longer than [`ListenerOptions::handshake_timeout`].
    ///
    /// # Errors
    /// The connection is closed; others are not affected.
    fn secure(&self, stream: TcpStream) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Plain HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Secure for Plain {
    type Stream = TcpStream;

    async fn secure(&self, stream: TcpStream) -> io::Result<TcpStream> {
        Ok(stream)
    }
}

/// How long connections have for their last bytes at the end. Below a second: a pooled connection whose client does not look at it
/// takes all of it, and an idle program has to end within one.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// Serves `endpoint` on `listener` until `stop` is ready, and then until the connections that are open have had half a
/// second for their last bytes. Drain the endpoint before: this only ends the listening.
///
/// # Errors
/// When the listener cannot accept any more for a reason that does not pass.
pub async fn serve(
    listener: TcpListener,
    endpoint: Endpoint,
    options: ListenerOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_secured(listener, endpoint, Arc::new(Plain), options, stop).await
}

/// As [`serve`], with connections that `secure` makes.
///
/// # Errors
/// As [`serve`].
pub async fn serve_secured(
    listener: TcpListener,
    endpoint: Endpoint,
    secure: Arc<impl Secure>,
    options: ListenerOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    accept(listener, endpoint, secure, options, stop).await
}

/// Serves health and metrics on a listener of their own, as [`serve`] does. Its connections do not count among those of the endpoint.
///
/// # Errors
/// As [`serve`].
pub async fn serve_admin(
    listener: TcpListener,
    admin: Admin,
    options: ListenerOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    accept(listener, admin, Arc::new(Plain), options, stop).await
}

/// What answers the requests of a listener.
trait Answers: Clone + Send + Sync + 'static {
    fn answer(
        &self,
        request: Request<Incoming>,
        remote: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Waits until no new connections are wanted.
    fn leaves(&self, hand_over: bool) -> impl Future<Output = ()> + Send;

    /// Whether it has come to that.
    fn is_leaving(&self, hand_over: bool) -> bool;

    /// Where connections are counted; `None` where they are not.
    fn counted(&self) -> Option<&Metrics>;
}

impl Answers for Endpoint {
    fn answer(
        &self,
        request: Request<Incoming>,
        remote: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send {
        self.handle_from(request, remote.ip())
    }

    async fn leaves(&self, hand_over: bool) {
        self.leaving(hand_over).await;
    }

    fn is_leaving(&self, hand_over: bool) -> bool {
        Self::is_leaving(self, hand_over)
    }

    fn counted(&self) -> Option<&Metrics> {
        Some(self.metrics())
    }
}

impl Answers for Admin {
    async fn answer(&self, request: Request<Incoming>, _: SocketAddr) -> Response<Body> {
        self.handle(&request)
    }

    async fn leaves(&self, _: bool) {
        std::future::pending::<()>().await;
    }

    fn is_leaving(&self, _: bool) -> bool {
        false
    }

    fn counted(&self) -> Option<&Metrics> {
        None
    }
}

async fn accept<A: Answers, S: Secure>(
    listener: TcpListener,
    answers: A,
    secure: Arc<S>,
    options: ListenerOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Places::new(options.max_connections);
    let mut refused = Refused::default();
    let (stopping, _) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    let leaver = answers.clone();
    let mut leaving = std::pin::pin!(async move { leaver.leaves(options.hand_over).await });
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let admit = |(stream, remote), place| {
        let (answers, secure, stopping) = (answers.clone(), secure.clone(), stopping.subscribe());
        crate::task::spawn(connection(stream, remote, answers, secure, options, place, stopping));
    };
    let last = loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break None,
            _ = second.tick() => {
                places.tick();
                continue;
            }
            // Those that the system has accepted for us are served: nobody else can.
            accepted = listener.accept() => accepted,
            () = &mut leaving => break Some(last_ones(listener)),
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) if passes(&error) => {
                if is_out_of_descriptors(&error) {
                    places.displace();
                }
                if let Some(times) = refused.tell(tokio::time::Instant::now()) {
                    tracing::warn!(
                        %error,
                        times,
                        "connections cannot be accepted now, and wait; idle ones are closed for them. If this goes on: \
                         raise the limit of open files (ulimit -n, LimitNOFILE), or lower --max-connections"
                    );
                }
                // Others are being closed, so a pause helps and a loop does not.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        tokio::select! {
            biased;
            () = &mut stop => break None,
            place = place(&places, &answers) => admit(accepted, place),
        }
    };
    if let Some(last) = last {
        let admit_all = async {
            for accepted in last {
                admit(accepted, place(&places, &answers).await);
            }
            loop {
                second.tick().await;
                places.tick();
            }
        };
        tokio::select! {
            biased;
            () = &mut stop => {}
            () = admit_all => {}
        }
    }
    stopping.send_replace(true);
    let _ = tokio::time::timeout(LAST_BYTES, places.all_free()).await;
    Ok(())
}

/// How many connections that broke before they were accepted are passed over at the end.
const LAST_FAILURES: u32 = 100;

/// Closes a listener. Returns the connections that the system had accepted for it: to close them would break requests that are in them
/// already, and tokio may not have heard of those that came last.
fn last_ones(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    // It does not block, so that this ends with the queue. A connection that is gone again is no end of it; where descriptors run out
    // there is nothing to serve the others with.
    let mut failures = 0;
    let next = || loop {
        match listener.accept() {
            Ok(accepted) => return Some(accepted),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || failures >= LAST_FAILURES => {
                return None;
            }
            Err(_) => failures += 1,
        }
    };
    std::iter::from_fn(next)
        .filter_map(|(stream, remote)| {
            stream.set_nonblocking(true).ok()?;
            Some((TcpStream::from_std(stream).ok()?, remote))
        })
        .collect()
}

/// A place for one more connection, as soon as there is one.
async fn place(places: &Places, answers: &impl Answers) -> places::Place {
    if let Some(place) = places.take() {
        return place;
    }
    if let Some(metrics) = answers.counted() {
        metrics.connections_waited.up();
    }
    places.make_room().await
}

fn passes(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    // A listener that is no socket any more will not become one again.
    !matches!(error.kind(), Kind::InvalidInput | Kind::NotConnected | Kind::Unsupported)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error
        .raw_os_error()
        .is_some_and(|code| [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code))
}

/// How often to tell that connections cannot be accepted.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How often a connection could not be accepted since that was told.
#[derive(Default)]
struct Refused {
    times: u64,
    told: Option<tokio::time::Instant>,
}

impl Refused {
    /// Counts one more; how many to tell of, if it is time.
    fn tell(&mut self, now: tokio::time::Instant) -> Option<u64> {
        self.times += 1;
        if self.told.is_some_and(|at| now - at < TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.times))
    }
}

/// How many connections there may be where a process may have `open_files` and holds `children` processes, with three pipes each, beside its
/// store, its listeners and what it logs to. At least one in two, so that some may come in any case.
#[must_use]
pub fn connections_within(open_files: u64, children: usize) -> usize {
    const OWN: usize = 64;
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    let reserve = children.saturating_mul(4).saturating_add(OWN);
    open_files.saturating_sub(reserve).max(open_files / 2).max(1)
}

/// Raises this process's limit of open files as far as it may: each connection is one.
///
/// Returns the limit that is in force.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(connections_within(100_000, 100), 99_536);
        assert_eq!(connections_within(1_024, 100), 560);
        // However many processes may be started, half is for connections.
        assert_eq!(connections_within(1_024, 1_000), 512);
        assert_eq!(connections_within(256, 64), 128);
        assert_eq!(connections_within(1, 0), 1);
        assert_eq!(connections_within(u64::MAX, usize::MAX), usize::MAX / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_accepted_is_told_once_in_a_while_with_its_count() {
        let mut refused = Refused::default();
        assert_eq!(refused.tell(tokio::time::Instant::now()), Some(1));
        for _ in 0..200 {
            tokio::time::advance(Duration::from_millis(49)).await;
            assert_eq!(refused.tell(tokio::time::Instant::now()), None);
        }
        tokio::time::advance(TELL_EVERY).await;
        assert_eq!(refused.tell(tokio::time::Instant::now()), Some(201));
    }

    #[test]
    fn which_errors_are_for_want_of_files() {
        use rustix::io::Errno;
        for (errno, expected) in [(Errno::MFILE, true), (Errno::NFILE, true), (Errno::CONNABORTED, false)] {
            assert_eq!(is_out_of_descriptors(&errno.into()), expected, "{errno:?}");
        }
        assert!(!is_out_of_descriptors(&io::ErrorKind::TimedOut.into()));
    }
}
