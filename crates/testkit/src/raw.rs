//! HTTP/1.1 on a bare socket: what is sent is what the test says, and what comes is shown as it came.

use crate::{Block, PATIENCE, sse};
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// `HTTP/1.1`, say.
    pub version: String,
    /// The status.
    pub status: u16,
    /// Names and values in the order and the spelling that they were sent in.
    pub headers: Vec<(String, String)>,
    /// The bytes, the empty line included.
    pub text: String,
    /// When its last byte was read.
    pub at: Instant,
}

impl Head {
    /// The value of a header; panics when it was sent more than once.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(sent, _)| sent.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} was sent more than once:\n{}", self.text);
        value
    }

    fn parse(text: String, at: Instant) -> Self {
        let mut lines = text.trim_end().split("\r\n");
        let mut first = lines.next().unwrap_or_default().splitn(3, ' ');
        let version = first.next().unwrap_or_default().to_owned();
        let status = first.next().and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {text:?}"));
        let headers = lines
            .map(|line| line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}")))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Self { version, status, headers, text, at }
    }
}

/// A part of a body as it was framed: one chunk of a chunked body, else one read.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Its bytes.
    pub data: Vec<u8>,
    /// When its last byte was read.
    pub at: Instant,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// There is no body, or it has ended.
    Done,
    Chunked,
    Length(u64),
    UntilClose,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    unread: Vec<u8>,
    framing: Framing,
    events: Vec<u8>,
    searched: usize,
    /// When bytes came, and how many, one entry a read.
    pub reads: Vec<(Instant, usize)>,
}

impl Raw {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Self {
        match Self::try_connect(address).await {
            Ok(raw) => raw,
            Err(error) => panic!("cannot connect to {address}: {error}"),
        }
    }

    /// Connects, or says why not.
    ///
    /// # Errors
    /// What the system says.
    pub async fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            unread: Vec::new(),
            framing: Framing::Done,
            events: Vec::new(),
            searched: 0,
            reads: Vec::new(),
        })
    }

    /// Connects with a receive buffer of about so many bytes, so that a server that writes more has to wait for us.
    pub async fn connect_narrow(address: SocketAddr, bytes: u32) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        let stream = socket.connect(address).await.unwrap();
        Self {
            stream,
            unread: Vec::new(),
            framing: Framing::Done,
            events: Vec::new(),
            searched: 0,
            reads: Vec::new(),
        }
    }

    /// Sends bytes. A peer that has closed already is no failure: what it said is what counts.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ =
            timeout(PATIENCE, self.stream.write_all(bytes.as_ref())).await.expect("the peer reads in time");
    }

    /// Sends bytes one at a time, each in a segment of its own.
    pub async fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.send([*byte]).await;
            tokio::task::yield_now().await;
        }
    }

    /// Says that nothing more will be sent; still reads.
    pub async fn finish_sending(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Closes with a reset instead of an orderly end.
    pub fn abort(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads more; the number of bytes, 0 at the end.
    async fn more(&mut self) -> io::Result<usize> {
        let mut buffer = vec![0; 256 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await.map_err(|_| {
            let text = String::from_utf8_lossy(&self.unread);
            io::Error::new(io::ErrorKind::TimedOut, format!("nothing came; unread: {text:?}"))
        })??;
        self.unread.extend_from_slice(&buffer[..read]);
        self.reads.push((Instant::now(), read));
        Ok(read)
    }

    /// The head of the next answer, a `100 Continue` included; `None` when the peer closed instead.
    ///
    /// # Errors
    /// A reset, a time-out, or an end in the middle.
    pub async fn try_head(&mut self, method: &str) -> io::Result<Option<Head>> {
        assert_eq!(self.framing, Framing::Done, "the last body was not read to its end");
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.more().await? == 0 {
                if self.unread.is_empty() {
                    return Ok(None);
                }
                let text = String::from_utf8_lossy(&self.unread).into_owned();
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        };
        let rest = self.unread.split_off(end);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.unread, rest)).into_owned();
        let head = Head::parse(text, Instant::now());
        let length = head.header("content-length").map(|length| length.parse().expect("a number"));
        let chunked = head.header("transfer-encoding").is_some();
        assert!(length.is_none() || !chunked, "two framings:\n{}", head.text);
        self.framing = match head.status {
            100..=199 | 204 | 304 => {
                assert!(!chunked, "a body where there may be none:\n{}", head.text);
                Framing::Done
            }
            _ if method == "HEAD" => Framing::Done,
            _ if chunked => Framing::Chunked,
            _ => length.map_or(Framing::UntilClose, Framing::Length),
        };
        if self.framing == Framing::Length(0) {
            self.framing = Framing::Done;
        }
        Ok(Some(head))
    }

    /// The head of the next answer; panics when there is none.
    pub async fn head(&mut self) -> Head {
        match self.try_head("POST").await {
            Ok(Some(head)) => head,
            Ok(None) => panic!("the connection was closed without an answer"),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// The next part of the body; `None` at its end.
    ///
    /// # Errors
    /// A reset, a time-out, or an end before the end that was announced.
    pub async fn try_chunk(&mut self) -> io::Result<Option<Chunk>> {
        let data = match self.framing {
            Framing::Done => return Ok(None),
            Framing::Chunked => {
                let line = self.until(b"\r\n").await?;
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                let size =
                    std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
                let size = size.ok_or_else(|| io::Error::other(format!("no chunk size: {line:?}")))?;
                while self.unread.len() < size + 2 {
                    self.need().await?;
                }
                let rest = self.unread.split_off(size + 2);
                let mut data = std::mem::replace(&mut self.unread, rest);
                if &data[size..] != b"\r\n" {
                    return Err(io::Error::other("a chunk does not end where it said"));
                }
                data.truncate(size);
                if size == 0 {
                    self.framing = Framing::Done;
                    return Ok(None);
                }
                data
            }
            Framing::Length(left) => {
                if self.unread.is_empty() {
                    self.need().await?;
                }
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(self.unread.len());
                let rest = self.unread.split_off(take);
                let left = left - take as u64;
                self.framing = if left == 0 { Framing::Done } else { Framing::Length(left) };
                std::mem::replace(&mut self.unread, rest)
            }
            Framing::UntilClose => {
                if self.unread.is_empty() && self.more().await? == 0 {
                    self.framing = Framing::Done;
                    return Ok(None);
                }
                std::mem::take(&mut self.unread)
            }
        };
        Ok(Some(Chunk { data, at: Instant::now() }))
    }

    async fn need(&mut self) -> io::Result<()> {
        match self.more().await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended in a body")),
            _ => Ok(()),
        }
    }

    async fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|window| window == end) {
                let rest = self.unread.split_off(at + end.len());
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.truncate(at);
                return Ok(line);
            }
            self.need().await?;
        }
    }

    /// The rest of the body. Panics when it does not end as announced.
    pub async fn body(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.try_chunk().await {
                Ok(Some(chunk)) => all.extend_from_slice(&chunk.data),
                Ok(None) => return all,
                Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&all)),
            }
        }
    }

    /// The next block of an event stream; `None` when the body has ended as announced.
    ///
    /// # Errors
    /// As [`Self::try_chunk`], and bytes after the last block.
    pub async fn try_block(&mut self) -> io::Result<Option<Block>> {
        loop {
            if let Some(text) = sse::cut(&mut self.events, &mut self.searched) {
                return Ok(Some(Block::parse(text, Instant::now())));
            }
            match self.try_chunk().await? {
                Some(chunk) => self.events.extend_from_slice(&chunk.data),
                None if self.events.is_empty() => return Ok(None),
                None => {
                    let left = String::from_utf8_lossy(&self.events).into_owned();
                    return Err(io::Error::other(format!("half a block at the end: {left:?}")));
                }
            }
        }
    }

    /// Whether the peer closes without saying anything more, a reset included.
    pub async fn is_closed(&mut self) -> bool {
        match self.more().await {
            Ok(read) => read == 0,
            Err(error) => error.kind() != io::ErrorKind::TimedOut,
        }
    }

    /// Whether the last body was read to its end, so that the connection is ready for another request.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.framing == Framing::Done
    }
}
