//! What happens in a demo, and when.

use tokio::{sync::mpsc, time::Instant};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Happening {
    /// Milliseconds since the start.
    pub(super) at_ms: u64,
    /// What it was.
    pub(super) what: What,
}

/// What can happen, as the side that it happens to saw it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// Client: `initialize` was answered.
    SessionOpened { revision: String },
    /// Client: it sends the call.
    Called,
    /// Server: the tool begins; `run` counts how often it did.
    Started { run: u64 },
    /// Client: the answer is a stream, and this is the id of its first event.
    StreamOpened { event_id: String },
    /// Server: the tool counts.
    Counted(u64),
    /// Client: a number arrives.
    Received(u64),
    /// Wire: the relay resets the connection in the middle of a message.
    Cut,
    /// Client: it is left without a connection and will be back.
    Disconnected { how: Disconnect, back_in_ms: u64 },
    /// Client: it asks for what came after that event.
    Resumed { last_event_id: String },
    /// Server: the tool is done.
    Finished,
    /// Client: the result arrives.
    Result(Outcome),
    /// Client: the call ended without a result.
    Failed { error: String },
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disconnect {
    /// The server ended it in good order.
    ByServer,
    /// It broke, or could not be made.
    Broken,
    /// The server answered with a status that may change.
    Refused(u16),
}

/// What the tool says that it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// What it counted, in order.
    pub(super) numbers: Vec<u64>,
    /// The sum of that.
    pub(super) sum: u64,
}

/// Where every side tells what happens to it. Clones write to the same timeline.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    start: Instant,
    queue: mpsc::Sender<Happening>,
}

impl Recorder {
    /// A timeline that starts now, and its reading end. `bound`: how many happenings may wait there.
    pub(super) fn new(bound: usize) -> (Self, mpsc::Receiver<Happening>) {
        let (queue, happenings) = mpsc::channel(bound);
        (Self { start: Instant::now(), queue }, happenings)
    }

    /// Another timeline with the same start.
    pub(super) fn beside(&self, bound: usize) -> (Self, mpsc::Receiver<Happening>) {
        let (queue, happenings) = mpsc::channel(bound);
        (Self { start: self.start, queue }, happenings)
    }

    /// Milliseconds since the start.
    pub(super) fn now_ms(&self) -> u64 {
        let passed = Instant::now().duration_since(self.start);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells what happened. Returns once it is in the timeline, so that what a side does next comes after it.
    pub(super) async fn note(&self, what: What) {
        // Nobody reads once the demo is over.
        drop(self.queue.send(Happening { at_ms: self.now_ms(), what }).await);
    }
}
