//! Requests of the process: to a client and back.

use std::sync::Arc;

use bowline_proto::jsonrpc::{Raw, Reply, Request};
use bowline_server::Ask;
use bowline_server::bridge::On;

use super::Upstream;
use crate::line::one_line;

/// A request of the process, on its way to a client.
pub(crate) struct Question {
    pub(crate) ask: Ask,
    pub(crate) on: On,
}

impl Upstream {
    /// Passes a request of the process on, at once and in order with what else it says.
    pub(super) fn question(self: &Arc<Self>, request: &Request) {
        if &*request.method == "ping" {
            return self.post(Reply::Result(Raw::empty_object()).to_bytes(&request.id));
        }
        let Some(audience) = self.audience.upgrade() else { return };
        let asked = match self.questions.refusal(request, self.common.options.max_questions) {
            Some(error) => Err(error),
            None => audience.question(self, request),
        };
        let Question { ask, on } = match asked {
            Ok(question) => question,
            Err(error) => return self.post(Reply::from(error).to_bytes(&request.id)),
        };
        let upstream = self.clone();
        let (id, method) = (request.id.clone(), request.method.clone());
        let asked = self.questions.ask(request.id.clone(), ask, on, async move |reply| {
            let reply = upstream.fit().reply(&method, reply);
            if let Err(error) = upstream.child.send(one_line(reply.to_bytes(&id))).await {
                tracing::debug!(target: "bowline::gateway", child = %upstream.name, %error, "an answer was dropped");
            }
        });
        if let Err(reply) = asked {
            self.post(self.fit().reply(&request.method, reply).to_bytes(&request.id));
        }
    }
}
