//! A typed listen stream over a pipe: [`Client::listen`](crate::Client::listen). What it brings comes among everything else and is told
//! apart by its tag.

use super::link::{Live, PipeLink};
use crate::{
    CallError, Peer,
    core::{Core, random},
    http::{listen_request, server_error},
    listening::{Route, no_listening, stopping},
};
use bowline_proto::jsonrpc::{Notification, Raw, RequestId};
use std::sync::Arc;
use tokio::sync::watch;

/// How one opening ended.
enum Ended {
    /// It was stopped, and the server told.
    Stopped,
    /// The pipe ended, or the server said goodbye.
    Open,
    Refused(CallError),
}

impl PipeLink {
    /// As [`Http::keep_subscription`](crate::http::Http).
    pub(crate) async fn keep_subscription(
        &self,
        core: &Arc<Core>,
        route: &Arc<Route>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<CallError> {
        let mut failures = 0;
        loop {
            let live = tokio::select! {
                () = stopping(stopped) => return None,
                live = self.live(core) => live,
            };
            match live {
                Ok((_, peer)) if !peer.modern => return Some(no_listening(&peer.revision)),
                Ok((live, peer)) => match listen(core, &live, &peer, route, stopped).await {
                    Ended::Stopped => return None,
                    Ended::Open if !route.is_open() => {
                        let text = "the server ended before it said what it will tell of";
                        return Some(CallError::transport(text));
                    }
                    Ended::Open => failures = 0,
                    Ended::Refused(error) => return Some(error),
                },
                Err(error) if !route.is_open() => return Some(error),
                Err(_) => failures += 1,
            }
            let wait = core.options.reconnect.backoff(failures, random());
            tokio::select! {
                () = stopping(stopped) => return None,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

async fn listen(
    core: &Arc<Core>,
    live: &Live,
    peer: &Peer,
    route: &Arc<Route>,
    stopped: &mut watch::Receiver<bool>,
) -> Ended {
    let id = core.next_id();
    let request = listen_request(core, peer, &id, &route.filter.to_raw());
    // Before the request: its first answer must find it.
    core.routes.lock().insert(id.clone(), Arc::clone(route));
    let _routed = Routed { core, id: &id };
    let Ok(waiting) = live.begin(&request).await else { return Ended::Open };
    tokio::select! {
        biased;
        () = stopping(stopped) => {
            let params = Raw::from_members([("requestId", Raw::from_trusted(id.to_json().into()))]);
            let note = Notification::new("notifications/cancelled", Some(params)).to_bytes();
            // A server that takes nothing learns it from the end of the pipe.
            drop(tokio::time::timeout(core.options.close_timeout, live.send(note)).await);
            Ended::Stopped
        }
        reply = waiting.reply() => match reply.map(bowline_proto::jsonrpc::Reply::into_result) {
            Some(Err(error)) => Ended::Refused(server_error(error)),
            Some(Ok(_)) | None => Ended::Open,
        },
    }
}

/// Takes the route away when the request is over.
struct Routed<'a> {
    core: &'a Core,
    id: &'a RequestId,
}

impl Drop for Routed<'_> {
    fn drop(&mut self) {
        self.core.routes.lock().remove(self.id);
    }
}
