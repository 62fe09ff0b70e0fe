//! Putting a server together; an author's mistakes are errors here.

use crate::{
    call::Call,
    catalog::{Catalog, Entry, Parts, PromptEntry, TemplateEntry, Variables},
    completion::{CompleteParams, IntoCompletions, Reference, Typed},
    icon::Icon,
    mistake::BuildError,
    prompt::{self, IntoPrompt, Prompt},
    reply,
    resource::{IntoResource, Resource, ResourceTemplate},
    server::{Info, Inner, Server},
    template::Template,
    texts,
    tool::{IntoToolResult, Tool},
    tool_entry::tool_entry,
};
use bowline_proto::jsonrpc::Raw;
use bowline_server::BoxFuture;
use futures_util::FutureExt as _;
use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::ready, sync::Arc};

/// Builds a [`Server`]. The first mistake is kept and told by [`ServerBuilder::build`].
#[must_use = "nothing is built without `build`"]
pub struct ServerBuilder<S = ()> {
    info: Info,
    shared: Arc<S>,
    parts: Parts<S>,
    mistake: Option<BuildError>,
}

impl ServerBuilder {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self { info: Info::new(name, version), shared: Arc::new(()), parts: Parts::empty(), mistake: None }
    }

    /// Gives every handler `state`, which it reaches by [`Call::shared`]. Comes before the handlers.
    pub fn with_state<S: Send + Sync + 'static>(self, state: S) -> ServerBuilder<S> {
        let late = !self.parts.is_empty();
        ServerBuilder {
            info: self.info,
            shared: Arc::new(state),
            parts: Parts::empty(),
            mistake: self.mistake.or_else(|| late.then_some(BuildError::StateAfterHandlers)),
        }
    }
}

impl<S: Send + Sync + 'static> ServerBuilder<S> {
    /// A builder of what `inner` has, to be changed.
    pub(crate) fn of(inner: &Inner<S>) -> Self {
        let parts = inner.catalog.read().parts.clone();
        Self { info: inner.info.clone(), shared: inner.shared.clone(), parts, mistake: None }
    }

    // --- the server itself ---

    /// What the server is called for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// What the server is, in a sentence.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Where people read more about it.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.info.website_url = Some(url.into());
        self
    }

    /// An icon; several may be given.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// How the server is to be used, for the model.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.info.instructions = Some(instructions.into());
        self
    }

    /// How many entries one page of a list has. Default 1,000; some clients read only the first page.
    pub const fn page_size(mut self, entries: usize) -> Self {
        self.info.page_size = entries;
        self
    }

    /// Lets clients subscribe to resources. [`crate::Handle::resource_updated`] is what tells them.
    pub const fn subscriptions(mut self) -> Self {
        self.info.subscriptions = true;
        self
    }

    // --- tools ---

    /// A tool with a name and a description. The handler's second parameter is what the arguments are read as; its type says the
    /// schema, and its doc comments are what the model is told about each argument.
    pub fn tool<In, F, Fut>(self, name: impl Into<String>, description: impl Into<String>, handler: F) -> Self
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Call<S>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolResult> + Send + 'static,
    {
        self.add_tool(Tool::new(name).description(description), handler)
    }

    /// A tool with all that can be said of it.
    pub fn add_tool<In, F, Fut>(mut self, tool: Tool, handler: F) -> Self
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Call<S>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolResult> + Send + 'static,
    {
        match tool_entry(tool, handler) {
            Ok(entry) => self.parts.tools.push(Arc::new(entry)),
            Err(mistake) => self.note(mistake),
        }
        self
    }

    /// Takes a tool away; for [`crate::Handle::change`].
    pub fn remove_tool(mut self, name: &str) -> Self {
        let before = self.parts.tools.len();
        self.parts.tools.retain(|tool| tool.entry.name != name);
        self.removed("tool", name, before != self.parts.tools.len());
        self
    }

    // --- resources ---

    /// A resource. Its handler is called whenever it is read.
    #[expect(clippy::needless_pass_by_value, reason = "what is defined is handed over, as everywhere here")]
    pub fn resource<F, Fut>(mut self, resource: Resource, handler: F) -> Self
    where
        F: Fn(Call<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResource> + Send + 'static,
    {
        let mime_type: Option<Arc<str>> = resource.its_mime_type().map(Into::into);
        let run = move |ctx: Call<S>, uri: &str| -> BoxFuture<'static, _> {
            let (work, uri, mime_type) = (handler(ctx), uri.to_owned(), mime_type.clone());
            Box::pin(work.map(move |read| reply::resource(read.into_resource(), &uri, mime_type.as_deref())))
        };
        match entry(resource.uri.clone(), &resource, Box::new(run) as _) {
            Ok(entry) => self.parts.resources.push(Arc::new(entry)),
            Err(mistake) => self.note(mistake),
        }
        self
    }

    /// A template of resources. The handler's second parameter is what the variables are read as: a struct with their names, or a map.
    /// A URI whose variables it cannot be read from names no resource.
    pub fn resource_template<V, F, Fut>(mut self, template: ResourceTemplate, handler: F) -> Self
    where
        V: DeserializeOwned + Send + 'static,
        F: Fn(Call<S>, V) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResource> + Send + 'static,
    {
        let parsed = match Template::parse(&template.template) {
            Ok(parsed) => parsed,
            Err(why) => {
                self.note(BuildError::Template { template: template.template, why });
                return self;
            }
        };
        let mime_type: Option<Arc<str>> = template.its_mime_type().map(Into::into);
        let run = move |ctx: Call<S>, uri: &str, variables: Variables<'_>| -> BoxFuture<'static, _> {
            let Ok(variables) = texts::read::<V>(variables) else {
                return Box::pin(ready(crate::error::resource_not_found(uri).into()));
            };
            let (work, uri, mime_type) = (handler(ctx, variables), uri.to_owned(), mime_type.clone());
            Box::pin(work.map(move |read| reply::resource(read.into_resource(), &uri, mime_type.as_deref())))
        };
        match entry(template.template.clone(), &template, Box::new(run) as _) {
            Ok(entry) => self.parts.templates.push(Arc::new(TemplateEntry { template: parsed, entry })),
            Err(mistake) => self.note(mistake),
        }
        self
    }

    /// Takes a resource or a template away; for [`crate::Handle::change`].
    pub fn remove_resource(mut self, uri: &str) -> Self {
        let before = self.parts.resources.len() + self.parts.templates.len();
        self.parts.resources.retain(|entry| entry.name != uri);
        self.parts.templates.retain(|template| template.entry.name != uri);
        self.removed("resource", uri, before != self.parts.resources.len() + self.parts.templates.len());
        self
    }

    // --- prompts ---

    /// A prompt with a name and a description. The handler's second parameter is what the arguments, which are texts, are read as; its
    /// fields are the arguments.
    pub fn prompt<In, F, Fut>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: F,
    ) -> Self
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Call<S>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoPrompt> + Send + 'static,
    {
        self.add_prompt(Prompt::new(name).description(description), handler)
    }

    /// A prompt with all that can be said of it.
    pub fn add_prompt<In, F, Fut>(mut self, mut prompt: Prompt, handler: F) -> Self
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Call<S>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoPrompt> + Send + 'static,
    {
        if prompt.arguments.is_none() {
            match prompt::arguments_of::<In>() {
                Ok(arguments) => prompt.arguments = Some(arguments),
                Err(why) => {
                    self.note(BuildError::Schema { which: "input", name: prompt.name, why });
                    return self;
                }
            }
        }
        let arguments = prompt.arguments.iter().flatten().map(|argument| argument.name.clone()).collect();
        let name = prompt.name.clone();
        let run = move |ctx: Call<S>, arguments: &str| -> BoxFuture<'static, _> {
            let read = serde_json::from_str::<texts::Arguments<'_>>(arguments)
                .map_err(|error| error.to_string())
                .and_then(|arguments| texts::read::<In>(arguments.0).map_err(|error| error.to_string()));
            match read {
                Ok(input) => {
                    let work = handler(ctx, input);
                    Box::pin(work.map(|prompt| reply::prompt(prompt.into_prompt())))
                }
                Err(why) => {
                    Box::pin(ready(reply::bad_params(&format!("the arguments of the prompt {name:?}"), &why)))
                }
            }
        };
        match entry(prompt.name.clone(), &prompt, Box::new(run) as _) {
            Ok(entry) => self.parts.prompts.push(Arc::new(PromptEntry { arguments, entry })),
            Err(mistake) => self.note(mistake),
        }
        self
    }

    /// Takes a prompt and its completions away; for [`crate::Handle::change`].
    pub fn remove_prompt(mut self, name: &str) -> Self {
        let before = self.parts.prompts.len();
        self.parts.prompts.retain(|prompt| prompt.entry.name != name);
        let gone = Reference::prompt(name);
        self.parts.completions.retain(|(reference, _), _| *reference != gone);
        self.removed("prompt", name, before != self.parts.prompts.len());
        self
    }

    // --- completions ---

    /// Proposals for an argument of a prompt, or for a variable of a template.
    pub fn completion<F, Fut>(mut self, reference: Reference, argument: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Call<S>, Typed) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCompletions> + Send + 'static,
    {
        let run = move |ctx: Call<S>, params: CompleteParams| -> BoxFuture<'static, _> {
            let work = handler(ctx, params.typed());
            Box::pin(work.map(|completed| reply::completions(completed.into_completions())))
        };
        let key = (reference, argument.into());
        let name = format!("{:?} of {}", key.1, key.0);
        if self.parts.completions.insert(key, Arc::new(Box::new(run))).is_some() {
            self.note(BuildError::Duplicate { kind: "completion", name });
        }
        self
    }

    // --- the end ---

    /// The server.
    ///
    /// # Errors
    /// The first mistake that was made.
    pub fn build(self) -> Result<Server<S>, BuildError> {
        let (info, shared) = (self.info.clone(), self.shared.clone());
        let catalog = self.into_catalog()?;
        Ok(Server::new(Inner {
            server_info: Raw::from_value(&info).ok(),
            info,
            shared,
            catalog: RwLock::new(Arc::new(catalog)),
            changing: Mutex::default(),
            peers: Mutex::default(),
        }))
    }

    pub(crate) fn into_catalog(self) -> Result<Catalog<S>, BuildError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let parts = self.parts;
        unique("tool", parts.tools.iter().map(|tool| &*tool.entry.name))?;
        unique("resource", parts.resources.iter().map(|entry| &*entry.name))?;
        unique("resource template", parts.templates.iter().map(|template| &*template.entry.name))?;
        unique("prompt", parts.prompts.iter().map(|prompt| &*prompt.entry.name))?;
        for (reference, argument) in parts.completions.keys() {
            let there = match reference {
                Reference::Prompt { name } => parts
                    .prompts
                    .iter()
                    .any(|prompt| prompt.entry.name == *name && prompt.arguments.contains(argument)),
                Reference::Resource { uri } => parts.templates.iter().any(|template| {
                    template.entry.name == *uri && template.template.names().contains(&&**argument)
                }),
            };
            if !there {
                let (reference, argument) = (reference.to_string(), argument.clone());
                return Err(BuildError::Completion { reference, argument });
            }
        }
        Ok(Catalog::new(parts, self.info.page_size))
    }

    fn note(&mut self, mistake: BuildError) {
        self.mistake.get_or_insert(mistake);
    }

    fn removed(&mut self, kind: &'static str, name: &str, was_there: bool) {
        if !was_there {
            self.note(BuildError::NothingToRemove { kind, name: name.to_owned() });
        }
    }
}

impl<S> fmt::Debug for ServerBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("name", &self.info.name)
            .field("tools", &self.parts.tools.len())
            .field("resources", &self.parts.resources.len())
            .field("prompts", &self.parts.prompts.len())
            .field("mistake", &self.mistake)
            .finish_non_exhaustive()
    }
}

fn unique<'a>(kind: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), BuildError> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(BuildError::Empty(kind));
        }
        if !seen.insert(name) {
            return Err(BuildError::Duplicate { kind, name: name.to_owned() });
        }
    }
    Ok(())
}

fn entry<R>(name: String, definition: &impl Serialize, run: R) -> Result<Entry<R>, BuildError> {
    match Raw::from_value(definition) {
        Ok(listed) => Ok(Entry { name, listed, run }),
        Err(error) => Err(BuildError::Definition { name, why: error.to_string() }),
    }
}
