//! One HTTP/1.1 connection, with as little between the socket and the caller as reading an answer takes.

use crate::{LoadError, Target};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The largest head of an answer, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// How much is read at a time.
const READ: usize = 16 * 1024;

/// The head of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Whether the body is a stream of events.
    pub(crate) events: bool,
    pub(crate) session: Option<String>,
}

/// Where in a body the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Behind its end.
    End,
    /// So many bytes before it.
    Length(u64),
    /// Before the size of a chunk.
    Size,
    /// So many bytes before the end of a chunk.
    Chunk(u64),
    /// Between a chunk and its line end.
    ChunkEnd,
    /// Behind the last chunk, before the empty line.
    Trailer,
    /// It ends with the connection.
    Close,
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buf: BytesMut,
    at: At,
    /// Whether another request may follow.
    lives: bool,
}

impl Connection {
    pub(crate) async fn open(target: &Target) -> Result<Self, LoadError> {
        let failed = |error| LoadError::Io { doing: "connecting", error };
        let stream = TcpStream::connect(target.address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self { stream, buf: BytesMut::new(), at: At::End, lives: true })
    }

    /// Whether another request may be sent: the last answer was read to its end, and the server keeps the connection.
    fn is_ready(&self) -> bool {
        self.lives && self.at == At::End
    }

    /// Connects again, where another request may not be sent.
    pub(crate) async fn make_ready(&mut self, target: &Target) -> Result<(), LoadError> {
        if !self.is_ready() {
            *self = Self::open(target).await?;
        }
        Ok(())
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<(), LoadError> {
        self.stream.write_all(request).await.map_err(|error| LoadError::Io { doing: "sending", error })
    }

    /// Reads more; `false` at the end of the connection.
    async fn fill(&mut self) -> Result<bool, LoadError> {
        self.buf.reserve(READ);
        let read = self.stream.read_buf(&mut self.buf).await;
        let read = read.map_err(|error| LoadError::Io { doing: "reading the answer", error })?;
        Ok(read > 0)
    }

    /// The head of the next answer.
    pub(crate) async fn head(&mut self) -> Result<Head, LoadError> {
        loop {
            if let Some((head, len)) = self.parse_head()? {
                self.buf.advance(len);
                // Another one follows a head that only says that it will.
                if head.status >= 200 {
                    return Ok(head);
                }
                continue;
            }
            if self.buf.len() > MAX_HEAD {
                return Err(LoadError::Malformed("its head is larger than 64 KiB"));
            }
            if !self.fill().await? {
                self.lives = false;
                return Err(LoadError::Malformed("the connection ended before its head"));
            }
        }
    }

    fn parse_head(&mut self) -> Result<Option<(Head, usize)>, LoadError> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let len = match response.parse(&self.buf) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(LoadError::Malformed("its head is not HTTP/1.1")),
        };
        let status = response.code.unwrap_or(0);
        let mut head = Head { status, events: false, session: None };
        let mut at = At::Close;
        let mut lives = response.version == Some(1);
        for header in response.headers.iter() {
            let value = header.value.trim_ascii();
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let length = length.ok_or(LoadError::Malformed("its Content-Length is no number"))?;
                if at != At::Size {
                    at = if length == 0 { At::End } else { At::Length(length) };
                }
            } else if is("transfer-encoding") {
                if value.eq_ignore_ascii_case(b"chunked") {
                    at = At::Size;
                }
            } else if is("content-type") {
                head.events = value.len() >= 17 && value[..17].eq_ignore_ascii_case(b"text/event-stream");
            } else if is("mcp-session-id") {
                head.session = std::str::from_utf8(value).ok().map(str::to_owned);
            } else if is("connection") && value.eq_ignore_ascii_case(b"close") {
                lives = false;
            }
        }
        if status < 200 || status == 204 || status == 304 {
            at = At::End;
        }
        if status >= 200 {
            self.lives = lives && at != At::Close;
        }
        self.at = at;
        Ok(Some((head, len)))
    }

    /// The next piece of the body, as it came; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, LoadError> {
        loop {
            if let Some(piece) = self.buffered()? {
                return Ok(Some(piece));
            }
            if self.at == At::End {
                return Ok(None);
            }
            if !self.fill().await? {
                self.lives = false;
                if self.at == At::Close {
                    self.at = At::End;
                    return Ok(None);
                }
                return Err(LoadError::Malformed("the connection ended in the middle of its body"));
            }
        }
    }

    /// What of the body is in the buffer.
    fn buffered(&mut self) -> Result<Option<Bytes>, LoadError> {
        loop {
            match self.at {
                At::End => return Ok(None),
                At::Close if self.buf.is_empty() => return Ok(None),
                At::Close => return Ok(Some(self.buf.split().freeze())),
                At::Length(left) | At::Chunk(left) => {
                    if self.buf.is_empty() {
                        return Ok(None);
                    }
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(self.buf.len());
                    let left = left - len as u64;
                    self.at = match (self.at, left) {
                        (At::Length(_), 0) => At::End,
                        (At::Length(_), left) => At::Length(left),
                        (_, 0) => At::ChunkEnd,
                        (_, left) => At::Chunk(left),
                    };
                    return Ok(Some(self.buf.split_to(len).freeze()));
                }
                At::Size | At::ChunkEnd | At::Trailer => {
                    let Some(end) = memchr::memchr(b'\n', &self.buf) else {
                        return if self.buf.len() > MAX_HEAD {
                            Err(LoadError::Malformed("a line between its chunks has no end"))
                        } else {
                            Ok(None)
                        };
                    };
                    let line = self.buf.split_to(end + 1);
                    self.at = match self.at {
                        At::ChunkEnd => At::Size,
                        At::Trailer if line.trim_ascii().is_empty() => At::End,
                        At::Trailer => At::Trailer,
                        _ => match chunk_size(&line) {
                            Some(0) => At::Trailer,
                            Some(size) => At::Chunk(size),
                            None => return Err(LoadError::Malformed("the size of a chunk is no number")),
                        },
                    };
                }
            }
        }
    }

    /// Reads the rest of the body into `out`, at most `limit` bytes.
    pub(crate) async fn rest(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), LoadError> {
        out.clear();
        while let Some(piece) = self.piece().await? {
            if out.len() + piece.len() > limit {
                return Err(LoadError::Malformed("its body is larger than is read here"));
            }
            out.extend_from_slice(&piece);
        }
        Ok(())
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii();
    u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()
}
