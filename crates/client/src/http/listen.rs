//! `subscriptions/listen`: what the standalone stream is from `2026-07-28` on. Nothing is replayed there, so that every
//! opening but the first is followed by a refresh of the lists.

use super::{
    Http,
    body::{drain, has_type, retry_after},
    exchange::mirror_method,
    standing::hear,
    told::{Came, Told},
};
use crate::{
    List, Peer,
    core::{Core, random},
};
use bowline_proto::{
    client::{Standalone, StandaloneAction, StreamEnd, request_meta},
    jsonrpc::{Message, Notification, Raw, Request, RequestId},
};
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::watch;

/// How a listen stream ended.
enum Ended {
    /// It broke off, or the server closed it.
    Stream(StreamEnd),
    /// What is listened for is something else now.
    Wished,
    /// The server has no such stream.
    Refused,
}

impl Http {
    pub(super) async fn keep_listening(
        &self,
        core: &Arc<Core>,
        peer: &Arc<Peer>,
        answered: &watch::Sender<bool>,
    ) {
        let mut stream = Standalone::new(core.options.reconnect, false, false);
        let mut opened_before = false;
        loop {
            let wished = core.wished.notified();
            let Some(filter) = filter(core, peer) else {
                answered.send_replace(true);
                wished.await;
                continue;
            };
            let id = core.next_id();
            let action = match self.open_listen(core, peer, &id, &filter).await {
                Ok(response) => {
                    answered.send_replace(true);
                    let is_stream = has_type(response.headers(), "text/event-stream");
                    let (status, later) = (response.status().as_u16(), retry_after(response.headers()));
                    match stream.on_status(core.now(), status, is_stream, later, random()) {
                        StandaloneAction::Read => {
                            if opened_before {
                                refresh(core, peer).await;
                            }
                            opened_before = true;
                            let ended = tokio::select! {
                                ended = read(core, &mut stream, response, &id) => ended,
                                () = wished => Ended::Wished,
                            };
                            match ended {
                                Ended::Wished => continue,
                                Ended::Refused => return,
                                Ended::Stream(end) => stream.on_end(core.now(), end, random()),
                            }
                        }
                        action => {
                            tracing::debug!(status, ?action, "no listen stream");
                            drain(response);
                            action
                        }
                    }
                }
                Err(_) => stream.on_end(core.now(), StreamEnd::Error, random()),
            };
            let StandaloneAction::Open { at, .. } = action else { return };
            core.sleep_until(at).await;
        }
    }

    /// Sends that, and waits for the head of the answer.
    pub(super) async fn open_listen(
        &self,
        core: &Arc<Core>,
        peer: &Peer,
        id: &RequestId,
        filter: &Raw,
    ) -> Result<Response<Incoming>, super::Fail> {
        let request = listen_request(core, peer, id, filter);
        let mut headers = HeaderMap::new();
        mirror_method(&mut headers, "subscriptions/listen");
        let post = self.post(core, Some(peer), request.to_bytes(), headers);
        match tokio::time::timeout(core.options.post_timeout, post).await {
            Ok(answer) => answer,
            Err(_) => Err(super::Fail::Lost("no answer to subscriptions/listen in time".into())),
        }
    }
}

/// Asks to listen, by that filter.
pub(crate) fn listen_request(core: &Core, peer: &Peer, id: &RequestId, filter: &Raw) -> Request {
    let params = Raw::from_members([("notifications", filter.clone())]);
    let info = core.client_info();
    let params = request_meta(Some(&params), &peer.revision, &info, &core.capabilities(true), None);
    Request { id: id.clone(), method: "subscriptions/listen".into(), params: Some(params) }
}

/// What is worth listening for: the lists that the server says may change, and the resources that were asked for.
pub(crate) fn filter(core: &Core, peer: &Peer) -> Option<Raw> {
    let mut filter = serde_json::Map::new();
    for list in List::ALL {
        if peer.says_list_changed(list.capability()) {
            filter.insert(format!("{}ListChanged", list.capability()), true.into());
        }
    }
    let uris = core.wishes.lock().subscriptions.clone();
    if !uris.is_empty() {
        filter.insert("resourceSubscriptions".into(), json!(uris));
    }
    let filter = serde_json::Value::Object(filter);
    (filter != json!({})).then(|| Raw::from_trusted(filter.to_string().into()))
}

/// Nobody listened for a while: everything that is listened for may have changed.
async fn refresh(core: &Arc<Core>, peer: &Peer) {
    for list in List::ALL {
        if peer.says_list_changed(list.capability()) {
            core.hear(Message::Notification(Notification::new(list.notification(), None)), None, None).await;
        }
    }
    let uris = core.wishes.lock().subscriptions.clone();
    for uri in uris {
        let params = Raw::from_trusted(json!({ "uri": uri }).to_string().into());
        let note = Notification::new("notifications/resources/updated", Some(params));
        core.hear(Message::Notification(note), None, None).await;
    }
}

async fn read(
    core: &Arc<Core>,
    stream: &mut Standalone,
    response: Response<Incoming>,
    id: &RequestId,
) -> Ended {
    let mut told = Told::new(core.options.sse, response, id.clone());
    loop {
        match told.next(stream).await {
            Came::Message(text, _) => hear(core, text).await,
            Came::Answer(Err(_)) => return Ended::Refused,
            Came::Answer(Ok(_)) => return Ended::Stream(StreamEnd::Graceful),
            Came::End(end) => return Ended::Stream(end),
        }
    }
}
