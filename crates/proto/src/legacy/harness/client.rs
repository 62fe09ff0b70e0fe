//! A client: keeps every event it saw on the wire, and leaves it to the client half when to come back.

use super::wire::{self, Fields};
use crate::client::{Action, CallStream, ClientError, ReconnectPolicy, StreamEnd};
use crate::jsonrpc::RequestId;
use crate::time::Millis;

#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    Reading,
    Waiting {
        until: Millis,
        cursor: String,
    },
    Answered,
    Failed(ClientError),
}

#[derive(Debug)]
pub(super) struct Client {
    stream: CallStream,
    pub(super) state: State,
    /// What arrived of the connection at hand and is no whole event yet.
    buffer: String,
    /// The data of every event, over all connections, as it was on the wire.
    pub(super) received: Vec<String>,
    /// The same, as the client half handed it on.
    pub(super) delivered: Vec<String>,
    /// The ids of this connection, after the one that was presented.
    pub(super) ids: Vec<String>,
    pub(super) empty_events: usize,
    pub(super) requests: Vec<Millis>,
}

impl Client {
    pub(super) fn new(now: Millis) -> Self {
        let policy = ReconnectPolicy { max_attempts: 1_000, ..ReconnectPolicy::default() };
        let mut stream = CallStream::new(policy, RequestId::from(7));
        stream.on_status(now, 200, None, 0);
        Self {
            stream,
            state: State::Reading,
            buffer: String::new(),
            received: Vec::new(),
            delivered: Vec::new(),
            ids: Vec::new(),
            empty_events: 0,
            requests: vec![now],
        }
    }

    pub(super) fn on_connected(&mut self, now: Millis, presented: &str, random: u64) {
        self.state = State::Reading;
        self.buffer.clear();
        self.ids = vec![presented.to_owned()];
        self.requests.push(now);
        self.stream.on_status(now, 200, None, random);
    }

    pub(super) fn on_bytes(&mut self, bytes: &str) {
        self.buffer.push_str(bytes);
        for Fields { id, data, retry } in wire::decode(&mut self.buffer) {
            if let Some(id) = &id {
                assert!(!self.ids.contains(id), "the id {id} comes again: {:?}", self.ids);
                self.ids.push(id.clone());
            }
            match data.as_deref() {
                Some("") => self.empty_events += 1,
                Some(data) => self.received.push(data.to_owned()),
                None => {}
            }
            self.stream.on_event(id.as_deref(), data.as_deref(), retry);
        }
        self.act();
    }

    pub(super) fn on_end(&mut self, now: Millis, end: StreamEnd, random: u64) {
        self.stream.on_end(now, end, random);
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.stream.poll() {
            match action {
                Action::Deliver { text, message } => {
                    assert!(message.is_ok(), "{text:?}");
                    self.delivered.push(String::from_utf8(text.into()).unwrap());
                }
                Action::Reconnect { at, last_event_id } => {
                    self.state = State::Waiting { until: at, cursor: last_event_id };
                }
                Action::Fail(error) => self.state = State::Failed(error),
                Action::Done => self.state = State::Answered,
            }
        }
    }
}
