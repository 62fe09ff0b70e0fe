//! From a method to what answers it.

use crate::{
    call::Call,
    catalog::{Catalog, Pages},
    completion::{CompleteParams, Completions, Reference},
    error::resource_not_found,
    level::Level,
    reply,
    server::Inner,
};
use bowline_proto::{
    jsonrpc::{ErrorObject, Members, Notification, Raw, Reply, code, plain_string},
    modern::tasks::TaskSupport,
};
use bowline_server::{BoxFuture, Hello, NoSession, Peer, RawHandler, rerun};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::{borrow::Cow, future::ready, sync::Arc};

/// The handler API as a [`RawHandler`].
pub(crate) struct Dispatch<S>(pub(crate) Arc<Inner<S>>);

/// The parameters of `tools/call` and `prompts/get`: one pass, the arguments left as they came.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text_of")]
    arguments: Option<&'a str>,
}

impl<'p> Named<'p> {
    /// Reads `params`, which a parser has passed. What is not as usual is left to serde, which says what is wrong with it.
    fn read(params: &'p str) -> Result<Self, Reply> {
        Self::usual(params).map_or_else(|| read(params), Ok)
    }

    fn usual(params: &'p str) -> Option<Self> {
        let (mut name, mut arguments) = (None, None);
        for (member, value) in Members::of(params)? {
            let place = match member {
                "name" => &mut name,
                "arguments" => &mut arguments,
                // It may be one of the two.
                other if other.contains('\\') => return None,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        let name = plain_string(name?)?;
        Some(Self { name: Cow::Borrowed(name), arguments: arguments.filter(|value| *value != "null") })
    }
}

/// The text of a JSON value, where it stands.
fn text_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de str>, D::Error> {
    Ok(Option::<&RawValue>::deserialize(deserializer)?.map(RawValue::get))
}

#[derive(Deserialize)]
struct OfUri<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ListParams<'a> {
    #[serde(borrow, default)]
    cursor: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct LevelParams {
    #[serde(rename = "level")]
    _level: Level,
}

impl<S: Send + Sync + 'static> RawHandler for Dispatch<S> {
    fn initialize(&self, hello: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        self.note(&hello.peer);
        let result = self.0.initialize();
        Box::pin(ready(result.map_err(|error| ErrorObject::internal("failed", error.to_string()).into())))
    }

    fn call(&self, call: bowline_server::Call) -> BoxFuture<'static, Reply> {
        let catalog = self.0.catalog.read().clone();
        match self.answer(&catalog, &call) {
            // A modern client answers questions by running the handler again.
            Ok(work) => rerun(call, work),
            Err(reply) => Box::pin(ready(reply)),
        }
    }

    fn serves_modern(&self) -> bool {
        true
    }

    fn discover(&self, _: Peer) -> BoxFuture<'static, Result<Raw, ErrorObject>> {
        let result = self.0.initialize();
        Box::pin(ready(result.map_err(|error| ErrorObject::internal("failed", error.to_string()))))
    }

    fn server_info(&self) -> Option<Raw> {
        self.0.server_info.clone()
    }

    fn serves_tasks(&self) -> bool {
        self.0.catalog.read().parts.tools.iter().any(|tool| tool.tasks != TaskSupport::Never)
    }

    fn task_support(&self, call: &bowline_server::Call) -> TaskSupport {
        let name = call.params().and_then(|params| params.member("name")?.string());
        let catalog = self.0.catalog.read().clone();
        name.and_then(|name| catalog.tool(&name).map(|tool| tool.tasks)).unwrap_or_default()
    }

    /// Calls of tools that change nothing, or nothing more the second time.
    fn is_repeatable(&self, call: &bowline_server::Call) -> bool {
        if call.method() != "tools/call" {
            return false;
        }
        let name = call.params().and_then(|params| params.member("name")?.string());
        let catalog = self.0.catalog.read().clone();
        name.and_then(|name| catalog.tool(&name).map(|tool| tool.repeatable)).unwrap_or_default()
    }

    fn listening(&self, peer: &Peer) {
        self.note(peer);
    }

    fn notified(&self, _: &Peer, _: Notification) {}

    fn adopt(&self, peer: &Peer) {
        self.note(peer);
    }

    fn ended(&self, peer: &Peer) {
        self.0.peers.lock().remove(peer.session_id());
    }
}

impl<S: Send + Sync + 'static> Dispatch<S> {
    /// Remembers a session to announce changes to; the session mode `stateless` has none.
    fn note(&self, peer: &Peer) {
        if !peer.session_id().is_empty() {
            self.0.peers.lock().insert(peer.clone());
        }
    }

    /// The work that answers a call, or its answer where there is no work.
    fn answer(
        &self,
        catalog: &Catalog<S>,
        call: &bowline_server::Call,
    ) -> Result<BoxFuture<'static, Reply>, Reply> {
        let params = call.params().map_or("{}", Raw::as_str);
        let ctx = || Call::new(call.clone(), self.0.clone());
        match call.method() {
            "tools/call" => {
                let Named { name, arguments } = Named::read(params)?;
                let tool = catalog.tool(&name).ok_or_else(|| unknown("tool", &name))?;
                Ok((tool.entry.run)(ctx(), arguments.unwrap_or("{}")))
            }
            "tools/list" => Err(page(&catalog.tool_pages, params)),
            "resources/read" => {
                let OfUri { uri } = read(params)?;
                if let Some(resource) = catalog.resource(&uri) {
                    return Ok((resource.run)(ctx(), &uri));
                }
                let (template, variables) =
                    catalog.template(&uri).ok_or_else(|| Reply::from(resource_not_found(&uri)))?;
                Ok((template.entry.run)(ctx(), &uri, variables))
            }
            "resources/list" => Err(page(&catalog.resource_pages, params)),
            "resources/templates/list" => Err(page(&catalog.template_pages, params)),
            "resources/subscribe" if self.0.info.subscriptions => {
                let OfUri { uri } = read(params)?;
                if !catalog.has_resource(&uri) {
                    return Err(resource_not_found(&uri).into());
                }
                Err(empty())
            }
            "resources/unsubscribe" if self.0.info.subscriptions => {
                let OfUri { .. } = read(params)?;
                Err(empty())
            }
            "prompts/get" => {
                let Named { name, arguments } = Named::read(params)?;
                let prompt = catalog.prompt(&name).ok_or_else(|| unknown("prompt", &name))?;
                Ok((prompt.entry.run)(ctx(), arguments.unwrap_or("{}")))
            }
            "prompts/list" => Err(page(&catalog.prompt_pages, params)),
            "completion/complete" if !catalog.parts.completions.is_empty() => complete(catalog, params, ctx),
            "logging/setLevel" => {
                // What a level does is noted by the layer below, with the session.
                let LevelParams { .. } = read(params)?;
                Err(empty())
            }
            "ping" => Err(empty()),
            method => Err(ErrorObject::method_not_found(method).into()),
        }
    }
}

/// Completes what has a handler; any other argument of what is there has no proposals.
fn complete<S>(
    catalog: &Catalog<S>,
    params: &str,
    ctx: impl Fn() -> Call<S>,
) -> Result<BoxFuture<'static, Reply>, Reply> {
    let params: CompleteParams = read(params)?;
    let key = (params.reference.clone(), params.argument.name.clone());
    if let Some(run) = catalog.parts.completions.get(&key) {
        return Ok(run(ctx(), params));
    }
    let there = match &params.reference {
        Reference::Prompt { name } => catalog.prompt(name).is_some(),
        Reference::Resource { uri } => {
            catalog.parts.templates.iter().any(|template| template.entry.name == *uri)
        }
    };
    if there {
        Err(reply::completions(Ok(Completions::default())))
    } else {
        let what = format!("Invalid params: the server does not have {}", params.reference);
        Err(ErrorObject::new(code::INVALID_PARAMS, what).into())
    }
}

/// Reads parameters, or says what is wrong with them (-32602).
fn read<'p, T: Deserialize<'p>>(params: &'p str) -> Result<T, Reply> {
    serde_json::from_str(params).map_err(|error| reply::bad_params("the parameters", &error.to_string()))
}

fn page(pages: &Pages, params: &str) -> Reply {
    let ListParams { cursor } = match read(params) {
        Ok(params) => params,
        Err(reply) => return reply,
    };
    match pages.get(cursor.as_deref()) {
        Some(page) => Reply::Result(page.clone()),
        None => reply::bad_params("the cursor", "it is none of this list; start again without one"),
    }
}

fn unknown(kind: &str, name: &str) -> Reply {
    ErrorObject::new(code::INVALID_PARAMS, format!("Unknown {kind}: {name}")).into()
}

const fn empty() -> Reply {
    Reply::Result(Raw::empty_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_arguments_are_found_however_they_stand() {
        for (params, name, arguments) in [
            (r#"{"name":"a","arguments":{"x":1}}"#, "a", Some(r#"{"x":1}"#)),
            (r#"{"arguments" : { } , "_meta":{"name":"no"}, "name" : "a"}"#, "a", Some("{ }")),
            (r#"{"name":"a","arguments":null}"#, "a", None),
            (r#"{"name":"a"}"#, "a", None),
            (r#"{"n\u0061me":"\u0061","arguments":[1]}"#, "a", Some("[1]")),
        ] {
            let Ok(read) = Named::read(params) else { panic!("{params} is not read") };
            assert_eq!((&*read.name, read.arguments), (name, arguments), "{params}");
        }
    }

    #[test]
    fn what_is_wrong_with_parameters_is_said() {
        for (params, why) in [
            ("{}", "missing field `name`"),
            (r#"{"name":1}"#, "expected a string"),
            (r#"{"name":"a","name":"b"}"#, "duplicate field `name`"),
            (r#"{"name":"a","arguments":1,"\u0061rguments":2}"#, "duplicate field `arguments`"),
        ] {
            let Err(Reply::Error(error)) = Named::read(params) else { panic!("{params} is read") };
            assert!(error.as_str().contains(why), "{params}: {}", error.as_str());
        }
    }
}
