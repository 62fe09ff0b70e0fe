//! One answer, read as it comes.

use crate::{Block, Head, Raw};
use serde_json::Value;
use std::io;

/// An answer whose head has been read, and the connection that its body comes on.
#[derive(Debug)]
pub struct Answer {
    /// The head.
    pub head: Head,
    /// The newest id that its stream has shown.
    pub last_id: Option<String>,
    raw: Raw,
}

impl Answer {
    /// Sends one request on a connection and reads the head of the answer. Panics when there is none.
    pub async fn to(mut raw: Raw, request: impl AsRef<[u8]>) -> Self {
        raw.send(request).await;
        let head = raw.head().await;
        Self { head, last_id: None, raw }
    }

    /// The same, or why there is no answer.
    ///
    /// # Errors
    /// A connection that ends or is silent.
    pub async fn try_to(mut raw: Raw, request: impl AsRef<[u8]>) -> io::Result<Self> {
        raw.send(request).await;
        let head = raw.try_head("POST").await?;
        let head =
            head.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer"))?;
        Ok(Self { head, last_id: None, raw })
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Whether it is an event stream.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The whole body as text.
    pub async fn text(&mut self) -> String {
        String::from_utf8(self.raw.body().await).expect("a body is UTF-8")
    }

    /// The whole body, which is one JSON value of the type `application/json`.
    pub async fn json(&mut self) -> Value {
        let text = self.text().await;
        assert_eq!(self.header("content-type"), Some("application/json"), "{}{text}", self.head.text);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// The next block that is no mere comment; `None` at the end. Panics when the stream breaks.
    pub async fn block(&mut self) -> Option<Block> {
        match self.try_block().await {
            Ok(block) => block,
            Err(error) => panic!("the stream broke: {error}"),
        }
    }

    /// The same, or how the stream broke.
    ///
    /// # Errors
    /// As [`Raw::try_block`].
    pub async fn try_block(&mut self) -> io::Result<Option<Block>> {
        loop {
            let block = self.raw.try_block().await?;
            if let Some(block) = &block {
                self.last_id = block.id.clone().or_else(|| self.last_id.take());
                if block.is_comment() {
                    continue;
                }
            }
            return Ok(block);
        }
    }

    /// Every block to the end, comments left out.
    pub async fn blocks(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        while let Some(block) = self.block().await {
            blocks.push(block);
        }
        blocks
    }

    /// Every message to the end.
    pub async fn messages(&mut self) -> Vec<Value> {
        self.blocks().await.iter().filter_map(Block::message).collect()
    }

    /// The response in it, be it plain JSON or the last message of a stream. Panics when the stream ends without one.
    pub async fn response(&mut self) -> Value {
        if !self.is_stream() {
            return self.json().await;
        }
        let messages = self.messages().await;
        let response = messages.last().filter(|message| message.get("method").is_none());
        response.cloned().unwrap_or_else(|| panic!("no response at the end: {messages:?}"))
    }

    /// The connection.
    pub fn raw(&mut self) -> &mut Raw {
        &mut self.raw
    }

    /// The connection, for another request.
    #[must_use]
    pub fn into_raw(self) -> Raw {
        self.raw
    }

    /// Resets the connection.
    pub fn abort(self) {
        self.raw.abort();
    }
}
