//! `server/discover`.

use crate::{Peer, body::Body, core::Core, isolate, service::json, session::Session};
use bowline_proto::{
    http::Refusal,
    jsonrpc::{ErrorObject, Raw, Reply, RequestId},
    modern::{RequestMeta, discover_result, fit_error, fit_result, tasks::announced},
    revision::Revision,
};
use http::Response;
use std::sync::Arc;

pub(super) async fn answer(
    core: &Arc<Core>,
    principal: Option<&str>,
    revision: Revision,
    meta: &RequestMeta,
    id: &RequestId,
) -> Result<Response<Body>, Refusal> {
    let session = Arc::new(Session::modern(core, revision, principal, meta));
    let reply = match ask(core, &session).await {
        Ok(said) => {
            let server = core.handler.server_info().or_else(|| said.member("serverInfo"));
            let mut result = discover_result(&said, core.policy.revisions());
            if core.handler.serves_tasks()
                && let Some(capabilities) = result.member("capabilities")
            {
                result = result.with_member("capabilities", &announced(&capabilities)).unwrap_or(result);
            }
            Reply::Result(fit_result(result, server.as_ref(), core.options.cache.of("server/discover")))
        }
        Err(error) => match Reply::from(error) {
            Reply::Error(error) => Reply::Error(fit_error(error)),
            result @ Reply::Result(_) => result,
        },
    };
    Ok(json(core, reply.to_bytes(id)))
}

/// What the handler says of itself to this client.
pub(super) async fn ask(core: &Arc<Core>, session: &Arc<Session>) -> Result<Raw, ErrorObject> {
    let said = isolate::call(|| core.handler.discover(Peer::new(core, session)));
    match tokio::time::timeout(core.options.call_timeout, said).await {
        Ok(said) => said.unwrap_or_else(|panic| Err(panic.into_error(core))),
        Err(_) => Err(ErrorObject::internal("timeout", "the server did not say in time what it can do")),
    }
}
