//! The listener: an accept loop with bounds, and a clean end.

use crate::Endpoint;
use bytes::Buf as _;
use hyper::{body::Incoming, rt::ReadBufCursor, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, Sleep},
};

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListenerOptions {
    /// How many connections there may be. Default 10,000; further ones wait in the kernel's queue.
    pub max_connections: usize,
    /// How long a connection may take for the head of a request, the time between two requests included. Default 90 s: above the
    /// 60 to 75 s that proxies keep idle connections.
    pub header_timeout: Duration,
    /// How long a peer may take nothing of what is written to it. Default 60 s; then the connection is closed, and a stream goes
    /// on without it.
    pub write_timeout: Duration,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            header_timeout: Duration::from_secs(90),
            write_timeout: Duration::from_secs(60),
        }
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
    let places = Arc::new(Semaphore::new(options.max_connections));
    let (stopping, _) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let place = tokio::select! {
            biased;
            () = &mut stop => break,
            place = places.clone().acquire_owned() => place.map_err(io::Error::other)?,
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection =
                    connection(stream, peer, endpoint.clone(), options, place, stopping.subscribe());
                tokio::spawn(connection);
            }
            Err(error) if passes(&error) => {
                // Out of descriptors, say: others are being closed, so a pause helps and a loop does not.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error),
        }
    }
    drop(listener);
    stopping.send_replace(true);
    let all = u32::try_from(options.max_connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LAST_BYTES, places.acquire_many(all)).await;
    Ok(())
}

fn passes(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    // A listener that is no socket any more will not become one again.
    !matches!(error.kind(), Kind::InvalidInput | Kind::NotConnected | Kind::Unsupported)
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    endpoint: Endpoint,
    options: ListenerOptions,
    _place: OwnedSemaphorePermit,
    mut stopping: watch::Receiver<bool>,
) {
    endpoint.metrics().connections.up();
    // An answer is one write; waiting for more to send would only delay it.
    let _ = stream.set_nodelay(true);
    let io = Bounded::new(stream, options.write_timeout);
    let service = service_fn({
        let endpoint = endpoint.clone();
        move |request: hyper::Request<Incoming>| {
            let endpoint = endpoint.clone();
            async move { Ok::<_, std::convert::Infallible>(endpoint.handle(request).await) }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = async { drop(stopping.wait_for(|stopping| *stopping).await) } => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_BYTES, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
    endpoint.metrics().connections.down();
}

/// A connection whose peer has to take what is written, and that is closed so that the last answer can be read.
struct Bounded {
    stream: TokioIo<TcpStream>,
    write_timeout: Duration,
    /// Runs while the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs while what the peer still sends is thrown away.
    lingering: Option<Pin<Box<Sleep>>>,
    thrown_away: usize,
}

/// How long, and for how many bytes, a peer that sends more than we read may go on after our last answer. A socket that is closed
/// with unread bytes is reset, and the answer with it.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 8 * 1024 * 1024;

impl Bounded {
    fn new(stream: TcpStream, write_timeout: Duration) -> Self {
        Self { stream: TokioIo::new(stream), write_timeout, stalled: None, lingering: None, thrown_away: 0 }
    }

    fn bound<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.write_timeout;
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the peer takes nothing of what is written to it",
        )))
    }
}

impl hyper::rt::Read for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = hyper::rt::Write::poll_write(Pin::new(&mut self.stream), cx, buf);
        self.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = hyper::rt::Write::poll_write_vectored(Pin::new(&mut self.stream), cx, bufs);
        self.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        hyper::rt::Write::is_write_vectored(&self.stream)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        hyper::rt::Write::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(hyper::rt::Write::poll_shutdown(Pin::new(&mut this.stream), cx))?;
            this.lingering = Some(Box::pin(tokio::time::sleep_until(Instant::now() + LINGER)));
        }
        let mut waste = [0; 16 * 1024];
        loop {
            let mut buf = ReadBuf::new(&mut waste);
            match Pin::new(this.stream.inner_mut()).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if buf.filled().has_remaining() && this.thrown_away < LINGER_BYTES => {
                    this.thrown_away += buf.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        match &mut this.lingering {
            Some(timer) => timer.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
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
