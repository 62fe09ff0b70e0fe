//! Lines of a pipe, each within a bound.

use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// A line, or what came in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Without its end; never blank.
    Text(Bytes),
    /// It was longer than the bound, and was passed over.
    TooLong,
}

/// Reads lines. What was read of a line stays when a read is given up, so that [`next`](Self::next) is cancel safe.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: BytesMut,
    max: usize,
    /// The line is longer than the bound: the rest of it is passed over.
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, max: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            line: BytesMut::new(),
            max,
            skipping: false,
            ended: false,
        }
    }

    /// The next line; none at the end. A last line without an end counts.
    ///
    /// # Errors
    /// Those of the pipe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        while !self.ended {
            let chunk = self.reader.fill_buf().await?;
            self.ended = chunk.is_empty();
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let taken = end.map_or(chunk.len(), |end| end + 1);
            if self.skipping || self.line.len() + part.len() > self.max {
                self.skipping = true;
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            self.reader.consume(taken);
            if end.is_none() && !self.ended {
                continue;
            }
            if std::mem::take(&mut self.skipping) {
                return Ok(Some(Line::TooLong));
            }
            let line = self.line.split().freeze();
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Line::Text(line)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt as _;

    async fn all(text: &[u8], max: usize) -> Vec<Line> {
        let mut lines = Lines::new(text, max);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    fn text(text: &'static str) -> Line {
        Line::Text(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_and_their_ends() {
        assert_eq!(all(b"a\n\n \r\nb\r\nc", 9).await, [text("a"), text("b\r"), text("c")]);
        assert_eq!(all(b"", 9).await, []);
        assert_eq!(
            all(b"12345\n123456\n1\n1234567", 5).await,
            [text("12345"), Line::TooLong, text("1"), Line::TooLong]
        );
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_loses_nothing() {
        let (mut host, pipe) = tokio::io::duplex(64);
        let mut lines = Lines::new(pipe, 64);
        host.write_all(b"first ").await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), lines.next()).await.is_err());
        host.write_all(b"half\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), Some(text("first half")));
    }
}
