//! Credentials in one file that only its owner can read.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tracing::warn;

use crate::keys::sha256;
use crate::secret::Secret;
use crate::store::{CredentialStore, Credentials, Everything, Lock, StoreError};

/// Bytes that a file may have; with more, something else wrote it.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The format; a file of a later one is not touched.
const VERSION: u32 = 1;
/// How long writing may wait for other processes that write.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// How often a lock that is held is tried again.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Credentials in a JSON file with mode 0600, in a directory with mode 0700 if it has to be made.
///
/// The file is replaced as a whole (written beside it, synced, renamed), so that it is never half written. Processes exclude one another
/// with locks of the system on files beside it, which end with the process that holds them.
#[derive(Debug, Clone)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// The store in the file at `path`, which is made when something is saved.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where a program keeps them if nothing else is configured: `bowline/credentials.json` below `$XDG_STATE_HOME`, else below
    /// `~/.local/state`. None without a home.
    #[must_use]
    pub fn default_path() -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base =
            absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
        Some(base.join("bowline/credentials.json"))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn read(&self) -> Result<Everything, StoreError> {
        let failed = |error: &dyn std::fmt::Display| fail(&self.path, error);
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Everything { version: VERSION, ..Everything::default() });
            }
            Err(error) => return Err(failed(&error)),
        };
        let facts = file.metadata().map_err(|error| failed(&error))?;
        if facts.permissions().mode() & 0o077 != 0 {
            warn!(path = %self.path.display(), "others could read the stored credentials; now they cannot");
            file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| failed(&error))?;
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| failed(&error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(failed(&"larger than credentials can be; move it away"));
        }
        let all: Everything = serde_json::from_slice(&text).map_err(|error| {
            failed(&format!("not a file of credentials (line {}); move it away", error.line()))
        })?;
        if all.version != VERSION {
            return Err(failed(&format!(
                "written by another version (format {}); move it away",
                all.version
            )));
        }
        Ok(all)
    }

    fn write(&self, all: &Everything) -> Result<(), StoreError> {
        let random = Secret::random().map_err(|error| fail(&self.path, &error))?;
        let temporary = self.beside(&format!(".{}.new", random.expose().get(..12).unwrap_or_default()));
        let text = serde_json::to_vec_pretty(all).map_err(|error| fail(&self.path, &error))?;
        let replace = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &self.path)?;
            self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
        };
        replace().map_err(|error| {
            let _ = std::fs::remove_file(&temporary); // it may not be there; the error that counts is the first
            fail(&self.path, &error)
        })
    }

    /// Takes a lock of the system on the file beside the store's with that suffix.
    async fn exclude(&self, suffix: &str, wait: Duration) -> Result<File, StoreError> {
        let path = self.beside(suffix);
        if let Some(directory) = self.path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|error| fail(directory, &error))?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| fail(&path, &error))?;
        let until = tokio::time::Instant::now() + wait;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < until => {
                    tokio::time::sleep(LOCK_POLL).await;
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy(wait)),
                Err(TryLockError::Error(error)) => return Err(fail(&path, &error)),
            }
        }
    }
}

fn fail(path: &Path, reason: &(impl std::fmt::Display + ?Sized)) -> StoreError {
    StoreError::File { path: path.display().to_string(), reason: reason.to_string() }
}

/// Runs file operations where they may block.
async fn blocking<T: Send + 'static>(
    store: &FileStore,
    work: impl FnOnce(FileStore) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let own = store.clone();
    match tokio::task::spawn_blocking(move || work(own)).await {
        Ok(outcome) => outcome,
        Err(error) => Err(fail(&store.path, &error)),
    }
}

impl CredentialStore for FileStore {
    fn issuer_for<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let server = server.to_owned();
        Box::pin(blocking(self, move |store| Ok(store.read()?.servers.remove(&server))))
    }

    fn load<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Credentials, StoreError>> {
        let issuer = issuer.to_owned();
        Box::pin(blocking(self, move |store| Ok(store.read()?.issuers.remove(&issuer).unwrap_or_default())))
    }

    fn save<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
        credentials: Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (server, issuer) = (server.to_owned(), issuer.to_owned());
        Box::pin(async move {
            let _alone = self.exclude(".lock", WRITE_WAIT).await?;
            blocking(self, move |store| {
                let mut all = store.read()?;
                all.put(&server, &issuer, credentials);
                store.write(&all)
            })
            .await
        })
    }

    fn lock<'a>(&'a self, issuer: &'a str, wait: Duration) -> BoxFuture<'a, Result<Lock, StoreError>> {
        Box::pin(async move {
            let name = sha256(issuer.as_bytes());
            let file = self.exclude(&format!(".{}.lock", name.get(..16).unwrap_or_default()), wait).await?;
            Ok(Box::new(file) as Lock)
        })
    }
}

#[cfg(test)]
#[path = "file_store_tests.rs"]
mod tests;
