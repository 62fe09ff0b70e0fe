//! Calls at a modern process: what it needs to know of the client goes with each request, and its questions come as results.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::client::request_meta;
use bowline_proto::jsonrpc::{ErrorObject, Raw, Reply, Request};
use bowline_proto::modern::input::undeclared;
use bowline_proto::projection::{
    capabilities_for_modern, question_for_legacy, request_for_modern, result_for_legacy,
};
use bowline_proto::revision::Revision;
use bowline_server::Call;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::{Keeper, Tokens, is_modern};
use crate::era::{Asked, without_round};
use crate::shared::own_info;
use crate::upstream::Upstream;

/// How many rounds one call may take.
const MAX_ROUNDS: usize = 64;

/// The pause before a round that only asks to come back.
const COME_BACK: Duration = Duration::from_secs(1);

impl Keeper {
    /// Works on a call round by round: the questions of one are put to the client of the call, in its era, and the answers go with the
    /// next one.
    pub(super) async fn ask_in_rounds(
        &self,
        upstream: &Arc<Upstream>,
        call: &Call,
        tokens: Tokens,
    ) -> Option<Reply> {
        if let Some(reply) = self.served_here(upstream, call).await {
            return Some(reply);
        }
        let first = without_round(call.params().cloned());
        let first = if is_modern(call) {
            first
        } else {
            first.map(|params| request_for_modern(call.method(), params))
        };
        let mut params = first.clone();
        for round in 0..MAX_ROUNDS {
            let sent = self.send(upstream, call, Some(self.said_of(call, params.as_ref(), tokens)), tokens);
            let reply = match sent.await {
                Some(reply) => reply,
                None if round == 0 => return None,
                // Its questions were answered already; another process would ask them again.
                None => return Some(self.common.lost(call.method(), "ended").into()),
            };
            let Reply::Result(result) = reply else { return Some(reply) };
            let asked = match Asked::of(&result) {
                Ok(Some(asked)) => asked,
                Ok(None) => return Some(ended(call, result)),
                Err(fault) => return Some(self.common.invalid(fault).into()),
            };
            if !is_modern(call)
                && let Some(missing) = undeclared_by(call, &asked)
            {
                let fault = format!("it asks the client for {missing}, which it does not declare");
                return Some(self.common.invalid(&fault).into());
            }
            if asked.questions.is_empty() {
                sleep(COME_BACK).await;
            }
            let answers = asked.questions.into_iter().map(|(key, question)| async move {
                let question = self.fit(call, &key, question);
                let answer = call.ask(&question.method, question.params).await.into_result()?;
                Ok::<_, ErrorObject>((key, answer))
            });
            let answers = match try_join_all(answers).await {
                Ok(answers) => answers,
                Err(error) => return Some(error.into()),
            };
            params = Asked::next(first.clone(), &answers, asked.state.as_ref());
        }
        let text = format!(
            "the server {} asked more than {MAX_ROUNDS} times, and may have had an effect each time",
            self.common.name
        );
        Some(ErrorObject::outcome_unknown("too_many_rounds", text).into())
    }

    /// What a modern server does not have and its client asks for.
    async fn served_here(&self, upstream: &Arc<Upstream>, call: &Call) -> Option<Reply> {
        let missing = || Some(ErrorObject::method_not_found(call.method()).into());
        match call.method() {
            "ping" => {}
            "logging/setLevel" if self.can("logging", None) => {}
            "resources/subscribe" | "resources/unsubscribe" if self.can("resources", Some("subscribe")) => {
                let uri = call.params().and_then(|params| params.member("uri")?.string())?;
                let mut uris: BTreeSet<String> =
                    self.audience.upgrade()?.subscriptions().into_iter().collect();
                if call.method() == "resources/subscribe" {
                    uris.insert(uri);
                } else {
                    uris.remove(&uri);
                }
                upstream.listen(&uris).await;
            }
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => return missing(),
            _ => return None,
        }
        Some(Reply::Result(Raw::empty_object()))
    }

    /// The parameters with what a modern server has to know of the client.
    fn said_of(&self, call: &Call, params: Option<&Raw>, tokens: Tokens) -> Raw {
        let peer = call.peer();
        let hello = peer.initialize_params();
        let member = |name: &str| hello.member(name).filter(Raw::is_object);
        let level = match tokens {
            // Log messages name no request: where several clients share a process, they could reach the wrong one.
            Tokens::Replaced => None,
            Tokens::OfOneClient | Tokens::ReplacedWithLogs if is_modern(call) => {
                call.log_level().map(|level| level.as_str().to_owned())
            }
            Tokens::OfOneClient | Tokens::ReplacedWithLogs => {
                peer.log_level().or_else(|| self.can("logging", None).then(|| "info".to_owned()))
            }
        };
        request_meta(
            params,
            Revision::NEWEST_MODERN.as_str(),
            &member("clientInfo").unwrap_or_else(own_info),
            &capabilities_for_modern(member("capabilities").unwrap_or_else(Raw::empty_object)),
            level.as_deref(),
        )
    }

    /// Whether the server said that it can do this.
    pub(crate) fn can(&self, capability: &str, flag: Option<&str>) -> bool {
        let told = self.told.lock().clone();
        let held = told.and_then(|told| told.member("capabilities")?.member(capability));
        match flag {
            None => held.is_some(),
            Some(flag) => held.and_then(|held| held.member(flag)).is_some_and(|flag| flag.as_str() == "true"),
        }
    }

    /// A question in the words of the newest legacy revision, which the endpoint fits to the client.
    fn fit(&self, call: &Call, key: &str, question: Request) -> Request {
        if is_modern(call) {
            return question;
        }
        let Request { id, method, params } = question;
        let name = format!("{key}-{}", self.common.next_id());
        // The newest legacy revision has every question.
        let params = question_for_legacy(Revision::NEWEST_LEGACY, &method, params, &name).ok().flatten();
        Request { id, method, params }
    }
}

/// What is asked although the legacy client of the call does not declare it. A modern one is looked after by the endpoint.
fn undeclared_by(call: &Call, asked: &Asked) -> Option<&'static str> {
    let peer = call.peer();
    let capabilities = peer.initialize_params().member("capabilities");
    asked.questions.iter().find_map(|(_, question)| undeclared(capabilities.as_ref(), &question.method))
}

/// The result that a call ends with, for its client's era.
fn ended(call: &Call, result: Raw) -> Reply {
    if is_modern(call) {
        return Reply::Result(result);
    }
    // The endpoint makes it fit for older ones.
    match result_for_legacy(Revision::NEWEST_LEGACY, call.method(), result) {
        Ok(result) => Reply::Result(result),
        Err(error) => error.into(),
    }
}
