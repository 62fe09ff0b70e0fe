//! A connection that is not waited for without end, and that is closed so that its last answer can be read.

use bytes::Buf as _;
use hyper::rt::ReadBufCursor;
use hyper_util::rt::TokioIo;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// A connection whose peer has to take what is written, and that is closed so that the last answer can be read.
pub(super) struct Bounded<S> {
    stream: TokioIo<S>,
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

impl<S> Bounded<S> {
    pub(super) fn new(stream: S, write_timeout: Duration) -> Self {
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

impl<S: AsyncRead + Unpin> hyper::rt::Read for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> hyper::rt::Write for Bounded<S> {
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
