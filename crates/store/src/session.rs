//! Sessions are data: a versioned record that any backend can serve.

use crate::{CreateError, Notes, StoreFuture, Unavailable, UpdateError};
use bowline_proto::{cursor::StreamId, jsonrpc::Raw, revision::Revision};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// What is known of a session: all that another backend needs to serve it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Who made it; `None` where no authentication is configured. Nobody else gets anything of it.
    pub principal: Option<String>,
    /// The negotiated revision.
    pub revision: Revision,
    /// The parameters of `initialize` as they came: capabilities, client info, fields that we do not know.
    pub initialize: Raw,
    /// Whether `notifications/initialized` came.
    pub initialized: bool,
    /// The level of the last `logging/setLevel`.
    pub log_level: Option<String>,
    /// The URIs of `resources/subscribe`.
    pub subscriptions: BTreeSet<String>,
    /// The session's standalone stream.
    pub standalone: StreamId,
    /// What those who serve the session want to be known on every backend, by name: small texts, such as a digest of what the client
    /// has seen of a list.
    #[serde(default)]
    pub notes: Notes,
}

/// Counts the changes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u64);

/// What a store knows of a session id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionLookup {
    /// It lives.
    Live(Version, Arc<SessionRecord>),
    /// It was ended (by DELETE, for lack of use, by a backend that left); the tombstone is still there.
    Ended,
    /// Nothing: it expired, or never was, or the store lost it.
    Unknown,
}

/// Session records.
///
/// - An update names the version it changes; of two, one gets [`UpdateError::Conflict`].
/// - A deleted session leaves a tombstone, so that no copy brings it back; creating it again is refused while the tombstone lasts.
/// - A record that is not touched for its time to live is gone.
pub trait SessionStore: Send + Sync + 'static {
    /// Keeps a new session for `ttl` without use.
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>>;

    /// Looks a session up. Does not prolong its life.
    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>>;

    /// Replaces the record if it still has `version`. Wakes the waiters of the record's standalone stream, so that other
    /// backends notice the change soon.
    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>>;

    /// Prolongs the session's life to `ttl` from now. Missing sessions are no error.
    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>>;

    /// Ends a session and leaves a tombstone for `tombstone`. Returns whether it was alive. Wakes the waiters of its standalone
    /// stream.
    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>>;
}
