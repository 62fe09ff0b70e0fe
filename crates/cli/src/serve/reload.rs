//! Files that are read again when they change, or when SIGHUP asks for it.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Something that came from files.
pub(crate) trait Reload: Send + Sync + 'static {
    /// What it is, for the log.
    fn what(&self) -> &'static str;

    /// The files.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads them again. What was in force stays so when they are not usable.
    ///
    /// # Errors
    /// What is wrong with them, without anything of what is in them.
    fn reload(&self) -> Result<(), String>;
}

/// What tells one version of a file from another: changed, replaced, or another target of a link.
#[derive(Clone, PartialEq, Eq)]
struct Stamp(Option<(i64, i64, u64, u64)>);

fn stamp(path: &Path) -> Stamp {
    let of = |meta: fs::Metadata| (meta.mtime(), meta.mtime_nsec(), meta.size(), meta.ino());
    Stamp(fs::metadata(path).ok().map(of))
}

fn stamps(thing: &dyn Reload) -> Vec<Stamp> {
    thing.files().iter().map(|path| stamp(path)).collect()
}

struct Watched {
    thing: Arc<dyn Reload>,
    loaded: Vec<Stamp>,
    seen: Vec<Stamp>,
}

impl Watched {
    /// Looks once. A file that is still being written is left alone until two looks in a row see the same.
    fn look(&mut self, asked: bool) {
        let now = stamps(&*self.thing);
        let settled = now == self.seen;
        self.seen.clone_from(&now);
        if !asked && (now == self.loaded || !settled) {
            return;
        }
        self.loaded = now;
        let what = self.thing.what();
        match self.thing.reload() {
            Ok(()) => tracing::info!("{what} were read again"),
            Err(error) => tracing::error!("{what} were not read again, what was in force stays: {error}"),
        }
    }
}

/// What has been read once and is to be watched from now on.
pub(crate) struct Watch(Vec<Watched>);

impl Watch {
    /// Watches `things` from the state that they have now.
    pub(crate) fn new(things: Vec<Arc<dyn Reload>>) -> Self {
        let watched = |thing: Arc<dyn Reload>| {
            let loaded = stamps(&*thing);
            Watched { seen: loaded.clone(), loaded, thing }
        };
        Self(things.into_iter().map(watched).collect())
    }

    /// Looks every second, and when `asked`, for ever.
    pub(crate) async fn run(mut self, asked: Arc<Notify>) {
        loop {
            let now = tokio::select! {
                () = asked.notified() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            // Files may be far away; nothing else waits for them.
            let looked = tokio::task::spawn_blocking(move || {
                self.0.iter_mut().for_each(|watched| watched.look(now));
                self
            });
            match looked.await {
                Ok(watch) => self = watch,
                Err(error) => {
                    tracing::error!(%error, "files are not watched any more");
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    struct File {
        path: PathBuf,
        read: Mutex<Vec<String>>,
    }

    impl Reload for File {
        fn what(&self) -> &'static str {
            "words"
        }

        fn files(&self) -> Vec<PathBuf> {
            vec![self.path.clone()]
        }

        fn reload(&self) -> Result<(), String> {
            let text = fs::read_to_string(&self.path).map_err(|error| error.to_string())?;
            self.read.lock().push(text);
            Ok(())
        }
    }

    #[test]
    fn a_change_is_read_once_it_is_whole() {
        let path = std::env::temp_dir().join(format!("bowline-reload-{}", std::process::id()));
        fs::write(&path, "one").unwrap();
        let file = Arc::new(File { path: path.clone(), read: Mutex::default() });
        let mut watch = Watch::new(vec![file.clone()]);
        let mut look = |asked| watch.0[0].look(asked);
        let read = || std::mem::take(&mut *file.read.lock());
        look(false);
        assert!(read().is_empty());
        fs::write(&path, "two, half").unwrap();
        look(false);
        fs::write(&path, "two, whole").unwrap();
        look(false);
        assert!(read().is_empty());
        look(false);
        look(false);
        assert_eq!(read(), ["two, whole"]);
        look(true);
        assert_eq!(read(), ["two, whole"]);
        fs::remove_file(&path).unwrap();
        (0..3).for_each(|_| look(false));
        assert!(read().is_empty());
    }
}
