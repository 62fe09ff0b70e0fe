//! A session that is gone: one new handshake for everybody who waits, and what the new one has to be told (SEMANTICS 7.4).

use super::{Core, Link};
use crate::{CallError, List, Peer};
use bowline_proto::jsonrpc::{Notification, Raw};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};

type Renewed = Option<Result<(), CallError>>;

pub(super) struct Renewal {
    generation: u64,
    result: watch::Receiver<Renewed>,
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Core {
    /// Tells the handler that the lists may be others now.
    pub(crate) async fn lists_may_have_changed(self: &Arc<Self>, peer: &Peer) {
        for list in List::ALL {
            if peer.has(list.capability()) {
                self.hear_notification(Notification::new(list.notification(), None), None).await;
            }
        }
    }

    /// Shakes hands again, once for everybody who asks while it lasts. `stale` is the generation that failed the caller.
    pub(crate) async fn renew(self: &Arc<Self>, stale: u64) -> Result<(), CallError> {
        // A renewal that failed is everybody's answer for a while.
        let shared_for = self.options.reconnect.backoff_base / 2;
        let mut result = {
            let mut slot = self.renewal.lock();
            if self.peer().is_some_and(|peer| peer.generation != stale) {
                return Ok(());
            }
            let shared = slot.as_ref().filter(|renewal| {
                let fresh = renewal.ended.lock().is_none_or(|ended| Instant::now() - ended < shared_for);
                renewal.generation == stale && fresh
            });
            match shared {
                Some(renewal) => renewal.result.clone(),
                None => {
                    let (sender, result) = watch::channel(None);
                    let ended = Arc::new(Mutex::new(None));
                    *slot = Some(Renewal {
                        generation: stale,
                        result: result.clone(),
                        ended: Arc::clone(&ended),
                    });
                    let core = Arc::clone(self);
                    // A task of its own: the caller that started it may go away while others wait.
                    tokio::spawn(async move {
                        let outcome = tokio::select! {
                            outcome = core.shake_hands_again() => outcome,
                            () = core.closing() => Err(CallError::Closed),
                        };
                        *ended.lock() = Some(Instant::now());
                        sender.send_replace(Some(outcome));
                    });
                    result
                }
            }
        };
        let outcome = result.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        outcome.ok().flatten().unwrap_or(Err(CallError::Closed))
    }

    async fn shake_hands_again(self: &Arc<Self>) -> Result<(), CallError> {
        let Link::Http(http) = &self.link else { return Err(CallError::transport("the pipe ended")) };
        let limit = self.options.connect_timeout;
        let shaken = tokio::time::timeout(limit, http.shake_hands(self, false)).await;
        let peer = shaken
            .map_err(|_| CallError::transport(format!("no answer to `initialize` within {limit:?}")))??;
        self.install(peer);
        let core = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = core.after_renewal() => {}
                () = core.closing() => {}
            }
        });
        Ok(())
    }

    async fn after_renewal(self: &Arc<Self>) {
        let Some(peer) = self.peer() else { return };
        if let Link::Http(http) = &self.link {
            http.start_standing(self, &peer, false);
        }
        self.tell_wishes(&peer).await;
        self.lists_may_have_changed(&peer).await;
    }

    /// Repeats log level and subscriptions to a new session.
    pub(crate) async fn tell_wishes(self: &Arc<Self>, peer: &Peer) {
        if peer.modern {
            return;
        }
        let (level, uris) = {
            let wishes = self.wishes.lock();
            (wishes.level.clone(), wishes.subscriptions.clone())
        };
        let level = level.map(|level| ("logging/setLevel", serde_json::json!({ "level": level })));
        let uris = uris.into_iter().map(|uri| ("resources/subscribe", serde_json::json!({ "uri": uri })));
        for (method, params) in level.into_iter().chain(uris) {
            let params = Raw::from_trusted(params.to_string().into());
            let ctx = self.quiet_ctx(method);
            if let Err(error) = self.exchange(&ctx, Some(&params)).await {
                tracing::warn!(method, %error, "the new session could not be told");
            }
        }
    }
}
