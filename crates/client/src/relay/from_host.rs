//! What the host says, for the server.

use super::{Inner, introduction::empty_list};
use crate::{CallError, CallOptions};
use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Request, RequestId, code};
use std::sync::{Arc, atomic::Ordering};

/// Counts a request of the host while it is under way.
struct Running(Arc<Inner>);

impl Running {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.running.send_modify(|count| *count += 1);
        Self(Arc::clone(inner))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

impl Inner {
    pub(super) async fn on_request(self: &Arc<Self>, request: Request) {
        let inner = Arc::clone(self);
        let running = Running::begin(self);
        match &*request.method {
            "initialize" => {
                if !self.begin_connecting() {
                    let error = ErrorObject::new(code::INVALID_REQUEST, "already initialized");
                    return self.answer(request.id, Err(error)).await;
                }
                tokio::spawn(async move {
                    let params = request.params.unwrap_or_else(Raw::empty_object);
                    match inner.patience {
                        Some(patience) => inner.introduce(request.id, params, patience).await,
                        None => {
                            let answer = inner.connect(params).await;
                            inner.answer(request.id, answer).await;
                        }
                    }
                    drop(running);
                });
            }
            // The host asks whether this program is there. What the far side does is its own matter.
            "ping" => self.answer(request.id, Ok(Raw::empty_object())).await,
            "server/discover" => {
                let error = ErrorObject::method_not_found("server/discover");
                self.answer(request.id, Err(error)).await;
            }
            _ => {
                let (options, canceller) = CallOptions::new().cancellable();
                self.calls.lock().insert(request.id.clone(), canceller);
                tokio::spawn(async move {
                    let answer = inner.call(&request.method, request.params, options).await;
                    inner.calls.lock().remove(&request.id);
                    match answer {
                        // The host took it back, and expects no answer.
                        Err(CallError::Cancelled) => {}
                        answer => {
                            inner.answer(request.id, answer.map_err(|error| error.to_error_object())).await;
                        }
                    }
                    drop(running);
                });
            }
        }
    }

    async fn call(&self, method: &str, params: Option<Raw>, options: CallOptions) -> Result<Raw, CallError> {
        let client = self.ready_within(self.options.outage, &options).await?;
        let member = |name: &str| {
            params.as_ref().and_then(|params| params.member(name)).and_then(|value| value.string())
        };
        let (level, uri) = (member("level"), member("uri"));
        let params = self.words(&client.peer()).request(method, params);
        let params = params.map_err(|unsupported| CallError::Protocol(unsupported.to_error()))?;
        // What a new session has to be told again is remembered by the client.
        let answer = match (method, level, uri) {
            ("logging/setLevel", Some(level), _) => {
                client.set_level(&level).await.map(|()| Raw::empty_object())
            }
            ("resources/subscribe", _, Some(uri)) => {
                client.subscribe(&uri).await.map(|()| Raw::empty_object())
            }
            ("resources/unsubscribe", _, Some(uri)) => {
                client.unsubscribe(&uri).await.map(|()| Raw::empty_object())
            }
            _ => match client.request_with(method, params, options).await {
                // The stand-in has every list; a server that has no such list has an empty one.
                Err(CallError::Protocol(error))
                    if error.code == code::METHOD_NOT_FOUND && self.stood_in.load(Ordering::Relaxed) =>
                {
                    empty_list(method).ok_or(CallError::Protocol(error))
                }
                answer => answer,
            },
        };
        // The server may be another one by now.
        let words = self.words(&client.peer());
        match answer {
            Ok(result) => words.result(method, result).map_err(CallError::Protocol),
            Err(CallError::Protocol(error)) => Err(CallError::Protocol(words.error(error))),
            Err(error) => Err(error),
        }
    }

    pub(super) fn on_notification(self: &Arc<Self>, note: Notification) {
        match &*note.method {
            "notifications/initialized" => {}
            "notifications/cancelled" => {
                let params = note.params.unwrap_or_else(Raw::empty_object);
                let id = params.member("requestId").and_then(|id| RequestId::from_json(id.as_str()).ok());
                let call = id.and_then(|id| self.calls.lock().remove(&id));
                if let Some(call) = call {
                    let reason = params.member("reason").and_then(|reason| reason.string());
                    call.cancel(reason.unwrap_or_else(|| "the host cancelled".into()));
                }
            }
            _ => {
                let inner = Arc::clone(self);
                tokio::spawn(async move {
                    let Ok(client) = inner.ready().await else { return };
                    // A modern server takes no notifications from clients.
                    if client.peer().modern {
                        return;
                    }
                    let words = inner.words(&client.peer());
                    let Ok(params) = words.request(&note.method, note.params) else { return };
                    if let Err(error) = client.notify(&note.method, params).await {
                        tracing::warn!(method = %note.method, %error, "a notification of the host was lost");
                    }
                });
            }
        }
    }
}
