//! What a client of MCP says, as far as a load needs it.

use crate::{LoadError, Target, Template, http::Connection, template::Stamped};
use bowline_proto::sse::{Decoder, Limits};
use serde_json::Value;
use std::fmt;

/// The largest answer that is read whole, in bytes.
pub(crate) const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// The revision that is asked for: the newest with a handshake.
const REVISION: &str = "2025-11-25";

/// What every later request of a client carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// `None`: the endpoint has no sessions.
    pub id: Option<String>,
    /// The revision that the endpoint chose.
    pub revision: String,
}

impl Session {
    /// A client that has said nothing, for endpoints without sessions.
    #[must_use]
    pub fn none() -> Self {
        Self { id: None, revision: REVISION.to_owned() }
    }

    /// Its headers, whole lines.
    pub(crate) fn lines(&self) -> String {
        let revision = format!("MCP-Protocol-Version: {}\r\n", self.revision);
        match &self.id {
            Some(id) => format!("{revision}Mcp-Session-Id: {id}\r\n"),
            None => revision,
        }
    }

    pub(crate) fn post(&self, target: &Target, template: &Template) -> Stamped {
        Stamped::new(template, target.request("POST", &self.lines(), &template.body()))
    }
}

impl fmt::Debug for Session {
    /// Without the id, which is a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// An answer that was read to its end.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Whether it came as a stream of events.
    pub events: bool,
    /// The body as it came.
    pub body: Vec<u8>,
}

impl Answer {
    /// Sends a request and reads its answer to the end.
    pub(crate) async fn read(
        &mut self,
        connection: &mut Connection,
        request: &[u8],
    ) -> Result<Option<String>, LoadError> {
        connection.send(request).await?;
        let head = connection.head().await?;
        (self.status, self.events) = (head.status, head.events);
        connection.rest(&mut self.body, MAX_ANSWER).await?;
        Ok(head.session)
    }

    /// Whether it is a result, by its look.
    pub(crate) fn check(&self, doing: &'static str) -> Result<(), LoadError> {
        if self.status != 200 {
            return Err(LoadError::refused(doing, self.status, &self.body));
        }
        if memchr::memmem::find(&self.body, b"\"result\"").is_none() {
            return Err(LoadError::no_result(doing, &self.body));
        }
        Ok(())
    }

    /// The JSON-RPC response in it, in whatever form it came.
    #[must_use]
    pub fn response(&self) -> Option<Value> {
        if !self.events {
            return serde_json::from_slice(&self.body).ok();
        }
        let mut decoder = Decoder::new(Limits::default());
        let mut input = &self.body[..];
        let mut last = None;
        while let Ok(Some(event)) = decoder.next_event(&mut input) {
            let message = event.message().and_then(|text| serde_json::from_str::<Value>(text).ok());
            last = message.filter(|message| message.get("method").is_none()).or(last);
        }
        last
    }
}

/// Says hello as a client does: `initialize`, then `notifications/initialized`.
///
/// # Errors
/// When either is refused.
pub async fn handshake(target: &Target) -> Result<Session, LoadError> {
    handshake_on(&mut Connection::open(target).await?, target).await
}

pub(crate) async fn handshake_on(connection: &mut Connection, target: &Target) -> Result<Session, LoadError> {
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{REVISION}","capabilities":{{}},"clientInfo":{{"name":"bowline-load","version":"{}"}}}}}}"#,
        env!("CARGO_PKG_VERSION")
    );
    let mut answer = Answer::default();
    let id = answer.read(connection, &target.request("POST", "", &hello)).await?;
    answer.check("initialize")?;
    let response = answer.response().unwrap_or_default();
    let revision = response["result"]["protocolVersion"].as_str();
    // It becomes a header.
    let revision =
        revision.filter(|text| text.len() < 100 && text.bytes().all(|byte| byte.is_ascii_graphic()));
    let Some(revision) = revision else { return Err(LoadError::no_result("initialize", &answer.body)) };
    let session = Session { id, revision: revision.to_owned() };
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    answer.read(connection, &target.request("POST", &session.lines(), ready)).await?;
    if !(200..300).contains(&answer.status) {
        return Err(LoadError::refused("notifications/initialized", answer.status, &answer.body));
    }
    Ok(session)
}

/// Ends sessions, one after another. An endpoint that lets no client do so (405) is no error.
///
/// # Errors
/// When the endpoint refuses, or cannot be reached; the rest is left as it is.
pub async fn end_sessions(target: &Target, sessions: &[Session]) -> Result<(), LoadError> {
    let mut connection = Connection::open(target).await?;
    for session in sessions {
        connection.make_ready(target).await?;
        end_session_on(&mut connection, target, session).await?;
    }
    Ok(())
}

pub(crate) async fn end_session_on(
    connection: &mut Connection,
    target: &Target,
    session: &Session,
) -> Result<(), LoadError> {
    if session.id.is_none() {
        return Ok(());
    }
    let mut answer = Answer::default();
    answer.read(connection, &target.request("DELETE", &session.lines(), "")).await?;
    if (200..300).contains(&answer.status) || answer.status == 405 {
        Ok(())
    } else {
        Err(LoadError::refused("DELETE", answer.status, &answer.body))
    }
}

/// Sends one request and reads its answer to the end.
///
/// # Errors
/// When there is no answer. One that says no is an answer.
pub async fn call_once(target: &Target, session: &Session, template: &Template) -> Result<Answer, LoadError> {
    let mut answer = Answer::default();
    let mut connection = Connection::open(target).await?;
    answer.read(&mut connection, session.post(target, template).stamp(0, 0)).await?;
    Ok(answer)
}
