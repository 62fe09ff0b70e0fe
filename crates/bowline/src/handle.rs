//! Announcing changes to the clients that are there.

use crate::{builder::ServerBuilder, mistake::BuildError, server::Inner};
use bowline_proto::jsonrpc::{Notification, Raw};
use bowline_server::Peer;
use serde_json::json;
use std::{fmt, sync::Arc};

/// A hold on a running server, to announce what changed. Cheap to clone.
///
/// What is announced goes on the standalone stream of every session that this process serves, and is kept for clients that read it
/// later. Clients in the session mode `stateless` have no such stream.
pub struct Handle<S = ()> {
    inner: Arc<Inner<S>>,
}

impl<S> Handle<S> {
    pub(crate) const fn new(inner: Arc<Inner<S>>) -> Self {
        Self { inner }
    }

    /// What was given to [`ServerBuilder::with_state`].
    #[must_use]
    pub fn shared(&self) -> &S {
        &self.inner.shared
    }

    /// The sessions that this process serves.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.inner.peers.lock().all()
    }

    /// Tells the sessions that are subscribed to `uri` that the resource changed. Returns how many there are.
    pub fn resource_updated(&self, uri: &str) -> usize {
        let Ok(params) = Raw::from_value(&json!({ "uri": uri })) else { return 0 };
        let notification = Notification::new("notifications/resources/updated", Some(params));
        let subscribed = |peer: &Peer| peer.is_subscribed(uri);
        self.tell(&notification, subscribed)
    }

    /// Tells every session that the list of tools changed. [`Handle::change`] does so by itself.
    pub fn tools_changed(&self) -> usize {
        self.tell(&Notification::new("notifications/tools/list_changed", None), |_| true)
    }

    /// Tells every session that the list of resources changed. [`Handle::change`] does so by itself.
    pub fn resources_changed(&self) -> usize {
        self.tell(&Notification::new("notifications/resources/list_changed", None), |_| true)
    }

    /// Tells every session that the list of prompts changed. [`Handle::change`] does so by itself.
    pub fn prompts_changed(&self) -> usize {
        self.tell(&Notification::new("notifications/prompts/list_changed", None), |_| true)
    }

    /// Outside of the lock: telling takes another one for each session.
    fn tell(&self, notification: &Notification, whom: impl Fn(&Peer) -> bool) -> usize {
        let told: Vec<Peer> = self.peers().into_iter().filter(whom).collect();
        for peer in &told {
            peer.notify(notification);
        }
        told.len()
    }
}

impl<S: Send + Sync + 'static> Handle<S> {
    /// Adds and removes tools, resources, prompts and completions while the server runs, and announces the lists that are different
    /// afterwards. Calls that run keep what they began with. What is said of the server itself does not change any
    /// more. Changes are made one after another: `change` must not itself call this function.
    ///
    /// ```
    /// # use bowline::{Call, NoInput, Server};
    /// # let server = Server::builder("s", "1").build()?;
    /// server.handle().change(|server| server.tool("new", "New", |_: Call, _: NoInput| async { "new" }))?;
    /// # Ok::<(), bowline::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The first mistake that was made; then nothing is changed.
    pub fn change(
        &self,
        change: impl FnOnce(ServerBuilder<S>) -> ServerBuilder<S>,
    ) -> Result<(), BuildError> {
        // One change at a time: a second one builds on what the first one left.
        let changing = self.inner.changing.lock();
        let after = Arc::new(change(ServerBuilder::of(&self.inner)).into_catalog()?);
        let before = std::mem::replace(&mut *self.inner.catalog.write(), after.clone());
        drop(changing);
        if before.tool_pages != after.tool_pages {
            self.tools_changed();
        }
        if before.resource_pages != after.resource_pages || before.template_pages != after.template_pages {
            self.resources_changed();
        }
        if before.prompt_pages != after.prompt_pages {
            self.prompts_changed();
        }
        Ok(())
    }
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<S> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("server", &self.inner.info.name).finish_non_exhaustive()
    }
}
