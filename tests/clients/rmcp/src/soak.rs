//! Many clients in one process, for `crates/soak`, which starts it, breaks its connections, kills it, and checks what it writes down:
//! `bowline-rmcp-client soak CONFIG`. The journal is that of `crates/soak/src/journal`; every line is on disk before what it announces is
//! done, so that a kill loses nothing.

use crate::session::model;
use crate::wire::Wire;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, Request, ServerResult,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ErrorData, ServiceError, ServiceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the driver tells.
#[derive(Deserialize)]
struct Config {
    clients: Vec<ClientOf>,
    token: String,
    incarnation: u64,
    seed: u64,
    until: u64,
    journal: String,
    longest_call: u64,
    longest_pause: u64,
    grace: u64,
}

#[derive(Deserialize)]
struct ClientOf {
    name: String,
    url: String,
}

struct Common {
    config: Config,
    journal: Arc<File>,
}

/// Writes one event down, in one piece.
pub fn note(mut journal: &File, mut event: Value) {
    event["t"] = json!(now());
    journal.write_all(format!("{event}\n").as_bytes()).expect("the journal can be written");
}

impl Common {
    fn note(&self, event: Value) {
        note(&self.journal, event);
    }

    fn left(&self) -> u64 {
        self.config.until.saturating_sub(now())
    }
}

/// splitmix64: the same seed, the same decisions.
struct Chance(u64);

impl Chance {
    fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        from + (z ^ (z >> 31)) % (to - from + 1)
    }

    fn percent(&mut self, share: u64) -> bool {
        self.between(0, 99) < share
    }

    async fn pause(&mut self, longest: u64) {
        tokio::time::sleep(Duration::from_millis(self.between(0, longest))).await;
    }
}

/// What one session hears.
#[derive(Clone)]
struct Ears {
    common: Arc<Common>,
    session: String,
    config: ClientConfig,
    /// Whose progress comes under which token.
    tokens: Arc<Mutex<HashMap<String, String>>>,
}

impl Ears {
    fn heard(&self, of: &str, what: &str) {
        self.common.note(json!({ "e": "heard", "session": self.session, "of": of, "what": what }));
    }
}

/// The call that a question names.
fn named(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    text.strip_prefix("ask ").unwrap_or(text).to_owned()
}

impl ClientHandler for Ears {
    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let of = named(&serde_json::to_value(params).unwrap_or_default()["message"]);
        self.heard(&of, "ask");
        model(json!({ "action": "accept", "content": { "call": of } }))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let params = serde_json::to_value(params).unwrap_or_default();
        let content = &params["messages"][0]["content"];
        let of = named(&content.get(0).unwrap_or(content)["text"]);
        self.heard(&of, "ask");
        let content = json!({ "type": "text", "text": format!("answer {of}") });
        model(json!({ "role": "assistant", "model": "none", "content": content }))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let of = params.message.unwrap_or_default();
        let token = serde_json::to_string(&params.progress_token).unwrap_or_default();
        let call = self.tokens.lock().expect("nobody panics while it is held").get(&token).cloned();
        let call = call.unwrap_or_else(|| of.clone());
        self.common.note(json!({ "e": "progress", "call": call, "of": of, "n": params.progress as u64 }));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard(params.data["call"].as_str().unwrap_or_default(), "log");
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}

/// Runs until the time of the driver is over.
pub async fn run(config: &str) -> Result<(), String> {
    let config: Config =
        serde_json::from_str(config).map_err(|error| format!("the configuration: {error}"))?;
    let journal = OpenOptions::new().create(true).append(true).open(&config.journal);
    let journal = journal.map_err(|error| format!("{}: {error}", config.journal))?;
    let common = Arc::new(Common { config, journal: Arc::new(journal) });
    let clients = (0..common.config.clients.len()).map(|index| work(common.clone(), index));
    futures::future::join_all(clients).await;
    Ok(())
}

/// One client: session after session.
async fn work(common: Arc<Common>, index: usize) {
    let mut chance = Chance(common.config.seed + index as u64 * 7919);
    chance.pause(common.config.longest_pause).await;
    let client = &common.config.clients[index];
    for number in 1.. {
        if common.left() == 0 {
            return;
        }
        let session = format!("{}/{}.{number}", client.name, common.config.incarnation);
        if let Err(error) = live(&common, &session, &client.url, &mut chance).await {
            eprintln!("{session}: {error}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

async fn live(common: &Arc<Common>, session: &str, url: &str, chance: &mut Chance) -> Result<(), String> {
    let config = model(json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {}, "sampling": {} },
        "clientInfo": { "name": "bowline-soak", "version": "1.0.0" },
    }));
    let config = config.map_err(|error| error.to_string())?;
    let ears = Ears { common: common.clone(), session: session.to_owned(), config, tokens: Arc::default() };
    let tokens = ears.tokens.clone();
    let transport = StreamableHttpClientTransport::with_client(
        Wire::journalling(common.journal.clone()),
        StreamableHttpClientTransportConfig::with_uri(url).auth_header(common.config.token.as_str()),
    );
    // The SDK has no bound for a handshake.
    let client = tokio::time::timeout(Duration::from_secs(15), ears.serve(transport)).await;
    let client = client.map_err(|_| "no handshake in time".to_owned())?.map_err(|error| error.to_string())?;
    common.note(json!({ "e": "opened", "session": session }));
    let mut next = 0;
    for _ in 0..chance.between(1, 8) {
        if common.left() == 0 {
            break;
        }
        let at_once = if chance.percent(15) { chance.between(2, 3) } else { 1 };
        let calls = (0..at_once).map(|_| {
            next += 1;
            let chance = Chance(chance.between(0, u64::MAX - 1));
            one(common, &client, &tokens, format!("{session}.{next}"), chance)
        });
        let ended = futures::future::join_all(calls.collect::<Vec<_>>()).await;
        if ended.iter().any(|how| how == "lost") {
            // A POST that is cut ends the SDK's transport, and with it every later call.
            break;
        }
        chance.pause(common.config.longest_pause).await;
    }
    // Closed, the SDK sends DELETE; it does not say whether it was answered.
    common.note(json!({ "e": "closed", "session": session, "parting": "left" }));
    client.cancel().await.map(drop).map_err(|error| error.to_string())
}

/// What a call asks for.
fn plan(common: &Common, chance: &mut Chance) -> Value {
    let long = common.config.longest_call;
    let ms = match chance.between(0, 5) {
        0..3 => 0,
        3 => chance.between(0, long / 20),
        4 => chance.between(0, long / 4),
        _ => chance.between(long / 10, long),
    };
    let ms = ms.min(common.left() + 2_000);
    let progress = if chance.percent(50) { chance.between(1, 2 + ms / 300) } else { 0 };
    let size = if chance.percent(12) { chance.between(4_096, 400_000) } else { chance.between(1, 2_000) };
    let ask =
        ["elicit", "sample", "none", "none", "none", "none", "none", "none"][chance.between(0, 7) as usize];
    json!({ "ms": ms, "progress": progress, "size": size, "ask": ask, "log": chance.percent(15) })
}

async fn one(
    common: &Common,
    client: &RunningService<RoleClient, Ears>,
    tokens: &Mutex<HashMap<String, String>>,
    call: String,
    mut chance: Chance,
) -> String {
    let plan = plan(common, &mut chance);
    let ms = plan["ms"].as_u64().unwrap_or_default();
    let intent = if chance.percent(7) { "cancel" } else { "finish" };
    let bound = ms + common.config.grace;
    common.note(
        json!({ "e": "sent", "call": call, "plan": plan, "intent": intent, "bound_ms": bound + 5_000 }),
    );
    let mut arguments = plan.clone();
    arguments["call"] = json!(call);
    let how =
        outcome(client, tokens, &call, arguments, intent == "cancel", bound, chance.between(0, ms + 200))
            .await;
    let how = how.unwrap_or_else(|error| failed(&error));
    let mut end = json!({ "e": "end", "call": call });
    for (name, value) in how.as_object().into_iter().flatten() {
        end[name] = value.clone();
    }
    if end["how"] == "result" {
        let text = end["text"].take();
        end["good"] = json!(text == payload(&call, plan["size"].as_u64().unwrap_or_default()));
        if let Some(end) = end.as_object_mut() {
            end.remove("text");
        }
    }
    let how = end["how"].as_str().unwrap_or_default().to_owned();
    common.note(end);
    how
}

async fn outcome(
    client: &RunningService<RoleClient, Ears>,
    tokens: &Mutex<HashMap<String, String>>,
    call: &str,
    arguments: Value,
    cancel: bool,
    bound: u64,
    after: u64,
) -> Result<Value, ServiceError> {
    let params: CallToolRequestParams =
        model(json!({ "name": "work", "arguments": arguments })).map_err(ServiceError::McpError)?;
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let handle = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let token = serde_json::to_string(&handle.progress_token).unwrap_or_default();
    tokens.lock().expect("nobody panics while it is held").insert(token, call.to_owned());
    let (id, peer) = (handle.id.clone(), handle.peer.clone());
    let wait = Duration::from_millis(if cancel { after } else { bound });
    let result = match tokio::time::timeout(wait, handle.await_response()).await {
        Ok(result) => result?,
        Err(_) => {
            let reason = Some("the soak does not want it any more".to_owned());
            let params =
                model(json!({ "requestId": id, "reason": reason })).map_err(ServiceError::McpError)?;
            let _ = peer.notify_cancelled(params).await;
            return Ok(json!({ "how": if cancel { "cancelled" } else { "timeout" } }));
        }
    };
    let ServerResult::CallToolResult(result) = result else { return Err(ServiceError::UnexpectedResponse) };
    Ok(shown(&result))
}

/// A result as the journal has it; the text is compared later.
fn shown(result: &CallToolResult) -> Value {
    let result = serde_json::to_value(result).unwrap_or_default();
    let structured = &result["structuredContent"];
    json!({ "how": "result", "of": structured["call"], "asked": structured["asked"], "text": result["content"][0]["text"] })
}

fn failed(error: &ServiceError) -> Value {
    if let ServiceError::McpError(error) = error {
        let data = error.data.clone().unwrap_or_default();
        return json!({ "how": "error", "code": error.code.0, "reason": data["reason"], "outcome": data["outcome"],
            "message": error.message });
    }
    let why = error.to_string();
    match ["429", "503"].into_iter().find(|status| why.contains(status)) {
        Some(status) => json!({ "how": "refused", "status": status.parse::<u16>().unwrap_or_default() }),
        None => json!({ "how": "lost", "why": why }),
    }
}

fn payload(call: &str, size: u64) -> String {
    let size = size as usize;
    let mut text = format!("{call}|").repeat(size / (call.len() + 1) + 1);
    text.truncate(size);
    text
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
