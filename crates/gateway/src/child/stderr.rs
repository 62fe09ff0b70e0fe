//! The stderr of a process: passed on line by line, and its last words kept for error reports.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::spec::StderrPolicy;

/// Longest piece passed on as one line.
const LONGEST: usize = 8 << 10;
/// Bytes kept for [`Exit::stderr_tail`](super::Exit).
const TAIL: usize = 2 << 10;

/// The last bytes of a process's stderr.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    fn push(&self, line: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend_from_slice(line);
        tail.push(b'\n');
        let extra = tail.len().saturating_sub(TAIL);
        tail.drain(..extra);
    }

    /// As text, whole lines where there is more than one.
    pub(crate) fn text(&self) -> String {
        let tail = self.0.lock();
        let text = String::from_utf8_lossy(&tail).trim_end().to_owned();
        match text.split_once('\n') {
            Some((_, rest)) if tail.len() >= TAIL => rest.to_owned(),
            _ => text,
        }
    }
}

/// Reads to the end of stderr.
pub(crate) async fn forward(
    mut stderr: impl AsyncRead + Unpin,
    name: Arc<str>,
    policy: StderrPolicy,
    tail: Tail,
) {
    let mut buf = Vec::with_capacity(LONGEST);
    loop {
        let read = stderr.read_buf(&mut buf).await.unwrap_or(0);
        let mut rest = buf.as_slice();
        while let Some(at) = memchr::memchr(b'\n', rest) {
            emit(&rest[..at], &name, &policy, &tail);
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() && (read == 0 || rest.len() >= LONGEST) {
            emit(rest, &name, &policy, &tail);
            rest = &[];
        }
        if read == 0 {
            return;
        }
        let done = buf.len() - rest.len();
        buf.drain(..done);
        // Who writes faster than it is read is slowed down, so that nothing is lost, as long as somebody reads.
        while policy != StderrPolicy::Discard && crate::stderr::is_crowded() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn emit(line: &[u8], name: &str, policy: &StderrPolicy, tail: &Tail) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    tail.push(line);
    match policy {
        StderrPolicy::Discard => {}
        StderrPolicy::Inherit { prefix } => {
            let whole = [prefix.as_bytes(), line, b"\n"].concat();
            let _ = crate::stderr::writer().write_all(&whole); // one write: lines of several children do not mix
        }
        StderrPolicy::Log => {
            let text = String::from_utf8_lossy(line);
            let escaped: String = text.chars().flat_map(Shown::of).collect();
            tracing::info!(target: "bowline::child", child = %name, "{escaped}");
        }
    }
}

/// A character of a log line: as it is, or escaped when a terminal would act on it.
enum Shown {
    Plain(std::iter::Once<char>),
    Escaped(std::char::EscapeDefault),
}

impl Shown {
    fn of(c: char) -> Self {
        if c.is_control() && c != '\t' {
            Self::Escaped(c.escape_default())
        } else {
            Self::Plain(std::iter::once(c))
        }
    }
}

impl Iterator for Shown {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            Self::Plain(c) => c.next(),
            Self::Escaped(c) => c.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_tail_keeps_whole_last_lines() {
        let tail = Tail::default();
        let mut text = String::new();
        for n in 0..1000 {
            text.push_str(&format!("line {n}\r\n"));
        }
        text.push_str("last words");
        forward(text.as_bytes(), "x".into(), StderrPolicy::Discard, tail.clone()).await;
        let kept = tail.text();
        assert!(
            kept.len() <= TAIL && kept.starts_with("line ") && kept.ends_with("line 999\nlast words"),
            "{kept}"
        );
    }

    #[tokio::test]
    async fn an_endless_line_does_not_grow() {
        let tail = Tail::default();
        forward(&vec![b'x'; 1 << 20][..], "x".into(), StderrPolicy::Discard, tail.clone()).await;
        assert!(tail.text().len() <= TAIL);
    }

    #[test]
    fn terminal_codes_do_not_reach_the_log() {
        let shown: String = "a\x1b[31m\tb".chars().flat_map(Shown::of).collect();
        assert_eq!(shown, "a\\u{1b}[31m\tb");
    }
}
