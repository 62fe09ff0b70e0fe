//! Lines from the process, and its end after the last of them.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use super::exit::{Exit, ExitReason};
pub use super::framing::Dropped;
use super::framing::LineBuffer;
use super::guard::REFUSED;
use super::spec::ChildSpec;

/// How long stdout is read after the leader's exit, when a process that outlived it keeps the pipe open.
const DRAIN: Duration = Duration::from_millis(500);
/// Bytes read after the exit, at most: more than any pipe holds, less than a flood.
const DRAIN_BYTES: usize = 8 << 20;
/// At most one warning about dropped lines in this time.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// What comes from a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A line of stdout without line end and byte order mark, not blank, at most `max_line` bytes. Nothing else was
    /// checked: it may be a banner or invalid UTF-8. Lines that came together share one allocation; copy a line that
    /// is kept for long.
    Line(Bytes),
    /// A line longer than `max_line` was dropped, here. Comes twice where the line goes on when it is found too long.
    TooLong(Dropped),
    /// The end, once, after all lines.
    Exit(Exit),
}

#[derive(Debug)]
struct Item {
    what: Received,
    /// Room in the queue, given back when the line is received.
    _room: Option<OwnedSemaphorePermit>,
}

/// What the process writes, in order. When lines are not received the process is made to wait once the queue is full;
/// when this is dropped they are read and thrown away.
#[derive(Debug)]
pub struct Lines {
    rx: mpsc::Receiver<Item>,
    ended: bool,
}

impl Lines {
    /// The next line or the end; `None` after the end. Cancel safe.
    pub async fn recv(&mut self) -> Option<Received> {
        if self.ended {
            return None;
        }
        let received = self.rx.recv().await.map_or_else(|| Received::Exit(lost()), |item| item.what);
        self.ended = matches!(received, Received::Exit(_));
        Some(received)
    }
}

/// The tasks are gone without a word: their runtime was dropped, and the process with it.
pub(crate) fn lost() -> Exit {
    Exit { reason: ExitReason::Lost, requested: false, uptime: Duration::ZERO, stderr_tail: String::new() }
}

/// How far the life of the process is, as the supervisor tells it.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Running,
    /// The leader exited: read what is left.
    Draining,
    Over(Exit),
}

/// Counters of one process; all only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) lines: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) too_long: AtomicU64,
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct Reader {
    name: Arc<str>,
    lines: LineBuffer,
    tx: mpsc::Sender<Item>,
    room: Arc<Semaphore>,
    bytes: u32,
    counters: Arc<Counters>,
    /// Whether the process was started by a launcher, which may report on the first line.
    gated: bool,
    warned: Option<Instant>,
    /// Dropped lines that a warning has told of.
    told: u64,
}

/// What the supervisor learns when reading ends.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Stdout is at its end.
    Eof,
    /// The launcher reported that the system refused to run the program.
    Refused(i32),
}

impl Reader {
    pub(crate) fn new(
        spec: &ChildSpec,
        name: Arc<str>,
        gated: bool,
        counters: Arc<Counters>,
    ) -> (Self, Lines) {
        let bytes = u32::try_from(spec.queue.receive_bytes.max(1)).unwrap_or(u32::MAX);
        let (tx, rx) = mpsc::channel(spec.queue.receive_lines.max(1));
        let reader = Self {
            name,
            lines: LineBuffer::new(spec.max_line),
            tx,
            room: Arc::new(Semaphore::new(bytes as usize)),
            bytes,
            counters,
            gated,
            warned: None,
            told: 0,
        };
        (reader, Lines { rx, ended: false })
    }

    /// Reads to the end, tells `ended`, and delivers the exit when the supervisor knows it.
    pub(crate) async fn run(
        mut self,
        mut stdout: impl AsyncRead + AsFd + Unpin,
        mut phase: watch::Receiver<Phase>,
        ended: oneshot::Sender<Ended>,
    ) {
        let refused = self.read(&mut stdout, &mut phase).await;
        if let Some(last) = self.lines.finish() {
            self.deliver(last).await;
        }
        self.tell_dropped().await;
        drop(stdout);
        let _ = ended.send(refused.map_or(Ended::Eof, Ended::Refused));
        let exit = match phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await.as_deref() {
            Ok(Phase::Over(exit)) => exit.clone(),
            _ => return, // the runtime is being dropped; `Lines` makes up the end
        };
        let _ = self.tx.send(Item { what: Received::Exit(exit), _room: None }).await;
    }

    async fn read(
        &mut self,
        stdout: &mut (impl AsyncRead + Unpin),
        phase: &mut watch::Receiver<Phase>,
    ) -> Option<i32> {
        // Time spent waiting for the pipe after the exit, not for the receiver: a slow receiver loses nothing.
        let mut left = DRAIN;
        let mut left_bytes = DRAIN_BYTES;
        let mut draining = false;
        let mut refused = None;
        loop {
            let before = Instant::now();
            let n = tokio::select! {
                biased;
                read = stdout.read_buf(self.lines.space()) => read.unwrap_or(0),
                _ = phase.wait_for(|phase| !matches!(phase, Phase::Running)), if !draining => {
                    draining = true;
                    continue;
                }
                () = sleep(left), if draining => 0,
            };
            if draining {
                left = left.saturating_sub(Instant::now() - before);
                left_bytes = left_bytes.saturating_sub(n);
            }
            loop {
                let line = self.lines.next_line();
                let told = self.tell_dropped().await;
                let Some(line) = line else {
                    if told {
                        continue;
                    }
                    break;
                };
                if std::mem::take(&mut self.gated)
                    && let Some(errno) = line.strip_prefix(REFUSED)
                {
                    refused = Some(String::from_utf8_lossy(errno).trim().parse().unwrap_or_default());
                    continue;
                }
                self.deliver(line).await;
            }
            self.warn();
            if n == 0 || left_bytes == 0 {
                return refused;
            }
        }
    }

    async fn deliver(&mut self, line: Bytes) {
        self.counters.lines.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
        if self.tx.is_closed() {
            return; // nobody listens; the process must still not block on a full pipe
        }
        let size = u32::try_from(line.len()).unwrap_or(u32::MAX).clamp(1, self.bytes);
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(size) => room.ok(),
            () = self.tx.closed() => return,
        };
        let _ = self.tx.send(Item { what: Received::Line(line), _room: room }).await;
    }

    /// Tells the receiver what there is to tell of a dropped line, if there is anything.
    async fn tell_dropped(&mut self) -> bool {
        let Some(dropped) = self.lines.dropped() else { return false };
        let _ = self.tx.send(Item { what: Received::TooLong(dropped), _room: None }).await;
        true
    }

    fn warn(&mut self) {
        let total = self.lines.too_long();
        self.counters.too_long.store(total, Ordering::Relaxed);
        let new = total - self.told;
        let now = Instant::now();
        if new == 0 || self.warned.is_some_and(|at| now - at < WARN_EVERY) {
            return;
        }
        self.warned = Some(now);
        self.told = total;
        tracing::warn!(
            target: "bowline::child",
            child = %self.name,
            dropped = new,
            "the server wrote lines longer than its max_line; they were dropped"
        );
    }
}
