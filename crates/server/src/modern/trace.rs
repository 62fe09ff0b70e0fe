//! The trace that a request belongs to, in the spans of this server.

use crate::{BoxFuture, call::CallState};
use bowline_proto::jsonrpc::Reply;
use tracing::Instrument as _;

/// Runs the handler of a call in a span that names the trace of its client, where it has one.
pub(crate) fn traced(
    call: &CallState,
    work: impl FnOnce() -> BoxFuture<'static, Reply>,
) -> BoxFuture<'static, Reply> {
    let Some(trace) =
        call.modern.as_deref().map(|modern| &modern.meta.trace).filter(|trace| !trace.is_empty())
    else {
        return work();
    };
    // Baggage may hold anything of the client's and stays out of logs; handlers read it from the call.
    let span = tracing::info_span!(
        "call",
        traceparent = trace.traceparent.as_deref(),
        tracestate = trace.tracestate.as_deref(),
    );
    let work = span.in_scope(work);
    Box::pin(work.instrument(span))
}
