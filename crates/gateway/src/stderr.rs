//! This process's own stderr, written to without ever waiting for whoever reads it.
//!
//! A pipe that nobody reads (a supervisor that hangs, a log collector that is behind) takes 64 KiB and then stops its
//! writers. A log line must not stop a server: lines wait here, in a bounded queue with a thread of its own, and what finds no
//! room is dropped and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Bytes that wait at most.
const MOST: usize = 4 << 20;

/// A reader that took nothing for this long is not waited for.
const STALLED: Duration = Duration::from_secs(1);

/// A writer to stderr that never waits. What one call of `write` is given is written in one piece: give it whole lines.
#[must_use]
pub fn writer() -> Writer {
    Writer(process())
}

/// Waits until everything that was written has reached stderr, for `patience` at most. For the end of a program.
pub fn flush(patience: Duration) {
    process().flush(patience);
}

/// Whether whoever writes much should pause for a moment: stderr is read, and slower than it is written.
pub(crate) fn is_crowded() -> bool {
    process().is_crowded()
}

fn process() -> Arc<Queue> {
    static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();
    QUEUE.get_or_init(|| Queue::start(io::stderr(), MOST)).clone()
}

/// See [`writer`].
#[derive(Clone, Debug)]
pub struct Writer(Arc<Queue>);

impl Write for Writer {
    /// Takes all of it, or drops and counts it.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.push(buf);
        Ok(buf.len())
    }

    /// Does not wait: see [`flush`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time of the thread that writes: no runtime's, and a paused clock must not hold it.
#[allow(clippy::disallowed_methods, reason = "a blocking write on a thread takes real time")]
fn now() -> Instant {
    Instant::now()
}

#[derive(Debug)]
struct Queue {
    most: usize,
    state: Mutex<State>,
    /// Something is there to write.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Box<[u8]>>,
    bytes: usize,
    dropped: u64,
    /// Since when the piece that is being written is being written.
    writing: Option<Instant>,
}

impl Queue {
    fn start(sink: impl Write + Send + 'static, most: usize) -> Arc<Self> {
        let queue =
            Arc::new(Self { most, state: Mutex::default(), filled: Condvar::new(), emptied: Condvar::new() });
        let writes = queue.clone();
        // Without a thread there is no log; a system that cannot start one has other worries.
        let _ = std::thread::Builder::new().name("stderr".into()).spawn(move || writes.write_on(sink));
        queue
    }

    fn push(&self, piece: &[u8]) {
        let mut state = self.state.lock();
        if state.bytes + piece.len() > self.most {
            state.dropped += 1;
            return;
        }
        // In the place of what is missing.
        if let Some(note) = state.take_note() {
            state.add(note);
        }
        state.add(piece.into());
        drop(state);
        self.filled.notify_one();
    }

    fn flush(&self, patience: Duration) {
        let until = now() + patience;
        let mut state = self.state.lock();
        while !state.is_empty() {
            if self.emptied.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    fn is_crowded(&self) -> bool {
        let state = self.state.lock();
        state.bytes > self.most / 2 && state.writing.is_some_and(|since| since.elapsed() < STALLED)
    }

    fn write_on(&self, mut sink: impl Write) {
        let mut state = self.state.lock();
        loop {
            state.writing = None;
            let Some(piece) = state.pieces.pop_front().or_else(|| state.take_note()) else {
                self.emptied.notify_all();
                self.filled.wait(&mut state);
                continue;
            };
            state.bytes = state.bytes.saturating_sub(piece.len());
            state.writing = Some(now());
            drop(state);
            // A stderr that is gone is nobody's loss.
            let _ = sink.write_all(&piece);
            state = self.state.lock();
        }
    }
}

impl State {
    fn add(&mut self, piece: Box<[u8]>) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    fn take_note(&mut self) -> Option<Box<[u8]>> {
        let dropped = std::mem::take(&mut self.dropped);
        let note =
            || format!("bowline: {dropped} lines of the log were dropped: stderr is not read fast enough\n");
        (dropped > 0).then(|| note().into_bytes().into())
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.dropped == 0 && self.writing.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A reader that takes one piece each time it is told to, and all once it is told no more.
    struct Slow {
        /// Told when a piece has come, before it is taken.
        came: SyncSender<()>,
        may: Receiver<()>,
        got: SyncSender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let _ = self.came.try_send(());
            let _ = self.may.recv();
            let _ = self.got.send(String::from_utf8_lossy(buf).into_owned());
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_holds_nobody_up_and_learns_what_it_missed() {
        let (came, coming) = sync_channel(100);
        let (allow, may) = sync_channel(100);
        let (got, said) = sync_channel(100);
        let queue = Queue::start(Slow { came, may, got }, 40);
        let push = |n: usize| queue.push(format!("line {n:04}\n").as_bytes());
        push(0);
        // From here on the reader holds the first line, so that room is left for four.
        coming.recv().unwrap();
        (1..1000).for_each(push);
        queue.flush(Duration::ZERO);
        drop(allow);
        queue.flush(Duration::from_secs(30));
        let said: Vec<String> = said.try_iter().collect();
        let (note, lines) = said.split_last().unwrap();
        assert_eq!(lines.len(), 5, "{said:?}");
        assert!(lines.iter().enumerate().all(|(n, line)| *line == format!("line {n:04}\n")), "{said:?}");
        assert!(note.starts_with("bowline: 995 lines"), "{note}");
    }

    #[test]
    fn only_a_reader_that_reads_is_waited_for() {
        let (came, _) = sync_channel(100);
        let (allow, may) = sync_channel(100);
        let (got, said) = sync_channel(100);
        let queue = Queue::start(Slow { came, may, got }, 20);
        assert!(!queue.is_crowded());
        queue.push(b"first 8 ");
        allow.send(()).unwrap();
        assert_eq!(said.recv().as_deref(), Ok("first 8 "));
        queue.push(b"more than half\n");
        queue.push(b"1234\n");
        drop(allow);
        queue.flush(Duration::from_secs(30));
        assert!(!queue.is_crowded());
        assert_eq!(said.try_iter().collect::<String>(), "more than half\n1234\n");
    }
}
