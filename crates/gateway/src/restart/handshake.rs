//! How a process is greeted: `initialize`, and `server/discover` where that is refused.
//!
//! The handshake comes first, whatever the specification prefers: there are servers that end at a first request which is no
//! `initialize`, and a server that speaks both eras serves every client this way.

use std::sync::Arc;

use bowline_proto::client::request_meta;
use bowline_proto::jsonrpc::{ErrorObject, Raw, Reply, code};
use bowline_proto::revision::Revision;
use tokio::time::timeout;

use super::{Failure, Keeper};
use crate::era::discovered;
use crate::shared::own_info;
use crate::upstream::{Outcome, Upstream};

impl Keeper {
    /// Shakes hands. Returns the result of `initialize`, and whether the process is a modern one, of which that result is made up.
    pub(super) async fn shake_hands(
        &self,
        upstream: &Arc<Upstream>,
        hello: Raw,
    ) -> Result<(Raw, bool), Failure> {
        let common = &self.common;
        let failed = |error, counts| Err(Failure { error, counts });
        match self.greet(upstream, "initialize", hello).await? {
            Reply::Result(result) if result.is_object() => Ok((result, false)),
            Reply::Result(_) => {
                failed(common.unavailable("answered initialize with something that is no object"), true)
            }
            // Its own words, about what this client said: no reason to be careful with the next one.
            refused @ Reply::Error(_) => {
                let refused = refused.into_result().err();
                let error = refused.unwrap_or_else(|| common.unavailable("refused initialize"));
                if may_be_modern(&error) {
                    let revision = Revision::NEWEST_MODERN.as_str();
                    let params = request_meta(None, revision, &own_info(), &Raw::empty_object(), None);
                    if let Reply::Result(result) = self.greet(upstream, "server/discover", params).await?
                        && let Some(result) = discovered(&result)
                    {
                        return Ok((result, true));
                    }
                }
                failed(error, false)
            }
        }
    }

    async fn greet(&self, upstream: &Arc<Upstream>, method: &str, params: Raw) -> Result<Reply, Failure> {
        let common = &self.common;
        let asked = upstream.request(upstream.next_id(), None, method, Some(params));
        let failed = |error| Err(Failure { error, counts: true });
        match timeout(common.options.init_timeout, asked).await {
            Ok(Outcome::Answered(reply)) => Ok(reply),
            Ok(Outcome::Failed(error)) => failed(error),
            Ok(Outcome::Lost(_) | Outcome::NotSent) => {
                let exit = upstream.ended().await;
                tracing::warn!(
                    target: "bowline::gateway",
                    child = %common.name,
                    stderr = %exit.stderr_tail,
                    "the server {exit}, before it answered {method}"
                );
                failed(
                    common.unavailable(&format!("{} before it answered {method}", exit.reason.for_clients())),
                )
            }
            Err(_) => {
                let text = format!(
                    "the server {} did not answer {method} within {:?}",
                    common.name, common.options.init_timeout
                );
                failed(ErrorObject::internal("timeout", text))
            }
        }
    }
}

/// Whether a server that refuses `initialize` with this may know no such thing.
fn may_be_modern(error: &ErrorObject) -> bool {
    matches!(
        error.code,
        code::METHOD_NOT_FOUND | code::INVALID_PARAMS | code::INVALID_REQUEST | code::UNSUPPORTED_REVISION
    )
}
