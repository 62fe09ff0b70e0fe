//! Serving on standard input and output (SEMANTICS 8).

use crate::pipe::{Pipe, PipeOptions};
use bowline_proto::jsonrpc::{ErrorObject, code};
use bowline_server::{Options, RawHandler};
use bytes::{Bytes, BytesMut};
use std::{fmt, io, sync::Arc, time::Duration};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

/// A server on standard input and output: one JSON text a line. Nothing else may be written to standard output; logs belong on standard
/// error.
#[must_use = "nothing is served without `serve` or `serve_on`"]
pub struct Stdio {
    handler: Arc<dyn RawHandler>,
    options: Options,
    grace: Duration,
}

impl Stdio {
    pub(crate) fn new(handler: Arc<dyn RawHandler>) -> Self {
        Self { handler, options: Options::default(), grace: Duration::from_secs(10) }
    }

    /// Bounds and habits. [`Options::body_limit`] is the longest line that is read.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// How long calls that run when the input ends have for their answer. Default 10 s; then they are cancelled.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Serves until standard input ends, which is how a client ends its child. A signal ends the process as it always does.
    ///
    /// # Errors
    /// When input or output fails.
    pub async fn serve(self) -> io::Result<()> {
        // No signal is caught: reading standard input cannot be broken off, and would keep the process from ending.
        self.serve_on(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves on another pair of pipes until the input ends.
    ///
    /// # Errors
    /// When input or output fails.
    pub async fn serve_on<R, W>(self, input: R, output: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let line_limit = usize::try_from(self.options.body_limit).unwrap_or(usize::MAX);
        let (mut sender, mut receiver) =
            Pipe::open(self.handler, PipeOptions::default().options(self.options)).split();
        // Lines that are none are answered beside the pipe.
        let (refused, mut refusals) = tokio::sync::mpsc::channel::<Bytes>(1);
        let reading = async move {
            let mut input = BufReader::new(input);
            let read = loop {
                match read_line(&mut input, line_limit).await {
                    Ok(Line::Message(line)) => sender.send(line).await,
                    Ok(Line::TooLong) => {
                        let text = format!("Invalid request: a line of more than {line_limit} bytes");
                        let error = ErrorObject::new(code::INVALID_REQUEST, text);
                        if refused.send(error.to_response(None)).await.is_err() {
                            break Ok(());
                        }
                    }
                    Ok(Line::End) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            sender.finish(self.grace).await;
            read
        };
        let writing = async move {
            let mut output = output;
            loop {
                let message = tokio::select! {
                    message = receiver.next() => message,
                    Some(refusal) = refusals.recv() => Some(refusal),
                };
                let Some(message) = message else { return Ok(()) };
                let mut line = BytesMut::with_capacity(message.len() + 1);
                line.extend_from_slice(&message);
                line.extend_from_slice(b"\n");
                output.write_all(&line).await?;
                output.flush().await?;
            }
        };
        let ((), ()) = tokio::try_join!(reading, writing)?;
        Ok(())
    }
}

enum Line {
    Message(Bytes),
    TooLong,
    End,
}

/// The next line that is not empty, without its end. A line that is too long is read over.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), limit: usize) -> io::Result<Line> {
    let mut line = BytesMut::new();
    let mut too_long = false;
    loop {
        let read = input.fill_buf().await?;
        if read.is_empty() {
            let whole = line.trim_ascii();
            return Ok(if too_long {
                Line::TooLong
            } else if whole.is_empty() {
                Line::End
            } else {
                Line::Message(Bytes::copy_from_slice(whole))
            });
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        if line.len() + part.len() > limit {
            too_long = true;
            line.clear();
        } else if !too_long {
            line.extend_from_slice(part);
        }
        let used = end.map_or(read.len(), |end| end + 1);
        input.consume(used);
        if end.is_none() {
            continue;
        }
        if too_long {
            return Ok(Line::TooLong);
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Line::Message(line.freeze()));
        }
        line.clear();
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio").field("grace", &self.grace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &str, limit: usize) -> Vec<String> {
        // A buffer of three bytes: lines are put together from pieces.
        let mut input = BufReader::with_capacity(3, text.as_bytes());
        let mut lines = Vec::new();
        loop {
            match read_line(&mut input, limit).await.unwrap() {
                Line::Message(line) => lines.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::TooLong => lines.push("too long".into()),
                Line::End => return lines,
            }
        }
    }

    #[tokio::test]
    async fn lines_are_bounded_and_empty_ones_left_out() {
        assert_eq!(lines("abc\n\r\n  \ndefgh\nlast", 5).await, ["abc", "defgh", "last"]);
        assert_eq!(lines("abcdefgh\nok\n", 5).await, ["too long", "ok"]);
        assert_eq!(lines("abcdefgh", 5).await, ["too long"]);
        assert!(lines("", 5).await.is_empty());
    }
}
