//! What answers the server, and hears what it says.

use bowline_proto::{
    client::form_defaults,
    jsonrpc::{ErrorObject, Notification, Raw, code},
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{fmt, sync::Arc};

/// Answers a server's requests and hears its notifications. [`Handlers`] is the one with types; a bridge implements this
/// itself.
pub trait Handler: Send + Sync + 'static {
    /// The capabilities that the client declares because of this handler: an object.
    fn capabilities(&self) -> Raw {
        Raw::empty_object()
    }

    /// Answers a request: `sampling/createMessage`, `elicitation/create`, `roots/list`, whichever era it came in. `ping` is
    /// answered by the client itself. Dropped when the server takes the request back.
    fn request<'a>(&'a self, method: &'a str, params: Option<Raw>)
    -> BoxFuture<'a, Result<Raw, ErrorObject>>;

    /// Hears a notification. Called in the order of arrival, on the task that reads the stream: it has to be quick and must
    /// not wait for a call of the same client.
    fn notification(&self, note: &Notification);

    /// Completes when the handler can take another notification: what is read from the server waits for it.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// `notifications/progress` of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// How far the work is.
    pub progress: f64,
    /// Where it ends, where that is known.
    #[serde(default)]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default)]
    pub message: Option<String>,
}

/// A list that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum List {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources and their templates.
    Resources,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    pub(crate) const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    pub(crate) const fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// A line of the server's log.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// `debug` to `emergency`.
    pub level: String,
    /// Who says it.
    #[serde(default)]
    pub logger: Option<String>,
    /// What: any JSON.
    #[serde(default)]
    pub data: serde_json::Value,
}

/// What the server wants to know from the person.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Elicitation {
    /// A form to fill in.
    Form {
        /// What to say to the person.
        message: String,
        /// The JSON Schema of the answer, as it came.
        schema: Raw,
    },
    /// A page to visit. The answer says whether the person agreed, not what they did there.
    Url {
        /// What to say to the person.
        message: String,
        /// The page. Show it, and its host, before anything opens it.
        url: String,
        /// `elicitationId`, for `notifications/elicitation/complete`.
        id: Option<String>,
    },
}

/// What the person said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ElicitReply {
    /// Yes, with the content of the form: defaults of the schema are added for what it does not say. `None`: as the form was.
    Accept(Option<Raw>),
    /// No.
    Decline,
    /// Neither.
    Cancel,
}

/// A directory that the server may know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Root {
    /// `file:` and the path.
    pub uri: String,
    /// What to call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Root {
    /// A root without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }
}

type Answering<I, O> = Arc<dyn Fn(I) -> BoxFuture<'static, Result<O, ErrorObject>> + Send + Sync>;
type HearingAll = Arc<dyn Fn(&Notification) + Send + Sync>;
type Hearing<I> = Arc<dyn Fn(I) + Send + Sync>;

/// Handlers with types. What has none is not declared, and refused when it is asked for.
#[derive(Clone, Default)]
pub struct Handlers {
    sampling: Option<Answering<Raw, Raw>>,
    elicitation: Option<Answering<Elicitation, ElicitReply>>,
    elicits_urls: bool,
    roots: Option<Answering<(), Vec<Root>>>,
    log: Option<Hearing<LogMessage>>,
    list_changed: Option<Hearing<List>>,
    resource_updated: Option<Hearing<String>>,
    any: Option<HearingAll>,
}

impl Handlers {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers `sampling/createMessage`: the parameters as they came, the result as it goes.
    #[must_use]
    pub fn sampling<F>(mut self, answer: impl Fn(Raw) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Raw, ErrorObject>> + Send + 'static,
    {
        self.sampling = Some(Arc::new(move |params| Box::pin(answer(params))));
        self
    }

    /// Answers `elicitation/create` with a form.
    #[must_use]
    pub fn elicitation<F>(mut self, answer: impl Fn(Elicitation) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitReply, ErrorObject>> + Send + 'static,
    {
        self.elicitation = Some(Arc::new(move |asked| Box::pin(answer(asked))));
        self
    }

    /// The elicitation handler can show pages too ([`Elicitation::Url`]).
    #[must_use]
    pub const fn elicitation_urls(mut self) -> Self {
        self.elicits_urls = true;
        self
    }

    /// Answers `roots/list`.
    #[must_use]
    pub fn roots<F>(mut self, answer: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<Root>> + Send + 'static,
    {
        self.roots = Some(Arc::new(move |()| {
            let roots = answer();
            Box::pin(async { Ok(roots.await) })
        }));
        self
    }

    /// Hears the server's log.
    #[must_use]
    pub fn on_log(mut self, hear: impl Fn(LogMessage) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(hear));
        self
    }

    /// Hears that a list changed, or that it may have, because another server is there. The cache has forgotten it already.
    #[must_use]
    pub fn on_list_changed(mut self, hear: impl Fn(List) + Send + Sync + 'static) -> Self {
        self.list_changed = Some(Arc::new(hear));
        self
    }

    /// Hears that a resource changed: its URI.
    #[must_use]
    pub fn on_resource_updated(mut self, hear: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.resource_updated = Some(Arc::new(hear));
        self
    }

    /// Hears every notification as it came, before the others. The acknowledgement of a listen stream, which the client itself
    /// opens, is none of them.
    #[must_use]
    pub fn on_notification(mut self, hear: impl Fn(&Notification) + Send + Sync + 'static) -> Self {
        self.any = Some(Arc::new(hear));
        self
    }

    async fn elicit(
        &self,
        answer: &Answering<Elicitation, ElicitReply>,
        params: Option<Raw>,
    ) -> Result<Raw, ErrorObject> {
        let params = params.unwrap_or_else(Raw::empty_object);
        let text = |name: &str| params.member(name).and_then(|value| value.string());
        let message = text("message").unwrap_or_default();
        let is_url = text("mode").as_deref() == Some("url");
        let schema = params.member("requestedSchema").unwrap_or_else(Raw::empty_object);
        let asked = if is_url {
            let (true, Some(url)) = (self.elicits_urls, text("url")) else {
                return Err(ErrorObject::new(code::INVALID_PARAMS, "this client does not elicit by URL"));
            };
            Elicitation::Url { message, url, id: text("elicitationId") }
        } else {
            Elicitation::Form { message, schema: schema.clone() }
        };
        let reply = match answer(asked).await? {
            ElicitReply::Accept(_) if is_url => json!({ "action": "accept" }),
            ElicitReply::Accept(content) => {
                json!({ "action": "accept", "content": form_defaults(&schema, content.as_ref()) })
            }
            ElicitReply::Decline => json!({ "action": "decline" }),
            ElicitReply::Cancel => json!({ "action": "cancel" }),
        };
        written(&reply)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("capabilities", &self.capabilities().as_str())
            .finish_non_exhaustive()
    }
}

fn written<T: Serialize + ?Sized>(value: &T) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal("unwritable", error.to_string()))
}

impl Handler for Handlers {
    fn capabilities(&self) -> Raw {
        let mut capabilities = Vec::new();
        let object = |text: &'static str| Raw::from_trusted(text.into());
        if self.sampling.is_some() {
            capabilities.push(("sampling", object("{}")));
        }
        if self.elicitation.is_some() {
            let modes = if self.elicits_urls { r#"{"form":{},"url":{}}"# } else { r#"{"form":{}}"# };
            capabilities.push(("elicitation", object(modes)));
        }
        if self.roots.is_some() {
            capabilities.push(("roots", object(r#"{"listChanged":true}"#)));
        }
        Raw::from_members(capabilities)
    }

    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Raw, ErrorObject>> {
        Box::pin(async move {
            match (method, self) {
                ("sampling/createMessage", Self { sampling: Some(answer), .. }) => {
                    answer(params.unwrap_or_else(Raw::empty_object)).await
                }
                ("elicitation/create", Self { elicitation: Some(answer), .. }) => {
                    self.elicit(answer, params).await
                }
                ("roots/list", Self { roots: Some(answer), .. }) => {
                    written(&json!({ "roots": answer(()).await? }))
                }
                _ => Err(ErrorObject::method_not_found(method)),
            }
        })
    }

    fn notification(&self, note: &Notification) {
        if let Some(hear) = &self.any {
            hear(note);
        }
        let params = note.params.as_ref();
        match &*note.method {
            "notifications/message" => {
                if let (Some(hear), Some(message)) = (&self.log, params.and_then(|params| params.to().ok())) {
                    hear(message);
                }
            }
            "notifications/resources/updated" => {
                let uri = params.and_then(|params| params.member("uri")).and_then(|uri| uri.string());
                if let (Some(hear), Some(uri)) = (&self.resource_updated, uri) {
                    hear(uri);
                }
            }
            method => {
                let list = List::ALL.into_iter().find(|list| list.notification() == method);
                if let (Some(hear), Some(list)) = (&self.list_changed, list) {
                    hear(list);
                }
            }
        }
    }
}
