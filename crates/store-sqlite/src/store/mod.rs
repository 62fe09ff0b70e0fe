//! The store itself: its threads, and how calls reach them.

mod backends;
mod mailboxes;
mod sessions;
mod streams;

use crate::{
    OpenError, Options,
    clock::{StoreTime, instant, since},
    committer,
    committer::micros,
    counts::Counts,
    hints::Hints,
    job::{Change, Work},
    lane::Lane,
    news, open,
    place::Astray,
    readers::{self, Checked, Read, Readers, View},
    tx::{State, Tx},
    waiters::Waiters,
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Unavailable, WakeBus, Wakeups};
use parking_lot::{Condvar, Mutex};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};
use tokio::{sync::oneshot, time::timeout};

/// Keeps everything in one SQLite file. Clones share one store; see the crate for what it promises.
///
/// When the last clone is dropped, what is queued is written and the file is closed; that waits for the disk.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    path: PathBuf,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What calls and threads share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) time: StoreTime,
    pub(crate) changes: Lane<Box<dyn Work>>,
    pub(crate) reads: Lane<Read>,
    pub(crate) hints: Hints,
    /// How much is to be swept.
    pub(crate) sweep: AtomicUsize,
    pub(crate) waiters: Arc<Waiters>,
    /// The number of the newest commit whose changes were told here.
    pub(crate) news: AtomicI64,
    pub(crate) counts: Counts,
    /// What became of the files, where they are no longer those at the path.
    pub(crate) astray: Astray,
    closed: AtomicBool,
    /// Wakes the thread that watches for changes by others.
    watch: (Mutex<()>, Condvar),
}

impl Shared {
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
        self.changes.close();
        self.reads.close();
        let _watcher = self.watch.0.lock();
        self.watch.1.notify_all();
    }

    /// Waits until it is time to look for changes by others. Returns whether to look, and not to stop.
    pub(crate) fn pause_watching(&self) -> bool {
        let mut watcher = self.watch.0.lock();
        while self.waiters.is_empty() && !self.closed.load(Relaxed) {
            self.watch.1.wait(&mut watcher);
        }
        if !self.closed.load(Relaxed) {
            self.watch.1.wait_for(&mut watcher, self.options.wake_interval);
        }
        !self.closed.load(Relaxed)
    }

    fn start_watching(&self) {
        let _watcher = self.watch.0.lock();
        self.watch.1.notify_all();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
        let this = thread::current().id();
        let threads = self.threads.get_mut();
        // A thread of the store that drops the last one (where a task ends as it is woken) cannot wait for its own end, nor for the
        // committer's, which comes after it. They end all the same.
        if threads.iter().any(|thread| thread.thread().id() == this) {
            return;
        }
        for thread in threads.drain(..) {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl SqliteStore {
    /// Opens the file at `path`, or makes it (for its owner only). Starts `readers` + 2 threads.
    ///
    /// Blocks the thread for some milliseconds: after a crash the log is read once, and a file of up to 4 MiB is checked
    /// as a whole. Another process may have the file open.
    ///
    /// # Errors
    /// When the file is something else, damaged, of a newer release, or not accessible. It is left byte for byte as it
    /// is then.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let opened = open::open(path, &options)?;
        let io = |error| OpenError::Io { path: path.to_owned(), error };
        let sqlite =
            |error: rusqlite::Error| OpenError::Sqlite { path: path.to_owned(), what: error.to_string() };
        let state = State::load(&opened.writer).map_err(sqlite)?;
        let writer = opened.opening;
        let connections = (0..=options.readers.max(1))
            .map(|_| open::reader(path, &options))
            .collect::<Result<Vec<_>, _>>()?;
        let (connections, readers) = Readers::of(connections);
        let (shared, thread) = committer::start(opened, path.to_owned(), readers, |time| {
            let counts = Counts::default();
            counts.note(state.totals, crate::counts::Happened::default());
            Arc::new(Shared {
                time,
                changes: Lane::new(options.queue, options.queue_bytes),
                reads: Lane::new(options.queue, 1),
                hints: Hints::default(),
                sweep: AtomicUsize::new(0),
                waiters: Arc::default(),
                news: AtomicI64::new(state.news),
                counts,
                astray: Astray::default(),
                closed: AtomicBool::new(false),
                watch: (Mutex::new(()), Condvar::new()),
                options,
            })
        })
        .map_err(io)?;
        // From here on dropping the store ends its threads.
        let threads = Mutex::new(vec![thread]);
        let store = Self { inner: Arc::new(Inner { shared, path: path.to_owned(), threads }) };
        for (index, reader) in connections.into_iter().enumerate() {
            let shared = Arc::clone(&store.inner.shared);
            let name = if index == 0 { "bowline-watch" } else { "bowline-read" };
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    if index == 0 {
                        news::watch(reader.conn(), writer, &shared);
                    } else {
                        readers::run(reader.conn(), &shared);
                    }
                })
                .map_err(io)?;
            store.inner.threads.lock().push(thread);
        }
        Ok(store)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Has the committer do something; returns when that is committed.
    async fn change<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let shared = self.shared();
        let started = instant();
        let answer = timeout(shared.options.patience, async {
            let place = shared.changes.place(bytes).await?;
            let (reply, answer) = oneshot::channel();
            shared.changes.push(place, Box::new(Change::new(work, reply)));
            answer.await.ok()
        })
        .await;
        shared.counts.wait_micros.add(micros(since(started)));
        self.answered(answer)?
    }

    /// Has a reader do something.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> Checked<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let shared = self.shared();
        if let Some(why) = shared.astray.why() {
            return Err(why);
        }
        let answer = timeout(shared.options.patience, async {
            let place = shared.reads.place(0).await?;
            let (reply, answer) = oneshot::channel();
            let job: Read = Box::new(move |view| {
                if !reply.is_closed() {
                    // Whoever gave up waiting does not want it.
                    let _ = reply.send(read(view));
                }
            });
            shared.reads.push(place, job);
            answer.await.ok()
        })
        .await;
        self.answered(answer)?.unwrap_or_else(|error| {
            Err(Unavailable(format!("{} cannot be read: {error}", self.path().display())))
        })
    }

    fn answered<T>(&self, answer: Result<Option<T>, tokio::time::error::Elapsed>) -> Result<T, Unavailable> {
        let file = self.path().display();
        match answer {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Unavailable(format!("{file} was closed: its thread ended"))),
            Err(_) => {
                let patience = self.shared().options.patience.as_millis();
                self.shared().counts.timed_out.add(1);
                Err(Unavailable(format!(
                    "{file} did not answer within {patience} ms: the disk is slow or stuck, or too much is queued"
                )))
            }
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path())
            .field("holds", &self.shared().counts.totals())
            .finish_non_exhaustive()
    }
}

impl WakeBus for SqliteStore {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        let (wakeups, first) = self.shared().waiters.subscribe(stream);
        if first {
            self.shared().start_watching();
        }
        wakeups
    }
}
