//! Response bodies.

use crate::clients::Running;
use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};
use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// The body of an answer: all there at once, or a stream of events that ends when it ends.
pub struct Body {
    kind: Kind,
    /// The place among its client's requests that the answer takes.
    _running: Option<Running>,
}

enum Kind {
    Full(Option<Bytes>),
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    pub(crate) const fn empty() -> Self {
        Self::of(Kind::Full(None))
    }

    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self::of(Kind::Full(Some(bytes)))
    }

    pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::of(Kind::Events(Box::pin(events)))
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, _running: None }
    }

    /// This body, which keeps a place until it is dropped.
    pub(crate) fn keeping(self, running: Option<Running>) -> Self {
        Self { _running: running, ..self }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.kind {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Events(events) => {
                events.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Full(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Events(_) => f.write_str("Body(events)"),
        }
    }
}
