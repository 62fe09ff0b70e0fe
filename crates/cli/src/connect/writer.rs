//! What the host reads: messages, one a line, and nothing else.

use super::filter::Filter;
use bowline_client::Message;
use bytes::{Bytes, BytesMut};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};

/// Writes until the pipe breaks, or until there is nothing left after `finish`.
///
/// # Errors
/// The host does not read any more.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    mut out: W,
    mut messages: mpsc::Receiver<Message>,
    mut lines: mpsc::Receiver<Bytes>,
    filter: Arc<Filter>,
    mut finish: oneshot::Receiver<()>,
) -> io::Result<()> {
    let mut finishing = false;
    loop {
        let text = tokio::select! {
            biased;
            Some(message) = messages.recv() => filter.on_message(message).to_bytes(),
            Some(line) = lines.recv() => line,
            _ = &mut finish, if !finishing => {
                // What is queued was said before, and is written.
                finishing = true;
                messages.close();
                lines.close();
                continue;
            }
            else => return out.shutdown().await,
        };
        let mut line = BytesMut::with_capacity(text.len() + 1);
        line.extend_from_slice(&text);
        // A server may put line ends between the tokens of its JSON; inside of strings they are escaped.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.extend_from_slice(b"\n");
        out.write_all(&line).await?;
        out.flush().await?;
    }
}
