//! The listening stream of a modern process (`subscriptions/listen`): one at a time, opened anew when something else is wanted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::client::request_meta;
use bowline_proto::jsonrpc::{Raw, Request};
use bowline_proto::revision::Revision;
use bowline_server::bridge::cancelled;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Upstream;
use crate::shared::own_info;

/// How long a process may take to acknowledge what is listened to.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is listened to at a process that has no subscriptions.
#[derive(Default)]
pub(super) struct Listening {
    /// Held while a stream is opened, so that the last one is the one with the last wishes.
    order: tokio::sync::Mutex<()>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The id of the request, and of the one that it replaces until it is acknowledged.
    id: Option<u64>,
    told: Option<oneshot::Sender<()>>,
}

impl Listening {
    /// The process acknowledged the request with this id, or answered it.
    pub(super) fn heard(&self, id: u64) -> bool {
        let mut open = self.open.lock();
        let ours = open.id == Some(id);
        if ours && let Some(told) = open.told.take() {
            let _ = told.send(());
        }
        ours
    }
}

impl Upstream {
    /// Listens to all lists and to these resources, in the place of what was listened to. Waits until the process has taken note.
    pub(crate) async fn listen(self: &Arc<Self>, uris: &BTreeSet<String>) {
        let _order = self.listening.order.lock().await;
        let wanted = serde_json::json!({ "notifications": {
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": uris,
        } });
        let Ok(wanted) = Raw::from_value(&wanted) else { return };
        let revision = Revision::NEWEST_MODERN.as_str();
        let params = request_meta(Some(&wanted), revision, &own_info(), &Raw::empty_object(), None);
        let id = self.next_id();
        let (told, coming) = oneshot::channel();
        let before = {
            let mut open = self.listening.open.lock();
            open.told = Some(told);
            open.id.replace(id)
        };
        let request = Request { id: id.into(), method: "subscriptions/listen".into(), params: Some(params) };
        self.post(request.to_bytes());
        if timeout(PATIENCE, coming).await.is_err() {
            tracing::warn!(target: "bowline::gateway", child = %self.name, "the server did not acknowledge what is listened to");
        }
        if let Some(before) = before {
            self.notify(cancelled(&before.into(), None));
        }
    }
}
