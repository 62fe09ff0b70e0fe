//! Where credentials are kept between runs: by issuer, so that what one authorization server issued is never shown to another.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::secret::Secret;
use crate::token::Token;

/// Why credentials could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file, or the directory, cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: String,
        /// What happened.
        reason: String,
    },
    /// Another process holds the lock, for a login or a refresh that does not end.
    #[error(
        "another process has been busy with the same credentials for {0:?}; if it waits for a login, finish or end that one"
    )]
    Busy(Duration),
}

/// What is stored of one authorization server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The dynamically registered client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// Tokens by the address of the MCP server that they are for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, StoredToken>,
}

/// A token with the key that it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// The token.
    pub token: Token,
    /// The key for proofs (PKCS #8, base64).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_key: Option<Secret>,
}

/// Holds the lock until it is dropped.
pub type Lock = Box<dyn Any + Send>;

/// Keeps credentials, keyed by issuer. Implementations may be shared by processes.
pub trait CredentialStore: Send + Sync + 'static {
    /// The issuer whose tokens were stored last for `server`.
    fn issuer_for<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>>;

    /// What is stored of `issuer`.
    fn load<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Credentials, StoreError>>;

    /// Replaces what is stored of `issuer`, all or nothing, and notes it as the issuer for `server`. Empty credentials are removed.
    fn save<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
        credentials: Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Excludes all others, in every process, that would refresh or log in at `issuer`; waits at most `wait`.
    fn lock<'a>(&'a self, issuer: &'a str, wait: Duration) -> BoxFuture<'a, Result<Lock, StoreError>>;
}

/// All credentials of a store: what a file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Everything {
    pub(crate) version: u32,
    #[serde(default)]
    pub(crate) issuers: BTreeMap<String, Credentials>,
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, String>,
}

impl Everything {
    pub(crate) fn put(&mut self, server: &str, issuer: &str, credentials: Credentials) {
        if credentials.tokens.contains_key(server) {
            self.servers.insert(server.to_owned(), issuer.to_owned());
        } else if self.servers.get(server).is_some_and(|known| known == issuer) {
            self.servers.remove(server);
        }
        if credentials == Credentials::default() {
            self.issuers.remove(issuer);
        } else {
            self.issuers.insert(issuer.to_owned(), credentials);
        }
    }
}

/// Credentials in memory, gone with the process: for programs that log in by themselves, and for tests.
#[derive(Debug, Default)]
pub struct MemoryStore {
    all: parking_lot::Mutex<Everything>,
    locks: parking_lot::Mutex<BTreeMap<String, std::sync::Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryStore {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl CredentialStore for MemoryStore {
    fn issuer_for<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let found = self.all.lock().servers.get(server).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn load<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Credentials, StoreError>> {
        let found = self.all.lock().issuers.get(issuer).cloned().unwrap_or_default();
        Box::pin(async move { Ok(found) })
    }

    fn save<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
        credentials: Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.all.lock().put(server, issuer, credentials);
        Box::pin(async move { Ok(()) })
    }

    fn lock<'a>(&'a self, issuer: &'a str, wait: Duration) -> BoxFuture<'a, Result<Lock, StoreError>> {
        let lock = std::sync::Arc::clone(self.locks.lock().entry(issuer.to_owned()).or_default());
        Box::pin(async move {
            match tokio::time::timeout(wait, lock.lock_owned()).await {
                Ok(guard) => Ok(Box::new(guard) as Lock),
                Err(_) => Err(StoreError::Busy(wait)),
            }
        })
    }
}
