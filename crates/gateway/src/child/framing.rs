//! Lines out of chunks: newline-delimited framing with a bound, one scan per byte and no copy but the read itself.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// Default longest line, bytes.
pub(crate) const MAX_LINE: usize = 32 << 20;

/// Room made before each read. The default pipe of Linux holds this much.
const READ_CHUNK: usize = 64 << 10;
const BOM: &[u8] = b"\xEF\xBB\xBF";
/// What [`trim`] may take off a line: while a line is incomplete it may be this much longer than the bound.
const TRIMMED: usize = BOM.len() + 1;

/// Collects chunks and gives back complete lines without line end and byte order mark. Blank lines are skipped; a line
/// longer than the bound is dropped whole and counted.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    buf: BytesMut,
    /// Bytes at the start of `buf` known to hold no newline.
    scanned: usize,
    max: usize,
    discarding: bool,
    too_long: u64,
}

impl LineBuffer {
    pub(crate) fn new(max: usize) -> Self {
        Self { buf: BytesMut::new(), scanned: 0, max, discarding: false, too_long: 0 }
    }

    /// Where the next chunk is read to; never without room.
    pub(crate) fn space(&mut self) -> &mut BytesMut {
        if self.buf.capacity() - self.buf.len() < READ_CHUNK / 4 {
            // Doubling keeps the copies of a growing line linear in its length.
            self.buf.reserve(self.buf.len().max(READ_CHUNK));
        }
        &mut self.buf
    }

    /// Lines dropped so far because they were longer than the bound.
    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// The next complete line.
    pub(crate) fn next_line(&mut self) -> Option<Bytes> {
        loop {
            let Some(at) = memchr(b'\n', &self.buf[self.scanned..]) else {
                if !self.discarding && self.buf.len() > self.max.saturating_add(TRIMMED) {
                    self.too_long += 1;
                    self.discarding = true;
                    self.buf = BytesMut::new(); // give the memory back at once
                } else if self.discarding {
                    self.buf.clear();
                }
                self.scanned = self.buf.len();
                return None;
            };
            let end = self.scanned + at;
            let mut line = self.buf.split_to(end + 1);
            self.scanned = 0;
            if std::mem::take(&mut self.discarding) {
                continue;
            }
            line.truncate(end);
            if let Some(line) = self.admit(line) {
                return Some(line);
            }
        }
    }

    /// At the end of the stream: what came after the last newline. A server that forgot its last line end is
    /// understood; a line cut in half is for the parser to refuse.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.buf);
        self.scanned = 0;
        if std::mem::take(&mut self.discarding) { None } else { self.admit(rest) }
    }

    fn admit(&mut self, line: BytesMut) -> Option<Bytes> {
        let line = trim(line.freeze());
        if line.len() > self.max {
            self.too_long += 1;
            return None;
        }
        (!line.iter().all(u8::is_ascii_whitespace)).then_some(line)
    }
}

fn trim(mut line: Bytes) -> Bytes {
    if line.starts_with(BOM) {
        line.advance(BOM.len());
    }
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(max: usize, chunks: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let mut lines = LineBuffer::new(max);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.space().extend_from_slice(chunk);
            while let Some(line) = lines.next_line() {
                out.push(line.to_vec());
            }
        }
        out.extend(lines.finish().map(|l| l.to_vec()));
        (out, lines.too_long())
    }

    #[test]
    fn ends_marks_and_blanks_are_taken_off() {
        let (lines, dropped) = feed(
            100,
            &[b"\xEF\xBB\xBF{\"a\":1}\r\n\n  \r\n", b"\xFF\xFEnot utf8\n{}", b"\n\xEF\xBB\xBF\r\nlast"],
        );
        assert_eq!(lines, [&b"{\"a\":1}"[..], b"\xFF\xFEnot utf8", b"{}", b"last"]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn the_bound_is_exact_and_counts_no_trimmed_byte() {
        assert_eq!(
            feed(4, &[b"abcd\n", b"\xEF\xBB\xBFabcd\r\n", b"abcde\n", b"x\n"]).0,
            [&b"abcd"[..], b"abcd", b"x"]
        );
        assert_eq!(feed(4, &[b"abcde\n"]).1, 1);
        assert_eq!(feed(4, &[b"abcde"]), (vec![], 1));
    }

    #[test]
    fn a_line_over_the_bound_is_dropped_whole_and_once() {
        let junk = vec![b'x'; 1000];
        let (lines, dropped) = feed(10, &[b"a\n", &junk, &junk, b"tail\nb\n", &junk]);
        assert_eq!(lines, [b"a", b"b"]);
        assert_eq!(dropped, 2);
    }

    proptest! {
        /// However the stream is cut, the lines are those of the whole stream.
        #[test]
        fn cuts_do_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xEF), Just(0xBB), Just(0xBF), Just(b' '), any::<u8>()], 0..200),
            cut in 1usize..20,
            max in 0usize..30,
        ) {
            let chunks: Vec<&[u8]> = bytes.chunks(cut).collect();
            let expected: Vec<Vec<u8>> = bytes
                .split(|b| *b == b'\n')
                .map(|l| trim(Bytes::copy_from_slice(l)).to_vec())
                .filter(|l| l.len() <= max && !l.iter().all(u8::is_ascii_whitespace))
                .collect();
            prop_assert_eq!(feed(max, &chunks).0, expected);
        }
    }
}
