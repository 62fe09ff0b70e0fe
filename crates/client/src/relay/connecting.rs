//! From the host's `initialize` to a client: once, or until it worked; and the wait for it.

use super::{
    Inner, State,
    introduction::{host_result, stand_in},
    to_host::ToHost,
};
use crate::{CallError, CallOptions, Client, ConnectError, List};
use bowline_proto::{
    jsonrpc::{ErrorObject, Message, Notification, Raw, RequestId, code},
    revision::Revision,
};
use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};
use tokio::sync::oneshot;

impl Inner {
    pub(super) fn begin_connecting(&self) -> bool {
        if self.stood_in.load(Ordering::Relaxed) {
            return false;
        }
        self.state.send_if_modified(|state| {
            let idle = matches!(state, State::New | State::Failed(_));
            if idle {
                *state = State::Connecting;
            }
            idle
        })
    }

    pub(super) async fn connect(self: &Arc<Self>, params: Raw) -> Result<Raw, ErrorObject> {
        match self.try_connecting(&params).await {
            Ok(result) => Ok(result),
            Err(error) => {
                let error = refusal(&error);
                self.state.send_replace(State::Failed(error.clone()));
                Err(error)
            }
        }
    }

    async fn try_connecting(self: &Arc<Self>, params: &Raw) -> Result<Raw, ConnectError> {
        let revision =
            params.member("protocolVersion").and_then(|revision| revision.string()).unwrap_or_default();
        let mut options = self.options.clone();
        options.capabilities = Some(params.member("capabilities").unwrap_or_else(Raw::empty_object));
        options.client_info = params.member("clientInfo").or(options.client_info);
        options.revision = Revision::negotiate(&revision).as_str().into();
        options.handler = Arc::new(ToHost(Arc::downgrade(self)));
        let client = Client::connect(self.target.clone(), options).await?;
        let peer = client.peer();
        let told = *self.told.lock();
        // A host that was introduced to a stand-in stays with what that said.
        let told = told.or_else(|| {
            if peer.modern {
                Some(Revision::negotiate(&revision))
            } else {
                Revision::from_wire(&peer.revision)
            }
        });
        *self.told.lock() = told;
        let result = host_result(&peer, told, &revision);
        let closed = !self.state.send_if_modified(|state| {
            let closed = matches!(state, State::Closed);
            if !closed {
                *state = State::Ready(client.clone());
            }
            !closed
        });
        if closed {
            client.close().await;
        }
        Ok(result)
    }

    /// Answers `initialize` with what the server says, or after a while in its place.
    pub(super) async fn introduce(self: &Arc<Self>, id: RequestId, params: Raw, patience: Duration) {
        let revision =
            params.member("protocolVersion").and_then(|revision| revision.string()).unwrap_or_default();
        let (introduced, mut first) = oneshot::channel();
        tokio::spawn(keep_connecting(Arc::downgrade(self), params, introduced));
        let closed = || Err(ErrorObject::internal("closed", "the bridge is closed"));
        let mut answer = match tokio::time::timeout(patience, &mut first).await {
            Ok(heard) => Some(heard.unwrap_or_else(|_| closed())),
            Err(_) => None,
        };
        if answer.is_none() {
            // From here on nobody hears the answer; one that was sent just before counts.
            first.close();
            answer = first.try_recv().ok();
        }
        let answer = answer.unwrap_or_else(|| {
            tracing::warn!(target = %self.target, after = ?patience, "the server is not there yet: standing in for it");
            self.stood_in.store(true, Ordering::Relaxed);
            let told = Revision::negotiate(&revision);
            *self.told.lock() = Some(told);
            Ok(stand_in(told))
        });
        self.answer(id, answer).await;
    }

    /// The client, when the host's `initialize` has come to an end.
    pub(super) async fn ready(&self) -> Result<Client, ErrorObject> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| !matches!(state, State::Connecting)).await.as_deref() {
            Ok(State::Ready(client)) => Ok(client.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Closed) => Err(ErrorObject::internal("closed", "the bridge is closed")),
            _ => Err(ErrorObject::new(code::INVALID_REQUEST, "`initialize` comes first")),
        }
    }

    /// The same for a request, which waits no longer than `within` for a server that is not there.
    pub(super) async fn ready_within(
        &self,
        within: Duration,
        options: &CallOptions,
    ) -> Result<Client, CallError> {
        if let State::Ready(client) = &*self.state.borrow() {
            return Ok(client.clone());
        }
        let mut cancel = options.cancel.clone();
        let cancelled = async {
            if let Some(cancel) = &mut cancel
                && cancel.wait_for(Option::is_some).await.is_ok()
            {
                return;
            }
            // A handle that is gone cancels nothing.
            std::future::pending::<()>().await;
        };
        // Without a stand-in the end of `initialize` is the limit.
        let late = async {
            match self.patience {
                Some(_) => tokio::time::sleep(within).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ready = self.ready() => ready.map_err(CallError::Protocol),
            () = cancelled => Err(CallError::Cancelled),
            () = late => {
                let trouble = self.trouble.lock().as_ref().map(|trouble| trouble.message.clone());
                let trouble = trouble.unwrap_or_else(|| format!("no answer of {}", self.target));
                Err(CallError::transport(format!("the server is away: {trouble}")))
            }
        }
    }
}

/// Connects until it worked; the first to be told is the host's `initialize`, if it still waits.
async fn keep_connecting(
    inner: Weak<Inner>,
    params: Raw,
    introduced: oneshot::Sender<Result<Raw, ErrorObject>>,
) {
    let mut introduced = Some(introduced);
    let mut failures = 0;
    loop {
        // Held while it works only: a relay that is gone connects no more.
        let Some(relay) = inner.upgrade() else { return };
        let mut state = relay.state.subscribe();
        let attempt = tokio::select! {
            attempt = relay.try_connecting(&params) => attempt,
            _ = state.wait_for(|state| matches!(state, State::Closed)) => return,
        };
        let error = match attempt {
            Ok(result) => {
                let unheard = introduced.take().is_none_or(|introduced| introduced.send(Ok(result)).is_err());
                if unheard {
                    for list in List::ALL {
                        let note = Notification::new(list.notification(), None);
                        drop(relay.host.send(Message::Notification(note)).await);
                    }
                }
                return;
            }
            Err(error) => error,
        };
        let object = refusal(&error);
        let refuses = matches!(
            error,
            ConnectError::BadUrl { .. } | ConnectError::Auth { .. } | ConnectError::Refused { .. }
        );
        tracing::warn!(target = %relay.target, %error, "not connected");
        *relay.trouble.lock() = Some(object.clone());
        // Requests need not wait where somebody has to do something first; those that follow see what the next attempt says.
        relay.state.send_if_modified(|state| {
            let changes = !matches!(state, State::Closed);
            if changes {
                *state = if refuses { State::Failed(object.clone()) } else { State::Connecting };
            }
            changes
        });
        if refuses && introduced.take().is_some_and(|introduced| introduced.send(Err(object)).is_ok()) {
            return;
        }
        let wait = relay.options.reconnect.backoff(failures, crate::core::random());
        failures = failures.saturating_add(1);
        drop(relay);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            closed = state.wait_for(|state| matches!(state, State::Closed)) => {
                drop(closed);
                return;
            }
        }
    }
}

/// Why there is no connection, for the host: nothing of it ran.
fn refusal(error: &ConnectError) -> ErrorObject {
    let reason = match error {
        ConnectError::Refused { error, .. } => return error.clone(),
        ConnectError::Auth { .. } => "unauthorized",
        ConnectError::BadUrl { .. } => "invalid",
        ConnectError::Failed { .. } | ConnectError::Timeout { .. } => "upstream_unreachable",
    };
    ErrorObject::internal(reason, error.to_string())
}
