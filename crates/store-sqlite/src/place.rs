//! Whether the files that are open are still those at their paths.
//!
//! A file that was deleted or replaced stays usable for who has it open, and nobody else ever sees what is written to it: other processes,
//! and this one after a restart, use what is at the path. So such a store counts as away (see [`Unavailable`]).

use crate::{
    clock::{instant, since},
    open::log_of,
};
use bowline_store::Unavailable;
use parking_lot::Mutex;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// How often to look, at most: a look is three system calls.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What tells a file from every other, while it is open.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// That of what is at the path; `None` where nothing is, or where the system does not say. The file is not opened: to close it again
    /// would take SQLite's locks away.
    fn at(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Some(Self { device: found.dev(), inode: found.ino() })
        }
        // Elsewhere a file that is open cannot be deleted.
        #[cfg(not(unix))]
        {
            let _ = found;
            None
        }
    }
}

/// The files of a store as they were opened.
pub(crate) struct Files {
    opened: Vec<(PathBuf, Identity)>,
    looked: Instant,
}

impl Files {
    /// To be made after the first commit: then the log and its shared memory are there, and stay as long as the file is open.
    pub(crate) fn of(path: &Path) -> Self {
        let mut memory = path.as_os_str().to_owned();
        memory.push("-shm");
        let opened = [path.to_owned(), log_of(path), memory.into()]
            .into_iter()
            .filter_map(|path| Identity::at(&path).map(|identity| (path, identity)))
            .collect();
        Self { opened, looked: instant() }
    }

    /// Whether it is time to look.
    pub(crate) fn are_due(&self) -> bool {
        since(self.looked) >= LOOK_AGAIN
    }

    /// Looks; says what happened to them, if something did.
    pub(crate) fn look(&mut self) -> Option<Unavailable> {
        self.looked = instant();
        self.opened.iter().find_map(|(path, identity)| {
            let happened = match Identity::at(path) {
                Some(found) if found == *identity => return None,
                Some(_) => "was replaced by another file",
                None => "was deleted or moved away",
            };
            Some(Unavailable(format!("{} {happened} while it was open", path.display())))
        })
    }
}

/// What became of the files, for those who ask on any thread.
#[derive(Default)]
pub(crate) struct Astray {
    is: AtomicBool,
    why: Mutex<Option<Unavailable>>,
}

impl Astray {
    /// Notes what was found. Returns whether that is news.
    pub(crate) fn note(&self, found: Option<Unavailable>) -> bool {
        let mut why = self.why.lock();
        let is_news = found.is_some() != why.is_some();
        self.is.store(found.is_some(), Relaxed);
        *why = found;
        is_news
    }

    /// Why the store counts as away, if it does.
    pub(crate) fn why(&self) -> Option<Unavailable> {
        if self.is.load(Relaxed) { self.why.lock().clone() } else { None }
    }
}
