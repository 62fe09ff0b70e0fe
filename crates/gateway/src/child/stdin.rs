//! Lines to the process: a queue bounded in lines, bytes and time, and a task that writes what waits in one call.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use memchr::memchr;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, watch};
use tokio::time::timeout;

use super::spec::QueueBounds;

/// Lines written in one call (each takes two of the 1024 slices a call may have).
const BATCH: usize = 256;

/// Why a line was not taken for the stdin of a process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The process ended or is being stopped; the line was not written.
    #[error("{name} is not running any more; the message was not sent")]
    Closed {
        /// Name of the child.
        name: String,
    },
    /// The process does not read its stdin and the queue is full; the line was not written.
    #[error(
        "{name} does not read its stdin: {queued} bytes are waiting and there was no room within {waited:?}; the message was not sent"
    )]
    Full {
        /// Name of the child.
        name: String,
        /// Bytes in the queue.
        queued: usize,
        /// The deadline that passed.
        waited: Duration,
    },
    /// The line contains a newline and would be read as two.
    #[error("a message to {name} contains a line feed at byte {at}; write JSON on one line")]
    LineFeed {
        /// Name of the child.
        name: String,
        /// Position of the line feed.
        at: usize,
    },
}

#[derive(Debug)]
pub(crate) struct Waiting {
    line: Bytes,
    /// Held until the line is written.
    _room: OwnedSemaphorePermit,
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct StdinQueue {
    name: Arc<str>,
    tx: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    bytes: u32,
    deadline: Duration,
}

/// The writing side: what [`write_lines`] needs, and the means to close the queue.
#[derive(Debug)]
pub(crate) struct StdinSource {
    rx: mpsc::Receiver<Waiting>,
    pub(crate) room: Arc<Semaphore>,
}

pub(crate) fn queue(name: Arc<str>, bounds: &QueueBounds) -> (StdinQueue, StdinSource) {
    let bytes = u32::try_from(bounds.send_bytes.max(1)).unwrap_or(u32::MAX);
    let (tx, rx) = mpsc::channel(bounds.send_lines.max(1));
    let room = Arc::new(Semaphore::new(bytes as usize));
    let source = StdinSource { rx, room: Arc::clone(&room) };
    (StdinQueue { name, tx, room, bytes, deadline: bounds.send_timeout }, source)
}

impl StdinQueue {
    /// Cancel safe: a line is queued whole or not at all.
    pub(crate) async fn send(&self, line: Bytes) -> Result<(), SendError> {
        let name = || self.name.to_string();
        if let Some(at) = memchr(b'\n', &line) {
            return Err(SendError::LineFeed { name: name(), at });
        }
        let size = u32::try_from(line.len() + 1).unwrap_or(u32::MAX).min(self.bytes);
        let queued = async {
            let room = Arc::clone(&self.room).acquire_many_owned(size).await.map_err(|_| ())?;
            self.tx.send(Waiting { line, _room: room }).await.map_err(|_| ())
        };
        match timeout(self.deadline, queued).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(())) => Err(SendError::Closed { name: name() }),
            Err(_) => Err(SendError::Full { name: name(), queued: self.queued(), waited: self.deadline }),
        }
    }

    /// The same without waiting for room.
    pub(crate) fn try_send(&self, line: Bytes) -> Result<(), SendError> {
        let name = || self.name.to_string();
        if let Some(at) = memchr(b'\n', &line) {
            return Err(SendError::LineFeed { name: name(), at });
        }
        let full = || SendError::Full { name: name(), queued: self.queued(), waited: Duration::ZERO };
        let size = u32::try_from(line.len() + 1).unwrap_or(u32::MAX).min(self.bytes);
        let room = Arc::clone(&self.room).try_acquire_many_owned(size).map_err(|refused| match refused {
            TryAcquireError::Closed => SendError::Closed { name: name() },
            TryAcquireError::NoPermits => full(),
        })?;
        self.tx.try_send(Waiting { line, _room: room }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Closed(_) => SendError::Closed { name: name() },
            mpsc::error::TrySendError::Full(_) => full(),
        })
    }

    /// Waits until nothing is written any more.
    pub(crate) async fn ended(&self) {
        self.tx.closed().await;
    }

    /// Bytes accepted and not yet written.
    pub(crate) fn queued(&self) -> usize {
        (self.bytes as usize).saturating_sub(self.room.available_permits())
    }
}

/// Writes queued lines until `close` turns true (then what is queued is still written) or the process stops reading;
/// then closes stdin.
pub(crate) async fn write_lines(
    mut stdin: impl AsyncWrite + Unpin,
    mut source: StdinSource,
    mut close: watch::Receiver<bool>,
) {
    let mut batch = Vec::new();
    let mut closing = false;
    loop {
        batch.clear();
        let count = tokio::select! {
            biased;
            n = source.rx.recv_many(&mut batch, BATCH) => n,
            _ = close.wait_for(|close| *close), if !closing => {
                closing = true;
                source.room.close();
                source.rx.close();
                continue;
            }
        };
        if count == 0 || write_batch(&mut stdin, &batch).await.is_err() {
            // EPIPE: it closed its stdin. Whether it lives is for its exit and its stdout to say.
            source.room.close();
            return;
        }
    }
}

async fn write_batch(stdin: &mut (impl AsyncWrite + Unpin), batch: &[Waiting]) -> std::io::Result<()> {
    let mut slices: Vec<_> =
        batch.iter().flat_map(|waiting| [IoSlice::new(&waiting.line), IoSlice::new(b"\n")]).collect();
    let mut slices = slices.as_mut_slice();
    // Empty lines leave empty slices in front, which would read as a write of nothing.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let n = stdin.write_vectored(slices).await?;
        if n == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut slices, n);
    }
    stdin.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn bounds() -> QueueBounds {
        QueueBounds {
            send_bytes: 10,
            send_lines: 100,
            send_timeout: Duration::from_secs(3),
            ..QueueBounds::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_costs_its_senders_the_deadline_and_no_more() {
        let (queue, _source) = queue("files".into(), &bounds());
        queue.send(Bytes::from_static(b"123456")).await.unwrap();
        let start = tokio::time::Instant::now();
        let error = queue.send(Bytes::from_static(b"789")).await.unwrap_err();
        assert_eq!(
            error,
            SendError::Full { name: "files".into(), queued: 7, waited: Duration::from_secs(3) }
        );
        assert_eq!(tokio::time::Instant::now() - start, Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn lines_larger_than_the_bound_pass_alone_and_the_queue_is_written_before_the_close() {
        let (queue, source) = queue("files".into(), &bounds());
        let (close, closed) = watch::channel(false);
        let (mut ours, theirs) = tokio::io::duplex(4);
        let writer = tokio::spawn(write_lines(theirs, source, closed));
        for line in ["a line larger than the bound", "", "x"] {
            queue.send(Bytes::from(line)).await.unwrap();
            if line.is_empty() {
                close.send_replace(false);
            }
            if line == "a line larger than the bound" {
                let mut got = vec![0; line.len() + 1];
                ours.read_exact(&mut got).await.unwrap();
            }
        }
        close.send_replace(true);
        let mut rest = String::new();
        ours.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "\nx\n");
        writer.await.unwrap();
        assert_eq!(queue.send(Bytes::new()).await, Err(SendError::Closed { name: "files".into() }));
        assert_eq!(queue.queued(), 0);
    }

    #[tokio::test]
    async fn who_does_not_wait_learns_that_there_is_no_room() {
        let (queue, source) = queue("files".into(), &bounds());
        queue.try_send(Bytes::from_static(b"123456")).unwrap();
        let full = SendError::Full { name: "files".into(), queued: 7, waited: Duration::ZERO };
        assert_eq!(queue.try_send(Bytes::from_static(b"789")), Err(full));
        source.room.close();
        assert_eq!(queue.try_send(Bytes::from_static(b"7")), Err(SendError::Closed { name: "files".into() }));
    }

    #[tokio::test]
    async fn one_line_stays_one_line() {
        let (queue, _source) = queue("files".into(), &bounds());
        let error = queue.send(Bytes::from_static(b"{\n}")).await.unwrap_err();
        assert_eq!(error, SendError::LineFeed { name: "files".into(), at: 1 });
    }
}
