//! A handler that does everything, written for rmcp and nothing else.

use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{
        CreateMessageRequestParams, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
        ResourceUpdatedNotificationParam, SamplingMessage, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// What happened, and how many handlers there are.
#[derive(Default)]
pub(crate) struct Diary {
    entries: Mutex<Vec<String>>,
    alive: Mutex<usize>,
}

impl Diary {
    pub(crate) fn write(&self, entry: impl Into<String>) {
        self.entries.lock().push(entry.into());
    }

    pub(crate) fn has(&self, entry: &str) -> bool {
        self.count(entry) > 0
    }

    pub(crate) fn count(&self, entry: &str) -> usize {
        self.entries.lock().iter().filter(|written| *written == entry).count()
    }

    pub(crate) fn handlers(&self) -> usize {
        *self.alive.lock()
    }
}

/// Writes an entry when it is dropped.
struct Noted(Arc<Diary>, &'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.write(self.1);
    }
}

pub(crate) struct Everything {
    diary: Arc<Diary>,
    calls: Mutex<u32>,
    level: Mutex<Option<LoggingLevel>>,
}

impl Everything {
    pub(crate) fn new(diary: Arc<Diary>) -> Self {
        *diary.alive.lock() += 1;
        Self { diary, calls: Mutex::new(0), level: Mutex::new(None) }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        *self.diary.alive.lock() -= 1;
    }
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Steps {
    steps: u32,
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Age {
    age: u32,
}
rmcp::elicit_safe!(Age);

type Context = RequestContext<RoleServer>;

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[tool_router]
impl Everything {
    #[tool(description = "Says it again")]
    async fn echo(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text
    }

    #[tool(description = "How often this session has called it")]
    async fn tally(&self) -> String {
        let mut calls = self.calls.lock();
        *calls += 1;
        calls.to_string()
    }

    #[tool(description = "Counts and says so")]
    async fn count(
        &self,
        Parameters(Steps { steps, ms }): Parameters<Steps>,
        context: Context,
    ) -> Result<String, ErrorData> {
        for step in 1..=steps {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            if let Some(token) = context.meta.get_progress_token() {
                context
                    .peer
                    .notify_progress(ProgressNotificationParam::new(token, step.into()))
                    .await
                    .map_err(failed)?;
            }
        }
        self.diary.write("counted");
        Ok(format!("counted to {steps}"))
    }

    #[tool(description = "Waits until it is cancelled")]
    async fn wait(&self, context: Context) -> String {
        self.diary.write("waits");
        context.ct.cancelled().await;
        self.diary.write("cancelled");
        "never read".into()
    }

    #[tool(description = "Does not look whether it is cancelled")]
    async fn stubborn(&self) -> String {
        let _noted = Noted(self.diary.clone(), "dropped");
        std::future::pending().await
    }

    #[tool(description = "Fails")]
    async fn fail(&self) -> Result<String, ErrorData> {
        Err(ErrorData::invalid_params("it is always wrong", Some(serde_json::json!({ "why": "so" }))))
    }

    #[tool(description = "Panics")]
    async fn panic(&self) -> String {
        panic!("a secret")
    }

    #[tool(description = "Samples")]
    async fn sample(&self, context: Context) -> Result<String, ErrorData> {
        let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text("hi")], 16);
        let answer = context.peer.create_message(params).await.map_err(failed)?;
        Ok(format!("{} said something", answer.model))
    }

    #[tool(description = "Asks for an age")]
    async fn elicit(&self, context: Context) -> Result<String, ErrorData> {
        let age = context.peer.elicit::<Age>("How old?").await.map_err(failed)?;
        Ok(age.map_or_else(|| "no age".into(), |Age { age }| format!("{age} years")))
    }

    #[tool(description = "Lists roots from a task of its own")]
    async fn roots(&self, context: Context) -> Result<String, ErrorData> {
        let peer = context.peer.clone();
        let roots = tokio::spawn(async move { peer.list_roots().await });
        let roots = roots.await.map_err(failed)?.map_err(failed)?;
        Ok(roots.roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" "))
    }

    #[tool(description = "Gives up asking after a second")]
    async fn impatient(&self, context: Context) -> Result<String, ErrorData> {
        let age = context.peer.elicit_with_timeout::<Age>("How old?", Some(Duration::from_secs(1))).await;
        Ok(if age.is_err() { "gave up" } else { "was answered" }.into())
    }

    #[tool(description = "Pings the client")]
    async fn ping_client(&self, context: Context) -> Result<String, ErrorData> {
        use rmcp::model::{PingRequest, ServerRequest};
        let ping = PingRequest { method: Default::default(), extensions: Default::default() };
        context.peer.send_request(ServerRequest::PingRequest(ping)).await.map_err(failed)?;
        Ok("it lives".into())
    }

    #[tool(description = "Changes things and tells")]
    async fn change(&self, context: Context) -> Result<String, ErrorData> {
        context.peer.notify_tool_list_changed().await.map_err(failed)?;
        let update = ResourceUpdatedNotificationParam::new("note:a");
        context.peer.notify_resource_updated(update).await.map_err(failed)?;
        Ok("changed".into())
    }

    #[tool(description = "Logs")]
    async fn log(&self, context: Context) -> Result<String, ErrorData> {
        let level = self.level.lock().unwrap_or(LoggingLevel::Info);
        let entry = LoggingMessageNotificationParam::new(level, serde_json::json!("hello"));
        context.peer.notify_logging_message(entry).await.map_err(failed)?;
        Ok("logged".into())
    }

    #[tool(description = "Lets go of its connection, if it can")]
    async fn park(&self, context: Context) -> String {
        let call = context.extensions.get::<bowline_server::Call>().expect("the adapter puts it there");
        call.close_connection();
        tokio::time::sleep(Duration::from_secs(10)).await;
        self.diary.write("parked");
        "after the pause".into()
    }

    #[tool(description = "Reads a header of the request, and the name of the client")]
    async fn caller(&self, context: Context) -> String {
        let parts = context.extensions.get::<http::request::Parts>();
        let tenant = parts.and_then(|parts| parts.headers.get("x-tenant")?.to_str().ok());
        let client = context.client_info().map(|client| client.name);
        format!("{tenant:?} {client:?}")
    }
}

#[tool_handler]
impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe();
        ServerConfig::new(capabilities.build()).with_instructions("do everything")
    }

    async fn set_level(&self, request: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        *self.level.lock() = Some(request.level);
        Ok(())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        self.diary.write(format!("subscribed {}", request.uri));
        Ok(())
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        self.diary.write(format!("unsubscribed {}", request.uri));
        Ok(())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("a note", request.uri)]).into())
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.diary.write("initialized");
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.diary.write("roots changed");
        panic!("at a notification")
    }
}
