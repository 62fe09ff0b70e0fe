//! The timeline for machines: one JSON object a line.

use super::{
    View,
    happening::{Disconnect, Happening, What},
    verdict::Verdict,
};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes `{"at_ms", "who", "what", ...}` for every happening, and a last line whose `what` is `verdict`.
pub(super) struct Lines<'a> {
    out: &'a mut (dyn Write + Send),
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self { out }
    }

    fn line(&mut self, object: &Value) -> io::Result<()> {
        writeln!(self.out, "{object}")?;
        self.out.flush()
    }
}

impl View for Lines<'_> {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show(&mut self, happening: &Happening) -> io::Result<()> {
        let mut object = describe(&happening.what);
        object["at_ms"] = happening.at_ms.into();
        self.line(&object)
    }

    fn end(&mut self, verdict: &Verdict) -> io::Result<()> {
        self.line(&json!({
            "who": "demo",
            "what": "verdict",
            "ok": verdict.is_ok(),
            "problems": verdict.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "asked": verdict.asked,
            "received": verdict.ledger.received,
            "results": verdict.ledger.results.len(),
            "runs": verdict.ledger.runs,
            "closed_by_server": verdict.ledger.closed_by_server,
            "cut": verdict.ledger.cut,
            "resumes": verdict.ledger.resumes,
            "connections": verdict.traffic.connections,
            "bytes_up": verdict.traffic.up,
            "bytes_down": verdict.traffic.down,
        }))
    }
}

pub(super) fn describe(what: &What) -> Value {
    match what {
        What::SessionOpened { revision } => {
            json!({ "who": "client", "what": "session_opened", "revision": revision })
        }
        What::Called => json!({ "who": "client", "what": "called" }),
        What::Started { run } => json!({ "who": "server", "what": "started", "run": run }),
        What::StreamOpened { event_id } => {
            json!({ "who": "client", "what": "stream_opened", "event_id": event_id })
        }
        What::Counted(number) => json!({ "who": "server", "what": "counted", "number": number }),
        What::Received(number) => json!({ "who": "client", "what": "received", "number": number }),
        What::Cut => json!({ "who": "wire", "what": "cut" }),
        What::Disconnected { how, back_in_ms } => {
            let (how, status) = match how {
                Disconnect::ByServer => ("closed_by_server", None),
                Disconnect::Broken => ("broken", None),
                Disconnect::Refused(status) => ("refused", Some(status)),
            };
            json!({ "who": "client", "what": "disconnected", "how": how, "status": status, "back_in_ms": back_in_ms })
        }
        What::Resumed { last_event_id } => {
            json!({ "who": "client", "what": "resumed", "last_event_id": last_event_id })
        }
        What::Finished => json!({ "who": "server", "what": "finished" }),
        What::Result(outcome) => {
            json!({ "who": "client", "what": "result", "numbers": outcome.numbers, "sum": outcome.sum })
        }
        What::Failed { error } => json!({ "who": "client", "what": "failed", "error": error }),
    }
}
