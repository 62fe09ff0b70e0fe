//! Brings a new process to where the old one was, and tells clients what is different all the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_proto::jsonrpc::{Notification, Raw};
use tokio::time::timeout;

use super::Keeper;
use crate::lists::{KINDS, ListKind, Pages};
use crate::upstream::{Audience, Upstream};

/// Pages of one list that are read for a comparison. A longer list is taken as changed.
const MAX_PAGES: usize = 100;

impl Keeper {
    /// Sets the log level and the subscriptions that the last process had.
    pub(super) async fn restore(&self, upstream: &Arc<Upstream>, audience: &dyn Audience, result: &Raw) {
        let capabilities = result.member("capabilities").unwrap_or_else(Raw::empty_object);
        let mut requests = Vec::new();
        if let Some(level) = audience.log_level()
            && capabilities.member("logging").is_some()
        {
            requests.push(("logging/setLevel", serde_json::json!({ "level": level })));
        }
        if capabilities.member("resources").is_some_and(|resources| resources.member("subscribe").is_some()) {
            let uris = audience.subscriptions().into_iter();
            requests.extend(uris.map(|uri| ("resources/subscribe", serde_json::json!({ "uri": uri }))));
        }
        let all = async {
            for (method, params) in requests {
                let params = Raw::from_value(&params).ok();
                if let Err(error) = upstream.ask(method, params, self.common.options.init_timeout).await {
                    tracing::warn!(
                        target: "bowline::gateway",
                        child = %self.common.name,
                        "{method} could not be applied to the new process: {}",
                        error.message
                    );
                }
            }
        };
        if timeout(self.common.options.init_timeout, all).await.is_err() {
            tracing::warn!(target: "bowline::gateway", child = %self.common.name, "not everything was applied to the new process in time");
        }
    }

    /// Subscribes the process to what somebody listens to, and to nothing else: each resource once, however many listen.
    pub(crate) async fn subscribe(&self, wanted: impl Fn() -> BTreeSet<String> + Send) {
        // Held to the end, so that what was wanted last is what counts.
        let mut held = self.subscribed.lock().await;
        let Ok(upstream) = self.upstream().await else { return };
        upstream.initialized(None);
        if !std::ptr::eq(held.0.as_ptr(), Arc::as_ptr(&upstream)) {
            *held = (Arc::downgrade(&upstream), BTreeSet::new());
        }
        let wanted = wanted();
        if held.1 == wanted {
            return;
        }
        if upstream.is_modern() {
            upstream.listen(&wanted).await;
            held.1 = wanted;
            return;
        }
        let over = held.1.difference(&wanted).map(|uri| ("resources/unsubscribe", uri));
        let new = wanted.difference(&held.1).map(|uri| ("resources/subscribe", uri));
        for (method, uri) in over.chain(new) {
            let params = Raw::from_value(&serde_json::json!({ "uri": uri })).ok();
            if let Err(error) = upstream.ask(method, params, self.common.options.init_timeout).await {
                tracing::warn!(target: "bowline::gateway", child = %self.common.name, "{method}: {}", error.message);
            }
        }
        held.1 = wanted;
    }

    /// Compares the lists of the new process with what clients have seen, and tells them what changed: where the
    /// server they were told of announces changes of that list.
    pub(super) async fn compare(&self, upstream: &Arc<Upstream>) {
        let mut changed = Vec::new();
        let seen = self.seen.lock().all();
        for (kind, pages) in seen {
            if !self.announces(kind) {
                continue;
            }
            let now = self.read(upstream, kind).await;
            // What cannot be read is for the client to find out.
            let same = now.as_ref().is_some_and(|now| !pages.differs_from(now));
            if !same {
                self.seen.lock().set(kind, None);
                if !changed.contains(&kind.capability) {
                    changed.push(kind.capability);
                }
            }
        }
        let Some(audience) = self.audience.upgrade() else { return };
        for list in changed {
            audience.tell(&Notification::new(format!("notifications/{list}/list_changed"), None));
        }
    }

    /// The same for a client that another backend served, by what was noted of what it has seen. Where nothing was, it is told: looking
    /// again costs it little.
    pub(super) async fn compare_noted(&self, upstream: &Arc<Upstream>) {
        let Some(audience) = self.audience.upgrade() else { return };
        let mut changed: Vec<&str> = Vec::new();
        for kind in &KINDS {
            if !self.announces(kind) || changed.contains(&kind.capability) {
                continue;
            }
            let now = match audience.seen(kind.method) {
                Some(seen) => self.read(upstream, kind).await.filter(|now| now.digest() == seen),
                None => None,
            };
            match now {
                // From here on this backend knows what its client has seen.
                Some(now) => self.seen.lock().set(kind, Some(now)),
                // Templates are seldom read at all, and go by the name of resources.
                None if kind.method == "resources/templates/list" && audience.seen(kind.method).is_none() => {
                }
                None => changed.push(kind.capability),
            }
        }
        for list in changed {
            audience.tell(&Notification::new(format!("notifications/{list}/list_changed"), None));
        }
    }

    /// Reads the list of tools, where it has to be known which of them may run twice, and no client has read it through this gateway.
    pub(super) async fn learn_tools(&self, upstream: &Arc<Upstream>) {
        let told = self.told.lock().clone();
        let has_tools = told.and_then(|told| told.member("capabilities")?.member("tools")).is_some();
        if self.common.options.learn_tools && has_tools && !self.common.repeatable.is_known() {
            upstream.initialized(None);
            let _ = self.read(upstream, &KINDS[0]).await;
        }
    }

    fn announces(&self, kind: &ListKind) -> bool {
        let told = self.told.lock().clone();
        let list = told.and_then(|told| told.member("capabilities")?.member(kind.capability));
        list.and_then(|list| list.member("listChanged")).is_some_and(|announced| announced.as_str() == "true")
    }

    async fn read(&self, upstream: &Arc<Upstream>, kind: &ListKind) -> Option<Pages> {
        let mut pages = Pages::default();
        for _ in 0..MAX_PAGES {
            let params = pages
                .next()
                .and_then(|cursor| Raw::from_value(&serde_json::json!({ "cursor": cursor })).ok());
            let page = upstream.ask(kind.method, params, self.common.options.init_timeout).await.ok()?;
            if kind.method == "tools/list" {
                self.common.repeatable.note(&page);
            }
            pages.add(kind, &page)?;
            if pages.next().is_none() {
                return Some(pages);
            }
        }
        None
    }
}
