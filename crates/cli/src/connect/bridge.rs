//! The life of a bridge: lines to the relay, the relay's messages to lines, and the end of both.

use super::{
    filter::Filter,
    lines::{Line, Lines},
    writer::write,
};
use crate::client::Asking;
use bowline_client::{ErrorObject, Message, Relay, code};
use bowline_proto::jsonrpc::{Body, RequestId, parse};
use bytes::Bytes;
use std::{io, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// How long the last messages have to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Errors for lines that are no messages, which wait to be written.
const ERRORS: usize = 16;

/// A relay with the bounds of its pipe.
pub(super) struct Bridge {
    pub(super) relay: Relay,
    pub(super) filter: Arc<Filter>,
    /// Told that somebody wants something.
    pub(super) asking: Asking,
    /// Bytes of a line.
    pub(super) max_line: usize,
    /// Requests of the host without an answer.
    pub(super) max_waiting: usize,
    /// How long running calls may take after the host's last word.
    pub(super) drain: Duration,
}

/// Why it ended.
#[derive(Debug)]
pub(super) enum End {
    /// The host closed one of the pipes.
    Host,
    /// A signal.
    Asked,
    /// stdin failed.
    Broken(io::Error),
}

impl Bridge {
    /// Carries messages until the host is gone or `leaving` completes; then ends what runs, and the session.
    pub(super) async fn carry<R, W>(
        self,
        stdin: R,
        stdout: W,
        messages: mpsc::Receiver<Message>,
        leaving: impl Future<Output = ()>,
    ) -> End
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (errors, lines) = mpsc::channel(ERRORS);
        let (finish, finished) = oneshot::channel();
        let mut writer = tokio::spawn(write(stdout, messages, lines, Arc::clone(&self.filter), finished));
        let mut leaving = pin!(leaving);
        let mut stdin = Lines::new(stdin, self.max_line);
        // A host that does not read holds up what it says; its end must be noticed all the same.
        let reading = async {
            loop {
                match stdin.next().await {
                    Ok(Some(line)) => self.on_line(line, &errors).await,
                    Ok(None) => return End::Host,
                    Err(error) => return End::Broken(error),
                }
            }
        };
        let (end, patience) = tokio::select! {
            end = reading => (end, self.drain),
            () = &mut leaving => (End::Asked, Duration::ZERO),
            gone = &mut writer => {
                tracing::info!(reason = ?gone.ok().and_then(Result::err), "the host does not read any more");
                (End::Host, Duration::ZERO)
            }
        };
        if !patience.is_zero() {
            tokio::select! {
                ended = self.relay.drain(patience) => {
                    if !ended {
                        tracing::warn!("calls that still run are cancelled");
                    }
                }
                () = leaving => {}
                _ = &mut writer, if !writer.is_finished() => {}
            }
        }
        self.relay.close().await;
        // Where nobody listens, the writer has ended already.
        let _ = finish.send(());
        if !writer.is_finished() && timeout(LAST_WORDS, writer).await.is_err() {
            tracing::warn!("the host did not read the last messages");
        }
        end
    }

    async fn on_line(&self, line: Line, errors: &mpsc::Sender<Bytes>) {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong => {
                let message = format!("a message is longer than {} bytes (--max-message)", self.max_line);
                return say(errors, ErrorObject::new(code::INVALID_REQUEST, message), None).await;
            }
        };
        match parse(text) {
            Ok(Body::Single(message)) => self.on_message(message, errors).await,
            Ok(Body::Batch(messages)) => {
                for message in messages {
                    match message {
                        Ok(message) => self.on_message(message, errors).await,
                        Err(error) => say(errors, error.to_error(), error.id.as_ref()).await,
                    }
                }
            }
            Err(error) => say(errors, error.to_error(), error.id.as_ref()).await,
        }
    }

    async fn on_message(&self, message: Message, errors: &mpsc::Sender<Bytes>) {
        if let Message::Request(request) = &message {
            if &*request.method != "ping" {
                self.asking.somebody_is_there();
            }
            let refused = if self.relay.waiting() >= self.max_waiting {
                let message =
                    format!("{} requests wait for their answers already (--max-waiting)", self.max_waiting);
                Err(ErrorObject::internal("busy", message))
            } else {
                self.filter.on_request(request)
            };
            if let Err(error) = refused {
                return say(errors, error, Some(&request.id)).await;
            }
        }
        if let Message::Notification(note) = &message
            && &*note.method == "notifications/cancelled"
        {
            let id = note.params.as_ref().and_then(|params| params.member("requestId"));
            if let Some(id) = id.and_then(|id| RequestId::from_json(id.as_str()).ok()) {
                self.filter.forget(&id);
            }
        }
        self.relay.forward(message).await;
    }
}

async fn say(errors: &mpsc::Sender<Bytes>, error: ErrorObject, id: Option<&RequestId>) {
    // A host that is gone needs no error.
    drop(errors.send(error.to_response(id)).await);
}
