//! What the client has heard of a call before it is run again.

use crate::fleet::patiently;
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{Message, Notification, Raw, RequestId, parse_message},
};
use bowline_store::{ReadError, ReadLimit, Store};
use bytes::Bytes;
use parking_lot::Mutex;
use std::time::Duration;

/// How many of the last events are looked at, how many bytes in one read, and how many reads: what comes before was read by the client long
/// ago.
const LAST: u64 = 4_096;
const PAGE: ReadLimit = ReadLimit { events: 256, bytes: 1024 * 1024 };
const PAGES: usize = 64;

/// The member of `_meta` that marks progress of a call that was run again: which run it is, from 2 on.
pub(crate) const RUN: &str = "bowline/run";

/// A run of a call that is not its first one: its client has heard of the run before.
#[derive(Debug)]
pub(crate) struct Again {
    /// The number of this run, from 2 on.
    run: u64,
    /// The progress that was reported last: less than that is not said again.
    floor: Mutex<Option<f64>>,
}

impl Again {
    pub(crate) const fn new(run: u64, reported: Option<f64>) -> Self {
        Self { run, floor: Mutex::new(reported) }
    }

    /// Progress as this run says it: marked with the number of the run, and never backwards, as the protocol demands. `None` where the
    /// client has heard more than that already. What is no progress stays as it is.
    pub(crate) fn mark(&self, notification: Notification) -> Option<Notification> {
        if &*notification.method != "notifications/progress" {
            return Some(notification);
        }
        let Some(params) = &notification.params else { return Some(notification) };
        if let Some(progress) = progress(params) {
            let mut floor = self.floor.lock();
            if floor.is_some_and(|reported| progress <= reported) {
                return None;
            }
            *floor = Some(progress);
        }
        let meta = params.member("_meta").unwrap_or_else(Raw::empty_object);
        let number = Raw::from_trusted(self.run.to_string().into());
        let marked = meta.with_member(RUN, &number).and_then(|meta| params.with_member("_meta", &meta));
        Some(match marked {
            Some(params) => Notification::new(&*notification.method, Some(params)),
            None => notification,
        })
    }
}

fn progress(params: &Raw) -> Option<f64> {
    params.member("progress")?.to::<f64>().ok()
}

/// How long is waited before a store that is away is asked once more, and how often: who does not know what the client has heard would tell it
/// of less.
const PAUSE: Duration = Duration::from_secs(1);
const TRIES: usize = 60;

/// What the log still tells of the run before. Its oldest events may be gone: those the client has read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Past {
    /// The questions to the client; which of them were answered is not known.
    pub(crate) questions: Vec<RequestId>,
    /// The highest progress.
    pub(crate) progress: Option<f64>,
}

impl Past {
    /// Reads it from the log of a call that ends at `tail`; waits for a store that is away. What is gone, the client has read long ago.
    pub(crate) async fn read(store: &dyn Store, stream: StreamId, tail: u64) -> Self {
        let mut past = Self::default();
        let mut after = tail.saturating_sub(LAST);
        let (mut pages, mut tries) = (PAGES, TRIES);
        while pages > 0 && tries > 0 {
            match patiently(store.read_after(stream, after, PAGE)).await {
                Ok(page) if !page.events.is_empty() => {
                    pages -= 1;
                    after += page.events.len() as u64;
                    page.events.into_iter().for_each(|event| past.note(event));
                }
                Err(ReadError::Evicted { oldest }) if oldest > after + 1 => {
                    pages -= 1;
                    after = oldest - 1;
                }
                Err(ReadError::Unavailable(_)) => {
                    tries -= 1;
                    tokio::time::sleep(PAUSE).await;
                }
                _ => break,
            }
        }
        past
    }

    fn note(&mut self, event: Bytes) {
        match parse_message(event) {
            Ok(Message::Request(request)) => self.questions.push(request.id),
            Ok(Message::Notification(said)) if &*said.method == "notifications/progress" => {
                if let Some(progress) = said.params.as_ref().and_then(progress)
                    && self.progress.is_none_or(|highest| progress > highest)
                {
                    self.progress = Some(progress);
                }
            }
            _ => {}
        }
    }

    /// What tells the client that nobody waits for its answer any more.
    pub(crate) fn withdrawals(&self) -> Vec<Bytes> {
        let withdraw = |id: &RequestId| {
            let params = serde_json::json!({
                "requestId": id,
                "reason": "the server that asked is gone; the call is run again and asks anew",
            });
            Raw::from_value(&params)
                .ok()
                .map(|params| Notification::new("notifications/cancelled", Some(params)).to_bytes())
        };
        self.questions.iter().filter_map(withdraw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(method: &str, params: &Value) -> Notification {
        Notification::new(method, Some(Raw::from_value(params).unwrap()))
    }

    fn params(notification: Notification) -> Value {
        notification.params.unwrap().to().unwrap()
    }

    #[test]
    fn progress_is_marked_and_never_goes_back() {
        let again = Again::new(2, Some(3.0));
        let progress = |n: f64| {
            again.mark(said("notifications/progress", &json!({ "progressToken": "t", "progress": n })))
        };
        assert!(progress(1.0).is_none() && progress(3.0).is_none());
        let marked = params(progress(3.5).unwrap());
        assert_eq!(marked, json!({ "progressToken": "t", "progress": 3.5, "_meta": { "bowline/run": 2 } }));
        assert!(progress(3.5).is_none(), "it goes up from there");
        let more = json!({ "progress": 4, "_meta": { "a": 1 } });
        let kept = params(again.mark(said("notifications/progress", &more)).unwrap());
        assert_eq!(kept["_meta"], json!({ "a": 1, "bowline/run": 2 }), "what is there stays there");
    }

    #[test]
    fn nothing_but_progress_is_touched() {
        let again = Again::new(2, Some(3.0));
        let log = json!({ "level": "info", "data": "x", "progress": 1 });
        assert_eq!(params(again.mark(said("notifications/message", &log)).unwrap()), log);
        // What is no number is for the client to make sense of.
        let odd = again.mark(said("notifications/progress", &json!({ "progress": "half" })));
        assert_eq!(params(odd.unwrap())["progress"], "half");
    }

    #[test]
    fn the_past_is_read_from_what_was_said() {
        let mut past = Past::default();
        for event in [
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}"#,
            r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1.5}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"progress":9}}"#,
            "nonsense",
        ] {
            past.note(event.into());
        }
        assert_eq!(past, Past { questions: vec![RequestId::String("q1".into())], progress: Some(2.0) });
        let told: Value = serde_json::from_slice(&past.withdrawals()[0]).unwrap();
        assert_eq!(
            (&told["method"], &told["params"]["requestId"]),
            (&json!("notifications/cancelled"), &json!("q1"))
        );
    }
}
