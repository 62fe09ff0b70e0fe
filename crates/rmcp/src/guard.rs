//! The handler as rmcp runs it: one that panics or does not stop takes nothing with it.

use crate::link::Link;
use futures_util::FutureExt as _;
use rmcp::{
    ErrorData, RoleServer, Service,
    model::{ClientNotification, ClientRequest, ProtocolVersion, RequestId, ServerConfig, ServerResult},
    service::{NotificationContext, RequestContext},
};
use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc};

/// A service whose futures end: with their result, with their panic, or a grace after they were told to.
pub(crate) struct Guarded<S> {
    service: S,
    link: Arc<Link>,
}

impl<S> Guarded<S> {
    pub(crate) const fn new(service: S, link: Arc<Link>) -> Self {
        Self { service, link }
    }
}

impl<S: Service<RoleServer>> Service<RoleServer> for Guarded<S> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let (id, stop) = (context.id.clone(), context.ct.clone());
        // What a panic leaves half done is the handler's own; nothing of ours is in there. Boxed: handlers are large.
        let work = Box::pin(AssertUnwindSafe(self.service.handle_request(request, context)).catch_unwind());
        let grace = self.link.options.cancel_grace;
        tokio::select! {
            biased;
            outcome = work => outcome.unwrap_or_else(|panic| {
                if let RequestId::Number(id) = id {
                    self.link.panicked(id, panic);
                }
                Err(ErrorData::internal_error("the server failed while it worked on this request", None))
            }),
            () = async { stop.cancelled().await; tokio::time::sleep(grace).await } => {
                tracing::debug!(%id, "a handler ran on after its call was cancelled; it was dropped");
                Err(ErrorData::internal_error("the request was cancelled", None))
            }
        }
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let work = Box::pin(
            AssertUnwindSafe(self.service.handle_notification(notification, context)).catch_unwind(),
        );
        let grace = self.link.options.cancel_grace;
        tokio::select! {
            biased;
            outcome = work => outcome.unwrap_or_else(|_| {
                tracing::error!(session = %self.link.peer.log_name(), "a handler panicked at a notification");
                Ok(())
            }),
            () = async { self.link.ended().await; tokio::time::sleep(grace).await } => Ok(()),
        }
    }

    fn get_info(&self) -> ServerConfig {
        self.service.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.service.supported_protocol_versions()
    }
}
