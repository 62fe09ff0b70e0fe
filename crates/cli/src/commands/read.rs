//! `bowline read`.

use super::{
    content,
    failure::Failure,
    options::ReadCommand,
    output::{self, Output},
    save::{Saver, decoded},
    session::Session,
    words::Words,
};
use serde_json::Value;

/// A resource.
#[derive(Debug)]
pub(super) struct Read {
    uri: String,
    saver: Option<Saver>,
}

impl Read {
    pub(super) fn new(command: &ReadCommand, mut words: Words) -> Result<Self, Failure> {
        let uri = words.next("the URI of the resource")?;
        words.end()?;
        Ok(Self { saver: command.save.as_deref().map(|dir| Saver::new(dir, &uri)), uri })
    }

    pub(super) async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        let read = session.client.read_resource(&self.uri).await;
        let result = read.map_err(|error| Failure::reading(&error))?;
        let contents = result.member("contents").and_then(|contents| contents.to::<Vec<Value>>().ok());
        let contents = contents.ok_or_else(|| Failure::answer("the answer has no list of contents"))?;
        if session.output == Output::Json {
            output::json(&result)?;
        }
        for resource in &contents {
            match (&self.saver, resource["blob"].as_str()) {
                (Some(saver), _) => {
                    let mime = resource["mimeType"].as_str().unwrap_or_default();
                    let bytes = match resource["blob"].as_str() {
                        Some(blob) => decoded(blob)?,
                        None => resource["text"].as_str().unwrap_or_default().as_bytes().to_vec(),
                    };
                    let path = saver.save(mime, &bytes)?;
                    let line = format!("[{mime}, {} bytes: {}]", bytes.len(), path.display());
                    if session.output == Output::Json {
                        session.screen.line(&line);
                    } else {
                        output::text(&line)?;
                    }
                }
                (None, _) if session.output == Output::Json => {}
                // Into a file or another program: as it is.
                (None, Some(blob)) if !output::is_terminal() => output::bytes(&decoded(blob)?)?,
                (None, _) => output::text(&content::contents(resource, None)?)?,
            }
        }
        Ok(0)
    }
}
