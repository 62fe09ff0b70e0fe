//! One connection from its handshake to its end.

use super::{
    Answers, LAST_BYTES, ListenerOptions, Secure,
    bounded::Bounded,
    places::{Busy, Place},
};
use crate::Body;
use bytes::Bytes;
use http::{HeaderValue, header::CONNECTION};
use http_body::{Frame, SizeHint};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioTimer;
use std::{
    convert::Infallible,
    error::Error as _,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{net::TcpStream, sync::watch};

pub(super) async fn connection<A: Answers, S: Secure>(
    stream: TcpStream,
    remote: SocketAddr,
    answers: A,
    secure: Arc<S>,
    options: ListenerOptions,
    place: Place,
    mut stopping: watch::Receiver<bool>,
) {
    if let Some(metrics) = answers.counted() {
        metrics.connections.up();
        metrics.connections_accepted.up();
    }
    // An answer is one write; waiting for more to send would only delay it.
    let _ = stream.set_nodelay(true);
    let secured = tokio::select! {
        secured = tokio::time::timeout(options.handshake_timeout, secure.secure(stream)) => match secured {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => failed(&answers, remote, &error),
            Err(_) => failed(&answers, remote, &io::ErrorKind::TimedOut.into()),
        },
        () = place.used().must_leave() => {
            displaced(&answers);
            None
        }
        () = async { drop(stopping.wait_for(|stopping| *stopping).await) } => None,
    };
    if let Some(stream) = secured {
        speak(stream, remote, &answers, options, &place, stopping).await;
    }
    if let Some(metrics) = answers.counted() {
        metrics.connections.down();
    }
}

async fn speak<A: Answers>(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    remote: SocketAddr,
    answers: &A,
    options: ListenerOptions,
    place: &Place,
    mut stopping: watch::Receiver<bool>,
) {
    let io = Bounded::new(stream, options.write_timeout);
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (answers, busy) = (answers.clone(), place.used().request());
        async move {
            let mut response = answers.answer(request, remote).await;
            // The next request of this client is for whoever accepts in our place.
            if answers.is_leaving(options.hand_over) {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| Answered { body, _busy: busy }))
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
        () = place.used().must_leave() => {
            displaced(answers);
            connection.as_mut().graceful_shutdown();
            loop {
                // What never said anything is owed nothing. A request that has just come is answered.
                if !place.used().spoke() {
                    break Ok(());
                }
                match tokio::time::timeout(LAST_BYTES, &mut connection).await {
                    Ok(ended) => break ended,
                    Err(_) if place.used().is_busy() && !*stopping.borrow() => {}
                    Err(_) => break Ok(()),
                }
            }
        }
    };
    if let Err(error) = ended {
        if let Some(metrics) = answers.counted() {
            if error.is_timeout() {
                metrics.heads_too_slow.up();
            } else if error
                .source()
                .and_then(|source| source.downcast_ref::<io::Error>())
                .is_some_and(timed_out)
            {
                metrics.writes_too_slow.up();
            }
        }
        tracing::debug!(%remote, %error, "a connection ended early");
    }
}

fn timed_out(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

fn failed<T>(answers: &impl Answers, remote: SocketAddr, error: &io::Error) -> Option<T> {
    if let Some(metrics) = answers.counted() {
        metrics.handshakes_failed.up();
    }
    tracing::debug!(%remote, %error, "a connection could not be secured");
    None
}

fn displaced(answers: &impl Answers) {
    if let Some(metrics) = answers.counted() {
        metrics.connections_displaced.up();
    }
}

/// A body whose connection is busy until it is handed over.
struct Answered {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Answered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
