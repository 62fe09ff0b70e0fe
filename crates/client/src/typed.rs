//! Typed calls.

use crate::{
    CallError, CallOptions, Client, CompleteFor, Completion, Prompt, Resource, ResourceTemplate, Tool,
    ToolOutput, call::text, types::Keep,
};
use bowline_proto::jsonrpc::Raw;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

impl Client {
    /// All tools, page by page. Fresh pages come from the cache.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, CallError> {
        self.list("tools/list", "tools").await
    }

    /// All resources.
    ///
    /// # Errors
    /// As [`list_tools`](Self::list_tools).
    pub async fn list_resources(&self) -> Result<Vec<Resource>, CallError> {
        self.list("resources/list", "resources").await
    }

    /// All templates of resources.
    ///
    /// # Errors
    /// As [`list_tools`](Self::list_tools).
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, CallError> {
        self.list("resources/templates/list", "resourceTemplates").await
    }

    /// All prompts.
    ///
    /// # Errors
    /// As [`list_tools`](Self::list_tools).
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, CallError> {
        self.list("prompts/list", "prompts").await
    }

    /// Calls a tool. What the tool itself calls an error is a result with [`is_error`](ToolOutput::is_error).
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized + Sync),
    ) -> Result<ToolOutput, CallError> {
        self.call_tool_with(name, arguments, CallOptions::default()).await
    }

    /// Calls a tool, with options.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized + Sync),
        options: CallOptions,
    ) -> Result<ToolOutput, CallError> {
        let arguments = written(arguments)?;
        let params = Raw::from_members([("name", text(name)), ("arguments", arguments)]);
        let result = self.request_with("tools/call", Some(params), options).await?;
        self.kept(result).map_err(|error| match error {
            // It ran, whatever its result says.
            CallError::Invalid { message } => CallError::OutcomeUnknown { message },
            error => error,
        })
    }

    /// Reads a resource: the result as it came.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn read_resource(&self, uri: &str) -> Result<Raw, CallError> {
        let params = Raw::from_members([("uri", text(uri))]);
        self.cached("resources/read", uri, Some(params)).await
    }

    /// A prompt, filled in: the result as it came.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized + Sync),
    ) -> Result<Raw, CallError> {
        let params = Raw::from_members([("name", text(name)), ("arguments", written(arguments)?)]);
        self.request("prompts/get", Some(params)).await
    }

    /// Values for an argument that begins with `value`; `context`: arguments that are known already.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn complete(
        &self,
        about: &CompleteFor,
        argument: &str,
        value: &str,
        context: &[(&str, &str)],
    ) -> Result<Completion, CallError> {
        let about = match about {
            CompleteFor::Prompt(name) => {
                Raw::from_members([("type", text("ref/prompt")), ("name", text(name))])
            }
            CompleteFor::Resource(uri) => {
                Raw::from_members([("type", text("ref/resource")), ("uri", text(uri))])
            }
        };
        let argument = Raw::from_members([("name", text(argument)), ("value", text(value))]);
        let mut params = vec![("ref", about), ("argument", argument)];
        if !context.is_empty() {
            let known = Raw::from_members(context.iter().map(|(name, value)| (*name, text(value))));
            params.push(("context", Raw::from_members([("arguments", known)])));
        }
        let result = self.request("completion/complete", Some(Raw::from_members(params))).await?;
        let completion = result.member("completion").unwrap_or_else(Raw::empty_object);
        completion.to().map_err(|error| unreadable("completion/complete", &error))
    }

    /// Whether the server answers. (`2026-07-28` has no ping: `server/discover` is sent there.)
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn ping(&self) -> Result<(), CallError> {
        let method = if self.peer().modern { "server/discover" } else { "ping" };
        self.request(method, None).await.map(drop)
    }

    /// The least level of log messages that the server is to send, `debug` to `emergency`. Kept through new sessions; from
    /// `2026-07-28` on it goes with every request.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn set_level(&self, level: &str) -> Result<(), CallError> {
        if !self.peer().modern {
            let params = Raw::from_members([("level", text(level))]);
            self.request("logging/setLevel", Some(params)).await?;
        }
        self.core.wishes.lock().level = Some(level.to_owned());
        Ok(())
    }

    /// Asks for `notifications/resources/updated` of a resource. Kept through new sessions; from `2026-07-28` on it is part of
    /// what [`subscriptions/listen`](crate) asks for.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn subscribe(&self, uri: &str) -> Result<(), CallError> {
        if self.peer().modern && !self.core.options.standalone {
            return Err(CallError::invalid(
                "a modern server tells of changes on a listen stream only, which this client keeps only with `standalone`",
            ));
        }
        if !self.peer().modern {
            self.request("resources/subscribe", Some(Raw::from_members([("uri", text(uri))]))).await?;
        }
        self.core.wishes.lock().subscriptions.insert(uri.to_owned());
        self.core.wished.notify_waiters();
        Ok(())
    }

    /// Takes back a [`subscribe`](Self::subscribe).
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        self.core.wishes.lock().subscriptions.remove(uri);
        self.core.wished.notify_waiters();
        if !self.peer().modern {
            self.request("resources/unsubscribe", Some(Raw::from_members([("uri", text(uri))]))).await?;
        }
        Ok(())
    }

    async fn list<T: DeserializeOwned + Keep>(
        &self,
        method: &str,
        member: &str,
    ) -> Result<Vec<T>, CallError> {
        let mut items = Vec::new();
        let mut cursor: Option<Raw> = None;
        for _ in 0..self.core.options.max_pages {
            let key = cursor.as_ref().map_or("", Raw::as_str).to_owned();
            let params = cursor.take().map(|cursor| Raw::from_members([("cursor", cursor)]));
            let page = self.cached(method, &key, params).await?;
            let list = page.member(member).and_then(|list| list.to::<Vec<Box<RawValue>>>().ok());
            let Some(list) = list else {
                return Err(CallError::invalid(format!("the answer to {method} has no list {member:?}")));
            };
            for item in list {
                items.push(self.kept(Raw::from_trusted(String::from(Box::<str>::from(item)).into()))?);
            }
            let next = page.member("nextCursor").filter(|next| next.as_str() != "null");
            // A cursor that comes again would go round for ever.
            match next.filter(|next| next.as_str() != key) {
                Some(next) => cursor = Some(next),
                None => return Ok(items),
            }
        }
        Err(CallError::invalid(format!("{method} has more than {} pages", self.core.options.max_pages)))
    }

    async fn cached(&self, method: &str, key: &str, params: Option<Raw>) -> Result<Raw, CallError> {
        let generation = {
            let cache = self.core.cache.lock();
            if let Some(fresh) = cache.get(method, key, self.core.now()) {
                return Ok(fresh);
            }
            cache.generation()
        };
        let result = self.request(method, params).await?;
        self.core.cache.lock().put(generation, method, key, self.core.now(), &result);
        Ok(result)
    }

    fn kept<T: DeserializeOwned + Keep>(&self, raw: Raw) -> Result<T, CallError> {
        let mut value: T = raw.to().map_err(|error| unreadable(T::WHAT, &error))?;
        value.keep(raw);
        Ok(value)
    }
}

fn written<T: Serialize + ?Sized>(value: &T) -> Result<Raw, CallError> {
    let raw = Raw::from_value(value)
        .map_err(|error| CallError::invalid(format!("the arguments are no JSON: {error}")))?;
    match raw.as_str() {
        "null" => Ok(Raw::empty_object()),
        _ if raw.is_object() => Ok(raw),
        _ => Err(CallError::invalid("the arguments are no object")),
    }
}

fn unreadable(what: &str, error: &serde_json::Error) -> CallError {
    CallError::invalid(format!("the server's {what} cannot be read: {error}"))
}
