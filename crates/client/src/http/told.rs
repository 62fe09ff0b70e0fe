//! What comes on one connection of `subscriptions/listen`.

use bowline_proto::{
    client::{Standalone, StreamEnd},
    jsonrpc::{ErrorObject, Message, ParseError, Raw, RequestId, parse_message},
    sse::{Decoder, Limits},
};
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// Reads the connection, message by message.
#[derive(Debug)]
pub(super) struct Told {
    decoder: Decoder,
    body: Incoming,
    /// What has come and is not read yet.
    data: Bytes,
    /// The request that listens.
    id: RequestId,
}

/// What came.
pub(super) enum Came {
    /// What the server tells: its text, and what that is.
    Message(Bytes, Result<Message, ParseError>),
    /// The response to the request itself. An error is an answer for good; a result is a polite goodbye.
    Answer(Result<Raw, ErrorObject>),
    /// The connection ended.
    End(StreamEnd),
}

impl Told {
    pub(super) fn new(limits: Limits, response: Response<Incoming>, id: RequestId) -> Self {
        Self { decoder: Decoder::new(limits), body: response.into_body(), data: Bytes::new(), id }
    }

    /// What comes next. It may be dropped while it waits: nothing is lost then.
    pub(super) async fn next(&mut self, stream: &mut Standalone) -> Came {
        loop {
            let mut rest = &self.data[..];
            let Ok(event) = self.decoder.next_event(&mut rest) else { return Came::End(StreamEnd::Error) };
            let is_over = event.is_none();
            let text = event.and_then(|event| {
                let text = event.message().filter(|text| stream.on_event(None, Some(text), event.retry_ms));
                text.map(|text| Bytes::copy_from_slice(text.as_bytes()))
            });
            let left = rest.len();
            self.data = self.data.slice(self.data.len() - left..);
            if let Some(text) = text {
                return match parse_message(text.clone()) {
                    Ok(Message::Response(response)) if response.id == self.id => {
                        Came::Answer(response.reply.into_result())
                    }
                    message => Came::Message(text, message),
                };
            }
            if is_over {
                match self.body.frame().await {
                    Some(Ok(frame)) => self.data = frame.into_data().unwrap_or_default(),
                    Some(Err(_)) => return Came::End(StreamEnd::Error),
                    None => return Came::End(StreamEnd::Graceful),
                }
            }
        }
    }
}
