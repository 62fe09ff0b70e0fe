//! The one thread that writes: what is queued, in one transaction; then the answers.

use crate::{
    clock::{instant, since},
    job::Work,
    lane::{Queued, Turn},
    news,
    open::{Opened, is_busy, log_of},
    place::Files,
    readers::Readers,
    store::Shared,
    tx::{State, Tx},
};
use bowline_store::Unavailable;
use rusqlite::{Connection, Error, ErrorCode, config::DbConfig};
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// How long to wait before asking for the write lock again.
const PAUSE: Duration = Duration::from_micros(500);

/// How many things one transaction frees, so that freeing holds nobody up for long.
const SWEEP: usize = 128;

/// How many times a batch is tried without those of its changes that SQLite refused.
const TRIES: usize = 3;

/// For how many commits after one of another process this one leaves a gap between its own.
const POLITE: u32 = 64;

/// A log of this size is copied into the file even if readers have to be waited for.
const LARGE_LOG: u64 = 32 << 20;

type Job = Queued<Box<dyn Work>>;

/// How a transaction failed. Nothing is left of it.
struct Failure {
    error: Error,
    at: Step,
}

/// Where it failed.
enum Step {
    /// In the job of that index.
    Job(usize),
    Commit,
    /// Anywhere else.
    Other,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, at: Step::Other }
    }
}

/// The committer's own state.
pub(crate) struct Committer {
    conn: Connection,
    writer: i64,
    shared: Arc<Shared>,
    path: PathBuf,
    files: Files,
    /// How much is still to be swept.
    sweep: usize,
    /// How many more commits leave a gap.
    polite: u32,
    /// Whether the last transaction failed.
    failing: bool,
    since_measured: u32,
}

impl Committer {
    pub(crate) fn new(opened: (Connection, i64), path: PathBuf, shared: Arc<Shared>) -> Self {
        let (conn, writer) = opened;
        let files = Files::of(&path);
        Self { conn, writer, shared, path, files, sweep: 0, polite: 0, failing: false, since_measured: 0 }
    }

    /// Works until the lane is closed and empty; then closes the file, after everybody else.
    fn run(mut self, readers: &Readers) {
        self.work_until_closed();
        // SQLite copies the log into the file and removes it when the last connection is closed. Where two are closed at the same
        // moment, neither is the last: each finds the other's lock.
        readers.wait_for_all_to_close();
        self.look();
        if let Err((_, error)) = self.conn.close() {
            tracing::warn!(%error, file = %self.path.display(), "the store could not be closed properly");
        }
    }

    fn work_until_closed(&mut self) {
        self.measure();
        let mut hinted: Option<Instant> = None;
        loop {
            let options = &self.shared.options;
            if self.shared.hints.is_empty() {
                hinted = None;
            } else {
                hinted.get_or_insert_with(instant);
            }
            let hints_wait = hinted.map(|hinted| options.hint_delay.saturating_sub(since(hinted)));
            let patience = if self.sweep > 0 { Some(Duration::ZERO) } else { hints_wait };
            let jobs = match self.shared.changes.take(options.batch.max(1), options.batch_bytes, patience) {
                Turn::Work(jobs) => jobs,
                Turn::Idle => Vec::new(),
                Turn::Closed => break,
            };
            let hints_are_due = hinted.is_some_and(|hinted| since(hinted) >= self.shared.options.hint_delay);
            if hints_are_due {
                hinted = None;
            }
            self.sweep = self.sweep.max(self.shared.sweep.swap(0, Relaxed));
            if !jobs.is_empty() || hints_are_due || self.sweep > 0 {
                self.work(jobs, hints_are_due);
            }
        }
    }

    /// Looks whether the files are still those at the path. Returns why the store counts as away, if it does.
    fn look(&mut self) -> Option<Unavailable> {
        let found = self.files.look();
        if self.shared.astray.note(found.clone()) {
            // What is at the path now may be another process's, and the last to close a file deletes the log *at the path*.
            let kept = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, found.is_some());
            if let Err(error) = kept {
                tracing::debug!(%error, "how the store is closed could not be set");
            }
            match &found {
                Some(what) => tracing::error!(
                    error = %what,
                    "the store counts as away: what it would write is found by nobody, neither by another process nor after a restart. \
                     Put the files back; or restart all processes that use them, which then begin with what is at that path"
                ),
                None => {
                    tracing::warn!(file = %self.path.display(), "the files of the store are back in their place");
                }
            }
        }
        found
    }

    /// Does a batch, and answers.
    fn work(&mut self, mut jobs: Vec<Job>, with_hints: bool) {
        // While they are away, each time: they may be back.
        let astray = match self.shared.astray.why() {
            None if !self.files.are_due() => None,
            _ => self.look(),
        };
        if let Some(why) = astray {
            self.shared.counts.failed.add(1);
            self.sweep = 0;
            jobs.into_iter().for_each(|queued| queued.job.fail(why.clone()));
            return;
        }
        let started = instant();
        let sweeping = self.sweep > 0;
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.transact(&mut jobs, with_hints) {
                Ok(committed) => {
                    self.failing = false;
                    self.answer(jobs, committed, sweeping && self.sweep == 0, started);
                    return;
                }
                // SQLite refused one of them, before anything was committed: the others need not suffer.
                Err(Failure { error, at: Step::Job(at) }) if jobs.len() > 1 && tries > 0 => {
                    let why = self.report(&error);
                    jobs.remove(at).job.fail(why);
                }
                Err(failure) => {
                    self.fail(jobs, &failure);
                    return;
                }
            }
        }
    }

    fn answer(&mut self, jobs: Vec<Job>, committed: bool, swept: bool, started: Instant) {
        let shared = Arc::clone(&self.shared);
        let counts = &shared.counts;
        if committed {
            counts.commits.add(1);
            counts.commit_micros.add(micros(since(started)));
        }
        counts.changes.add(jobs.len() as u64);
        counts.largest_batch.set(counts.largest_batch.get().max(jobs.len() as u64));
        for queued in jobs {
            queued.job.answer();
        }
        if committed && self.polite > 0 {
            self.polite -= 1;
            // The lock is free for a moment: else another process would seldom find it so.
            thread::sleep(PAUSE);
        }
        self.since_measured += u32::from(committed);
        // After housekeeping too, which comes every second.
        if self.since_measured >= 256 || swept {
            self.measure();
        }
    }

    fn fail(&mut self, jobs: Vec<Job>, failure: &Failure) {
        self.shared.counts.failed.add(1);
        self.sweep = 0;
        let why = self.report(&failure.error);
        if matches!(failure.at, Step::Commit) || is_full(&failure.error) {
            // A page that changed often is in the log as often: where the disk is full, copying the log makes room.
            if let Err(error) = self.shorten_log() {
                tracing::debug!(%error, "the log of the store could not be made smaller");
            }
            // What the failed transaction left in the log is not valid while something else follows it: write that now,
            // so that a restart does not find what was answered with an error.
            if let Err(error) = self.overwrite() {
                tracing::debug!(%error, "the store cannot be written at all");
            }
        }
        jobs.into_iter().for_each(|queued| queued.job.fail(why.clone()));
    }

    fn overwrite(&self) -> rusqlite::Result<()> {
        self.begin()?;
        let written = self
            .conn
            .execute("UPDATE state SET store_time = ?", [self.shared.time.now().0])
            .and_then(|_| self.conn.execute_batch("COMMIT"));
        if written.is_err() {
            self.roll_back();
        }
        written
    }

    /// What to answer; logged where it is the first failure after a success.
    fn report(&mut self, error: &Error) -> Unavailable {
        let file = self.path.display();
        let why = Unavailable(if is_busy(error) {
            format!("{file} is locked by another process")
        } else {
            format!("{file} cannot be written: {error}")
        });
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!(error = %why, "changes of the store failed; nothing of them is there");
        }
        why
    }

    /// Runs all of them in one transaction; says whether there was anything to commit.
    fn transact(&mut self, jobs: &mut Vec<Job>, with_hints: bool) -> Result<bool, Failure> {
        self.begin()?;
        // Waiting for the lock took its time: what was given up meanwhile is not done.
        jobs.retain(|queued| !queued.job.is_abandoned());
        let answer = self.transact_begun(jobs, with_hints);
        if answer.is_err() {
            self.roll_back();
        }
        answer
    }

    fn transact_begun(&mut self, jobs: &mut [Job], with_hints: bool) -> Result<bool, Failure> {
        let shared = Arc::clone(&self.shared);
        let state = State::load(&self.conn)?;
        shared.time.meet(state.time);
        if news::catch_up(&self.conn, &shared, self.writer, state.news)? {
            self.polite = POLITE;
        }
        let mut tx = Tx::new(&self.conn, &shared.options.limits, state, shared.time.now());
        for (at, queued) in jobs.iter_mut().enumerate() {
            queued.job.run(&mut tx).map_err(|error| Failure { error, at: Step::Job(at) })?;
        }
        if with_hints {
            for (stream, hint) in shared.hints.take_all() {
                tx.apply_hint(stream, &hint)?;
            }
        }
        if self.sweep > 0 {
            let budget = self.sweep.min(SWEEP);
            let step = tx.sweep(budget)?;
            let more = step.more || tx.shrink()?;
            self.sweep = if more { self.sweep - budget } else { 0 };
        }
        if tx.dirty {
            tx.finish(shared.time.stamp(), self.writer)?;
        }
        let Tx { dirty, state, happened, changed, .. } = tx;
        // Nothing was written: what was refused was refused by what is durable already.
        self.conn
            .execute_batch(if dirty { "COMMIT" } else { "ROLLBACK" })
            .map_err(|error| Failure { error, at: Step::Commit })?;
        shared.counts.note(state.totals, happened);
        if dirty {
            shared.news.fetch_max(state.news, Relaxed);
            shared.waiters.wake(&changed);
        }
        Ok(dirty)
    }

    /// Takes the write lock, waiting for another process within bounds.
    fn begin(&self) -> rusqlite::Result<()> {
        let patience = self.shared.options.patience / 2;
        let started = instant();
        // SQLite's own way of waiting sleeps for up to a tenth of a second, and would seldom be in time.
        self.conn.busy_timeout(Duration::ZERO)?;
        let begun = loop {
            match self.conn.execute_batch("BEGIN IMMEDIATE") {
                Err(error) if is_busy(&error) && since(started) < patience => {
                    thread::sleep(PAUSE);
                }
                answer => break answer,
            }
        };
        self.conn.busy_timeout(patience)?;
        begun
    }

    fn roll_back(&self) {
        // After some failures SQLite has done so itself.
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction of the store could not be rolled back");
        }
    }

    /// Measures the file and its log, and keeps the log small where readers did not let it become so.
    fn measure(&mut self) {
        self.since_measured = 0;
        let size = |path: PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        let counts = &self.shared.counts;
        counts.file_bytes.set(size(self.path.clone()));
        let log = size(log_of(&self.path));
        counts.log_bytes.set(log);
        if log > LARGE_LOG
            && let Err(error) = self.shorten_log()
        {
            tracing::warn!(%error, "the log of the store could not be made smaller");
        }
    }

    /// Copies the log into the file and empties it, waiting for readers for a moment.
    fn shorten_log(&self) -> rusqlite::Result<()> {
        self.conn.busy_timeout(Duration::from_millis(100))?;
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }
}

fn is_full(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Starts the committer. The lane is closed when it ends, however that comes.
pub(crate) fn start(
    opened: Opened,
    path: PathBuf,
    readers: Readers,
    make: impl FnOnce(crate::clock::StoreTime) -> Arc<Shared>,
) -> std::io::Result<(Arc<Shared>, thread::JoinHandle<()>)> {
    let shared = make(opened.time);
    let committer = Committer::new((opened.writer, opened.opening), path, Arc::clone(&shared));
    let guard = CloseOnDrop(Arc::clone(&shared));
    let thread = thread::Builder::new().name("bowline-commit".to_owned()).spawn(move || {
        let _guard = guard;
        committer.run(&readers);
    })?;
    Ok((shared, thread))
}

/// Nobody waits for a thread that is gone.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
