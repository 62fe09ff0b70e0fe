//! `bowline watch`.

use super::{
    failure::Failure,
    options::WatchCommand,
    output::{self, Output},
    screen::log_line,
    session::Session,
    text::clean,
    words::Words,
};
use bowline_client::{Notification, Raw};
use std::time::Duration;

/// Resources to subscribe to, and when to end.
#[derive(Debug)]
pub(super) struct Watch {
    uris: Vec<String>,
    within: Option<Duration>,
    count: Option<u64>,
}

impl Watch {
    pub(super) fn new(command: &WatchCommand, words: Words) -> Self {
        Self { uris: words.rest(), within: command.within, count: command.count }
    }

    pub(super) async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        for uri in &self.uris {
            session.client.subscribe(uri).await.map_err(|error| Failure::reading(&error))?;
        }
        let name = session.client.peer().server_info.as_ref().and_then(|info| info.member("name")?.string());
        session.screen.line(&format!("watching {}", clean(name.as_deref().unwrap_or("the server"))));
        let Some(mut notes) = session.notes.take() else { return Ok(0) };
        let output = session.output;
        let print = async {
            let mut printed = 0;
            while let Some(note) = notes.recv().await {
                print(output, &note)?;
                printed += 1;
                if self.count.is_some_and(|count| printed >= count) {
                    break;
                }
            }
            Ok(0)
        };
        match self.within {
            // It is over when it is over.
            Some(within) => tokio::time::timeout(within, print).await.unwrap_or(Ok(0)),
            None => print.await,
        }
    }
}

fn print(output: Output, note: &Notification) -> Result<(), Failure> {
    match output {
        Output::Text => output::text(&line(note)),
        Output::Json => {
            let method = Raw::from_trusted(serde_json::Value::from(&*note.method).to_string().into());
            let params = note.params.clone().unwrap_or_else(Raw::empty_object);
            output::json(&Raw::from_members([("method", method), ("params", params)]))
        }
    }
}

fn line(note: &Notification) -> String {
    let params = note.params.as_ref();
    let text = |name: &str| params.and_then(|params| params.member(name)?.string());
    match &*note.method {
        "notifications/tools/list_changed" => "tools changed".into(),
        "notifications/prompts/list_changed" => "prompts changed".into(),
        "notifications/resources/list_changed" => "resources changed".into(),
        "notifications/resources/updated" => format!("updated {}", text("uri").unwrap_or_default()),
        "notifications/message" => match params.and_then(|params| params.to().ok()) {
            Some(message) => log_line(&message),
            None => "a log message that cannot be read".into(),
        },
        method => {
            let params = params.map(|params| format!(" {}", output::one_line(params.as_str())));
            format!(
                "{}{}",
                method.strip_prefix("notifications/").unwrap_or(method),
                params.unwrap_or_default()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_in_a_line() {
        for (method, params, text) in [
            ("notifications/tools/list_changed", None, "tools changed"),
            ("notifications/resources/updated", Some(r#"{"uri":"a:b"}"#), "updated a:b"),
            ("notifications/message", Some(r#"{"level":"info","data":"x"}"#), "[info] x"),
            ("notifications/other", Some(r#"{"a":1}"#), r#"other {"a":1}"#),
            ("odd", None, "odd"),
        ] {
            let params = params.map(|params| Raw::parse(params).unwrap());
            assert_eq!(line(&Notification::new(method, params)), text);
        }
    }
}
