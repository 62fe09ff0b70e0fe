//! A program's standard input and output: one message a line (SEMANTICS 8).

use super::{Connector, Pipe, PipeReceiver, PipeSender, TransportError};
use crate::StdioCommand;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// Lines of the child's log longer than this are cut.
const MAX_LOG_LINE: u64 = 8 * 1024;

pub(crate) struct ChildConnector {
    pub(crate) command: StdioCommand,
    /// The longest line that is read.
    pub(crate) max_line: usize,
}

impl Connector for ChildConnector {
    fn connect(&self) -> BoxFuture<'_, Result<Pipe, TransportError>> {
        Box::pin(async move {
            let StdioCommand { program, args, env, directory } = &self.command;
            let mut command = Command::new(program);
            command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
            if let Some(directory) = directory {
                command.current_dir(directory);
            }
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().map_err(|error| {
                TransportError::before(format!("{} cannot be started: {error}", program.to_string_lossy()))
            })?;
            let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(TransportError::before("the program has no standard input or output"));
            };
            if let Some(stderr) = child.stderr.take() {
                tokio::spawn(log(program.to_string_lossy().into_owned(), stderr));
            }
            Ok(Pipe {
                sender: Box::new(ToChild { stdin: Some(stdin), child }),
                receiver: Box::new(FromChild {
                    stdout: BufReader::new(stdout),
                    line: BytesMut::new(),
                    max_line: self.max_line,
                }),
            })
        })
    }

    fn describe(&self) -> String {
        self.command.program.to_string_lossy().into_owned()
    }
}

async fn log(program: String, stderr: ChildStderr) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stderr).take(MAX_LOG_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                tracing::info!(target: "bowline_client::child", program, "{}", String::from_utf8_lossy(&line).trim_end());
            }
        }
    }
}

struct ToChild {
    stdin: Option<ChildStdin>,
    child: Child,
}

impl PipeSender for ToChild {
    fn send(&mut self, message: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let Some(stdin) = &mut self.stdin else {
                return Err(TransportError::before("the pipe is closed"));
            };
            let mut line = BytesMut::with_capacity(message.len() + 1);
            line.extend_from_slice(&message);
            // A line end inside a message would make two of it; between tokens of JSON a blank is the same.
            line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
            line.extend_from_slice(b"\n");
            let written = async {
                stdin.write_all(&line).await?;
                stdin.flush().await
            };
            written
                .await
                .map_err(|error| TransportError::after(format!("the program does not read: {error}")))
        })
    }

    fn close(&mut self, within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stdin = None;
            if tokio::time::timeout(within, self.child.wait()).await.is_err() {
                drop(self.child.kill().await);
            }
        })
    }
}

struct FromChild {
    stdout: BufReader<ChildStdout>,
    line: BytesMut,
    max_line: usize,
}

impl PipeReceiver for FromChild {
    fn receive(&mut self) -> BoxFuture<'_, Option<Result<Bytes, TransportError>>> {
        Box::pin(async move {
            loop {
                let chunk = match self.stdout.fill_buf().await {
                    Ok([]) => return None,
                    Ok(chunk) => chunk,
                    Err(error) => return Some(Err(TransportError::after(error.to_string()))),
                };
                let end = chunk.iter().position(|byte| *byte == b'\n');
                let taken = end.map_or(chunk.len(), |end| end + 1);
                self.line.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
                self.stdout.consume(taken);
                if self.line.len() > self.max_line {
                    let message = format!("a line of the program is longer than {} bytes", self.max_line);
                    return Some(Err(TransportError::after(message)));
                }
                if end.is_some() {
                    let line = self.line.split().freeze();
                    if !line.trim_ascii().is_empty() {
                        return Some(Ok(line));
                    }
                }
            }
        })
    }
}
