//! `bowline call`.

use super::{
    arguments::Arguments,
    content,
    failure::{Failure, TOOL},
    options::CallCommand,
    output::{self, Output},
    save::Saver,
    session::Session,
    words::Words,
};
use bowline_client::ToolOutput;

/// A tool with its arguments.
#[derive(Debug)]
pub(super) struct Call {
    tool: String,
    arguments: Arguments,
    saver: Option<Saver>,
    idempotent: bool,
}

impl Call {
    pub(super) fn new(command: &CallCommand, mut words: Words) -> Result<Self, Failure> {
        let tool = words.next("the tool")?;
        Ok(Self {
            arguments: Arguments::new(words.rest(), command.json.as_deref())?,
            saver: command.save.as_deref().map(|dir| Saver::new(dir, &tool)),
            idempotent: command.idempotent,
            tool,
        })
    }

    pub(super) async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        let arguments = self.arguments.read()?;
        let mut options = session.shown();
        if self.idempotent {
            options = options.idempotent();
        }
        let called = session.client.call_tool_with(&self.tool, &arguments, options).await;
        session.screen.clear();
        let result = called.map_err(|error| Failure::call(&error, !self.idempotent))?;
        let texts = shown(&result, self.saver.as_ref())?;
        match session.output {
            Output::Json => {
                output::json(&result.raw)?;
                if self.saver.is_some() {
                    texts
                        .iter()
                        .filter(|(binary, _)| *binary)
                        .for_each(|(_, text)| session.screen.line(text));
                }
            }
            Output::Text => {
                for (_, text) in texts {
                    output::text(&text)?;
                }
            }
        }
        Ok(if result.is_error { TOOL } else { 0 })
    }
}

/// Each block as text, and whether it is binary.
fn shown(result: &ToolOutput, saver: Option<&Saver>) -> Result<Vec<(bool, String)>, Failure> {
    if result.content.is_empty()
        && let Some(structured) = result.structured()
    {
        return Ok(vec![(false, output::one_line(structured.as_str()))]);
    }
    let one = |block| content::shown(block, saver).map(|text| (block["type"] != "text", text));
    result.content.iter().map(one).collect()
}
