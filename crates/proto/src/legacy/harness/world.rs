//! Writers, a log, connections and a client on one virtual clock.

use super::client::{Client, State};
use super::log::Log;
use super::wire;
use crate::client::StreamEnd;
use crate::jsonrpc::RequestId;
use crate::legacy::*;
use bytes::Bytes;
use std::collections::VecDeque;

/// What may happen. Chances are in percent.
#[derive(Clone, Debug)]
pub(super) struct Knobs {
    pub(super) seed: u64,
    pub(super) primed: bool,
    /// What the handler says: after how many milliseconds, and what.
    pub(super) script: Vec<(u64, Say)>,
    /// When connections are cut, counted from their opening.
    pub(super) cuts: VecDeque<u64>,
    pub(super) lost_wakes: u64,
    pub(super) failed_writes: u64,
    pub(super) failed_reads: u64,
    pub(super) take_over_at: Option<u64>,
    pub(super) drain_at: Option<u64>,
    pub(super) max_connection: Option<u64>,
    pub(super) log_max_events: usize,
    pub(super) page: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Progress,
    Log,
    Ask,
    CloseConnection,
}

pub(super) const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
pub(super) const LOST: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"owner lost"}}"#;

#[derive(Debug)]
struct Hand {
    writer: Writer,
    says: VecDeque<(Millis, Say)>,
    response: &'static str,
    op: Option<(Millis, Op)>,
    next_try: Millis,
}

#[derive(Debug)]
struct Connection {
    generation: u64,
    reader: Reader,
    read: Option<(Millis, u64)>,
    transit: String,
    /// Whether the client is at the other end. Where it is not, the server does not know yet.
    attached: bool,
    cut_at: Option<Millis>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) knobs: Knobs,
    pub(super) now: Millis,
    pub(super) log: Log,
    pub(super) client: Client,
    hands: Vec<Hand>,
    connections: Vec<Connection>,
    random: u64,
    /// What the first writer was given that must not be dropped, in order.
    pub(super) kept: Vec<String>,
    pub(super) droppable_said: u64,
    serial: u64,
    opened_first: bool,
}

impl World {
    pub(super) fn new(knobs: Knobs) -> Self {
        let mut at = Millis(0);
        let says = knobs.script.iter().map(|(pause, say)| {
            at = at.after(*pause);
            (at, *say)
        });
        let says: VecDeque<_> = says.collect();
        let log = Log { max_events: knobs.log_max_events, ..Log::default() };
        let hand = Hand {
            writer: Writer::new(writer_config(), 1),
            says,
            response: RESPONSE,
            op: None,
            next_try: Millis(0),
        };
        Self {
            random: knobs.seed,
            knobs,
            now: Millis(0),
            log,
            client: Client::new(Millis(0)),
            hands: vec![hand],
            connections: Vec::new(),
            kept: Vec::new(),
            droppable_said: 0,
            serial: 0,
            opened_first: false,
        }
    }

    pub(super) fn first_writer(&self) -> &Writer {
        &self.hands[0].writer
    }

    /// Runs until the client has its answer and every connection is over.
    pub(super) fn run(&mut self) {
        for _ in 0..100_000 {
            self.settle();
            let over = matches!(self.client.state, State::Answered | State::Failed(_));
            if over && self.connections.iter().all(|connection| connection.reader.end().is_some()) {
                return;
            }
            let next = self.next_time().unwrap_or_else(|| panic!("everybody waits for ever: {self:#?}"));
            assert!(next >= self.now);
            self.now = next;
            self.happen();
        }
        panic!("it never ends: {self:#?}");
    }

    fn dice(&mut self, sides: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % sides.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.dice(100) < percent
    }

    /// Everything that takes no time.
    fn settle(&mut self) {
        for index in 0..self.hands.len() {
            let latency = 1 + self.dice(40);
            let hand = &mut self.hands[index];
            if hand.op.is_none()
                && hand.next_try <= self.now
                && let Some(op) = hand.writer.next_op()
            {
                assert_eq!(hand.writer.next_op(), None, "two operations at once");
                hand.op = Some((self.now.after(latency), op));
            }
        }
        if !self.opened_first && self.hands[0].writer.created() {
            self.opened_first = true;
            self.connect(Position { offset: 0, poll: 0 });
        }
        for index in 0..self.connections.len() {
            let latency = self.dice(40);
            let connection = &mut self.connections[index];
            while let Some(frame) = connection.reader.poll_frame() {
                connection.transit.push_str(&wire::encode(&frame));
            }
            if let Some(after) = connection.reader.poll_read() {
                assert!(connection.read.is_none(), "two reads at once");
                connection.read = Some((self.now.after(latency), after));
            }
        }
    }

    fn next_time(&self) -> Option<Millis> {
        let mut times = Vec::new();
        for hand in &self.hands {
            times.extend(hand.says.front().map(|(at, _)| *at));
            times.extend(hand.op.as_ref().map(|(at, _)| *at));
            times.extend((hand.next_try > self.now).then_some(hand.next_try));
        }
        for connection in &self.connections {
            times.extend(connection.read.map(|(at, _)| at));
            times.extend(connection.reader.deadline());
            if connection.attached {
                times.extend(connection.cut_at);
                let pending = !connection.transit.is_empty() || connection.reader.end().is_some();
                times.extend(pending.then(|| self.now.after(5)));
            }
        }
        if let State::Waiting { until, .. } = self.client.state {
            times.push(until);
        }
        times.extend(self.knobs.take_over_at.map(Millis));
        times.extend(self.knobs.drain_at.map(Millis));
        times.into_iter().min().map(|at| at.max(self.now))
    }

    fn happen(&mut self) {
        for index in 0..self.hands.len() {
            self.speak(index);
            self.write(index);
        }
        if self.knobs.take_over_at.is_some_and(|at| at <= self.now.0) {
            self.knobs.take_over_at = None;
            self.take_over();
        }
        if self.knobs.drain_at.is_some_and(|at| at <= self.now.0) {
            self.knobs.drain_at = None;
            let now = self.now;
            self.connections.iter_mut().for_each(|it| it.reader.on_close_requested(now, Close::Drain));
        }
        for index in 0..self.connections.len() {
            self.read(index);
            let now = self.now;
            let connection = &mut self.connections[index];
            if connection.reader.deadline().is_some_and(|at| at <= now) {
                connection.reader.on_timeout(now);
                assert!(connection.reader.deadline().is_none_or(|at| at > now), "the same deadline again");
            }
            self.transmit(index);
        }
        if let State::Waiting { until, cursor } = &self.client.state
            && *until <= self.now
        {
            let cursor = cursor.clone();
            let random = self.dice(u64::MAX);
            self.client.on_connected(self.now, &cursor, random);
            self.connect(wire::position(&cursor));
        }
    }

    fn speak(&mut self, index: usize) {
        while let Some((at, say)) = self.hands[index].says.front().copied() {
            if at > self.now {
                return;
            }
            self.serial += 1;
            let n = self.serial;
            let notification = |method| {
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"n":{n}}}}}"#)
            };
            let (text, droppable, key) = match say {
                Say::Progress => (notification("progress"), true, Some(Bytes::from_static(b"\"t\""))),
                Say::Log => (notification("message"), true, None),
                Say::Ask => {
                    (format!(r#"{{"jsonrpc":"2.0","id":"s{n}","method":"roots/list"}}"#), false, None)
                }
                Say::CloseConnection => {
                    let now = self.now;
                    self.connections
                        .iter_mut()
                        .for_each(|it| it.reader.on_close_requested(now, Close::Handler));
                    self.hands[index].says.pop_front();
                    continue;
                }
            };
            let hand = &mut self.hands[index];
            let pushed = hand.writer.push(Bytes::from(text.clone()), droppable, key);
            if pushed == Pushed::Full {
                hand.says[0].0 = self.now.after(10);
                return;
            }
            if droppable {
                self.droppable_said += 1;
            } else if pushed != Pushed::Stopped {
                assert_eq!(pushed, Pushed::Queued);
                self.kept.push(text);
            }
            hand.says.pop_front();
        }
        let hand = &mut self.hands[index];
        let _ = hand.writer.seal(Some((&RequestId::from(7), Bytes::from_static(hand.response.as_bytes()))));
    }

    fn write(&mut self, index: usize) {
        let fails = self.chance(self.knobs.failed_writes);
        let reaches_the_log = !fails || self.chance(50);
        let pause = 10 + self.dice(500);
        let hand = &mut self.hands[index];
        let Some((_, op)) = hand.op.take_if(|(at, _)| *at <= self.now) else { return };
        let before = (self.log.tail(), self.log.sealed);
        let mut outcome = Outcome::Unavailable;
        if reaches_the_log {
            outcome = self.log.perform(hand.writer.epoch(), &op);
        }
        if fails {
            outcome = Outcome::Unavailable;
        }
        if hand.writer.on_outcome(outcome) == Directive::Retry {
            hand.next_try = self.now.after(pause);
        }
        if (self.log.tail(), self.log.sealed) != before {
            self.wake();
        }
    }

    fn wake(&mut self) {
        for index in 0..self.connections.len() {
            if !self.chance(self.knobs.lost_wakes) {
                self.connections[index].reader.on_wake();
            }
        }
    }

    fn take_over(&mut self) {
        if !self.log.exists {
            return;
        }
        let hand = Hand {
            writer: Writer::take_over(writer_config(), self.log.epoch + 1, self.log.tail()),
            says: VecDeque::new(),
            response: LOST,
            op: None,
            next_try: self.now.after(self.random % 50),
        };
        self.hands.push(hand);
        self.speak(self.hands.len() - 1);
    }

    fn connect(&mut self, from: Position) {
        // The first connection is the POST's own; a stream is attached to only once it is there.
        let start = Start {
            offset: from.offset,
            poll: from.poll,
            generation: self.log.attach(),
            stream_started: Millis(0),
            random: self.random,
        };
        let cut_at = self.knobs.cuts.pop_front().map(|after| self.now.after(after));
        let mut reader = Reader::open(reader_config(&self.knobs), start, self.now);
        if self.chance(5) {
            reader.on_close_requested(self.now, Close::Budget);
        }
        self.connections.push(Connection {
            generation: start.generation,
            reader,
            read: None,
            transit: String::new(),
            attached: true,
            cut_at,
        });
        self.wake();
    }

    fn read(&mut self, index: usize) {
        let fails = self.chance(self.knobs.failed_reads);
        let store_away = self.chance(50);
        let asking = self.chance(20);
        let connection = &mut self.connections[index];
        let Some((_, after)) = connection.read.take_if(|(at, _)| *at <= self.now) else { return };
        if fails && store_away && self.knobs.primed {
            connection.reader.on_close_requested(self.now, Close::StoreAway);
        } else if fails {
            connection.reader.on_read_failed(self.now);
        } else {
            let events = self.log.events.iter().skip(after as usize).take(self.knobs.page).cloned().collect();
            let facts = PageFacts {
                events,
                tail: self.log.tail(),
                sealed: self.log.sealed,
                generation: self.log.generation,
                asking,
            };
            let open = connection.reader.end().is_none();
            connection.reader.on_page(self.now, facts);
            if open && connection.generation < self.log.generation {
                assert_eq!(connection.reader.poll_frame(), None, "two connections read the stream");
                assert_eq!(connection.reader.end(), Some(End::Displaced));
            }
        }
    }

    /// Moves bytes to the client, and tells it how the body ended.
    fn transmit(&mut self, index: usize) {
        let random = self.dice(u64::MAX);
        let now = self.now;
        let Connection { reader, transit, attached, cut_at, .. } = &mut self.connections[index];
        if !*attached {
            transit.clear();
            return;
        }
        if cut_at.is_some_and(|at| at <= now) {
            let arrived = random as usize % (transit.len() + 1);
            self.client.on_bytes(&transit[..arrived]);
            *attached = false;
            self.client.on_end(now, StreamEnd::Error, random);
            return;
        }
        self.client.on_bytes(transit);
        transit.clear();
        if let Some(end) = reader.end() {
            *attached = false;
            if self.knobs.primed {
                assert!(
                    self.client.ids.len() > 1 || end == End::Displaced,
                    "a connection without a fresh id"
                );
            } else {
                assert!(matches!(end, End::Sealed | End::Displaced), "closed early: {end:?}");
            }
            self.client.on_end(now, StreamEnd::Graceful, random);
        }
    }
}

fn reader_config(knobs: &Knobs) -> ReaderConfig {
    ReaderConfig {
        ids: true,
        primed: knobs.primed,
        keep_alive: Some(15_000),
        max_connection: knobs.max_connection,
        recheck: 3_000,
        retry: RetryPolicy::default(),
        standalone: false,
    }
}

const fn writer_config() -> WriterConfig {
    WriterConfig { max_queue_events: 4, max_queue_bytes: 400, max_event_bytes: 300 }
}
