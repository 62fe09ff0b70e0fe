//! Where sessions, calls and their results are kept: `--store`.
//!
//! A store is plugged in here: a case of [`Kind`], its form in [`StoreUrl::parse`], and how it is opened in [`StoreUrl::open`].

use bowline_server::Store;
use bowline_store_redis::{ConnectError, RedisStore};
use bowline_store_sqlite::{Durability, SqliteStore};
use std::{fmt, path::PathBuf, sync::Arc};
use tokio_rustls::rustls::crypto::aws_lc_rs;

/// What `--store` says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl {
    kind: Kind,
    /// As it was written; a URL may hold a password, so it is never shown.
    text: String,
}

/// What is said of a store beside its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreOptions {
    /// SQLite: what an answer of the store means.
    pub(crate) durability: Durability,
    /// Redis: what all keys start with.
    pub(crate) prefix: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { durability: Durability::Full, prefix: "bowline".to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Sqlite(PathBuf),
    Redis,
}

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// How it is called in messages: nothing in it is secret.
    pub(crate) name: &'static str,
}

/// What is wrong with `--store`. Wrong usage: exit code 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreUrlError {
    #[error(
        "--store {0:?} is no store: write memory, sqlite:PATH, or redis://HOST (rediss:// with TLS); what stands after it is not shown here, since it may hold a password"
    )]
    Unknown(String),
    #[error("--store sqlite: has no path: write sqlite:PATH, such as sqlite:/var/lib/bowline/store.db")]
    NoPath,
    #[error(
        "--store {0:?}: SQLite's memory is of no use as a store that outlives this process; write --store memory, or a path: sqlite:PATH"
    )]
    SqliteMemory(String),
}

/// Why the store was not opened. Exit code 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("--store: {0}")]
    Sqlite(#[from] bowline_store_sqlite::OpenError),
    #[error("--store: {0}")]
    Redis(#[from] ConnectError),
}

impl StoreUrl {
    /// Reads `memory`, `sqlite:PATH`, `redis://…` and its relatives.
    ///
    /// # Errors
    /// It is anything else.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreUrlError> {
        let text = text.trim();
        let scheme = text.split(':').next().unwrap_or_default();
        let kind = match scheme {
            "memory" if text == "memory" => Kind::Memory,
            "sqlite" => {
                let path = text.strip_prefix("sqlite:").unwrap_or_default();
                // Both forms that people know: sqlite:PATH and sqlite:///PATH.
                let path = path.strip_prefix("//").unwrap_or(path);
                if path.is_empty() {
                    return Err(StoreUrlError::NoPath);
                }
                // Names that SQLite does not take for a file: none is to be made of them.
                if path == ":memory:" || path.starts_with("file::memory:") {
                    return Err(StoreUrlError::SqliteMemory(text.to_owned()));
                }
                Kind::Sqlite(path.into())
            }
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster" | "valkey" | "valkeys"
                if text.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://")) =>
            {
                Kind::Redis
            }
            _ => {
                let shown: String = scheme.chars().filter(char::is_ascii_graphic).take(32).collect();
                return Err(StoreUrlError::Unknown(shown));
            }
        };
        Ok(Self { kind, text: text.to_owned() })
    }

    /// Opens the store that other backends share; `None` for the memory of this process.
    ///
    /// # Errors
    /// It cannot be opened, or this build does not have it.
    pub(crate) async fn open(&self, options: StoreOptions) -> Result<Option<Opened>, OpenError> {
        match &self.kind {
            Kind::Memory => Ok(None),
            Kind::Sqlite(path) => {
                let mut own = bowline_store_sqlite::Options::default();
                own.durability = options.durability;
                Ok(Some(Opened { store: Arc::new(SqliteStore::open(path, own)?), name: "sqlite" }))
            }
            Kind::Redis => {
                // Fails where one is installed already, which is as good.
                let _ = aws_lc_rs::default_provider().install_default();
                let mut own = bowline_store_redis::Options::default();
                own.prefix = options.prefix;
                let store = RedisStore::connect(&self.redis(), own).await?;
                Ok(Some(Opened { store: Arc::new(store), name: "redis" }))
            }
        }
    }

    /// The URL as the Redis store reads it: Valkey speaks the same protocol.
    fn redis(&self) -> String {
        match self.text.split_once("://") {
            Some(("valkey", rest)) => format!("redis://{rest}"),
            Some(("valkeys", rest)) => format!("rediss://{rest}"),
            _ => self.text.clone(),
        }
    }

    /// Whether other processes may use the store, at once or afterwards.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind != Kind::Memory
    }
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self { kind: Kind::Memory, text: "memory".to_owned() }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.split(':').next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_told_by_their_form() {
        for (text, kind) in [
            ("memory", Kind::Memory),
            ("sqlite:state.db", Kind::Sqlite("state.db".into())),
            ("sqlite:/var/lib/x.db", Kind::Sqlite("/var/lib/x.db".into())),
            ("sqlite:///var/lib/x.db", Kind::Sqlite("/var/lib/x.db".into())),
            ("redis://localhost", Kind::Redis),
            ("rediss://user:hunter2@cache.example:6380/1", Kind::Redis),
        ] {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!((url.kind.clone(), url.is_shared()), (kind, text != "memory"), "{text}");
            assert!(!format!("{url:?}").contains("hunter2"));
        }
    }

    #[test]
    fn anything_else_is_wrong_usage_and_shows_no_password() {
        for text in ["", "postgres://u:hunter2@h", "memory:1", "redis", "redis:hunter2", "hunter2 x"] {
            let error = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains("sqlite:PATH") && !error.contains("hunter2@"), "{error}");
        }
        assert!(matches!(StoreUrl::parse("sqlite:"), Err(StoreUrlError::NoPath)));
        assert!(matches!(StoreUrl::parse("sqlite://"), Err(StoreUrlError::NoPath)));
        let error = StoreUrl::parse("sqlite::memory:").unwrap_err().to_string();
        assert!(error.contains("write --store memory, or a path"), "{error}");
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_opened_says_which_and_shows_no_password() {
        assert!(StoreUrl::default().open(StoreOptions::default()).await.unwrap().is_none());
        for (text, expected) in [
            // Nothing listens on the port of TCP's echo service.
            ("valkey://u:hunter2@127.0.0.1:7", "127.0.0.1:7"),
            ("redis://u:hunter2@127.0.0.1:7", "127.0.0.1:7"),
            ("sqlite:/no/such/folder/store.db", "/no/such/folder/store.db"),
        ] {
            let opened = StoreUrl::parse(text).unwrap().open(StoreOptions::default()).await;
            let error = opened.map(drop).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
