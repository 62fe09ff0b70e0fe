//! Lines out of chunks: newline-delimited framing with a bound, one scan per byte and no copy but the read itself.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// Default longest line, bytes.
pub(crate) const MAX_LINE: usize = 32 << 20;

/// What is kept of the start and of the end of a line that is dropped, bytes each: whose answer it was stands there.
const KEPT: usize = 512;
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
    /// The line that is being dropped.
    discarding: Option<Discarded>,
    too_long: u64,
    /// What the receiver has not been told of dropped lines.
    dropped: Option<Dropped>,
}

/// What is left of a line that was longer than the bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its first bytes, a few hundred.
    pub head: Bytes,
    /// Its last bytes, a few hundred; `None` while it goes on, in which case this comes again at its end.
    pub tail: Option<Bytes>,
}

#[derive(Debug)]
struct Discarded {
    head: Bytes,
    tail: BytesMut,
}

impl Discarded {
    /// Takes note of more of the line.
    fn add(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        let over = self.tail.len().saturating_sub(KEPT);
        self.tail.advance(over);
    }

    fn whole(self) -> Dropped {
        Dropped { head: self.head, tail: Some(self.tail.freeze()) }
    }
}

impl LineBuffer {
    pub(crate) fn new(max: usize) -> Self {
        Self { buf: BytesMut::new(), scanned: 0, max, discarding: None, too_long: 0, dropped: None }
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

    /// What there is to tell of a dropped line. Ask after each call of [`LineBuffer::next_line`] and [`LineBuffer::finish`].
    pub(crate) fn dropped(&mut self) -> Option<Dropped> {
        self.dropped.take()
    }

    /// The next complete line; `None` where more has to be read, or where there is something to tell of a dropped one.
    pub(crate) fn next_line(&mut self) -> Option<Bytes> {
        loop {
            let Some(at) = memchr(b'\n', &self.buf[self.scanned..]) else {
                if let Some(discarded) = &mut self.discarding {
                    discarded.add(&self.buf);
                    self.buf.clear();
                } else if self.buf.len() > self.max.saturating_add(TRIMMED) {
                    self.too_long += 1;
                    let line = std::mem::take(&mut self.buf); // gives the memory back at once
                    let mut discarded = Discarded { head: head(&line), tail: BytesMut::new() };
                    discarded.add(&line);
                    self.dropped = Some(Dropped { head: discarded.head.clone(), tail: None });
                    self.discarding = Some(discarded);
                }
                self.scanned = self.buf.len();
                return None;
            };
            let end = self.scanned + at;
            let mut line = self.buf.split_to(end + 1);
            self.scanned = 0;
            line.truncate(end);
            if let Some(mut discarded) = self.discarding.take() {
                discarded.add(&line);
                self.dropped = Some(discarded.whole());
                return None;
            }
            if let Some(line) = self.admit(line) {
                return Some(line);
            }
            if self.dropped.is_some() {
                return None;
            }
        }
    }

    /// At the end of the stream: what came after the last newline. A server that forgot its last line end is
    /// understood; a line cut in half is for the parser to refuse.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.buf);
        self.scanned = 0;
        if let Some(mut discarded) = self.discarding.take() {
            discarded.add(&rest);
            self.dropped = Some(discarded.whole());
            return None;
        }
        self.admit(rest)
    }

    fn admit(&mut self, line: BytesMut) -> Option<Bytes> {
        let line = trim(line.freeze());
        if line.len() > self.max {
            self.too_long += 1;
            let tail = Bytes::copy_from_slice(&line[line.len().saturating_sub(KEPT)..]);
            self.dropped = Some(Dropped { head: head(&line), tail: Some(tail) });
            return None;
        }
        (!line.iter().all(u8::is_ascii_whitespace)).then_some(line)
    }
}

/// The first bytes of a line, in memory of their own.
fn head(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&line[..line.len().min(KEPT)])
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
        let (lines, dropped, too_long) = feed_all(max, chunks);
        assert_eq!(dropped.iter().filter(|dropped| dropped.tail.is_some()).count() as u64, too_long);
        (lines, too_long)
    }

    fn feed_all(max: usize, chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<Dropped>, u64) {
        let mut lines = LineBuffer::new(max);
        let (mut out, mut all_dropped) = (Vec::new(), Vec::new());
        for chunk in chunks {
            lines.space().extend_from_slice(chunk);
            loop {
                let line = lines.next_line();
                let dropped = lines.dropped();
                if line.is_none() && dropped.is_none() {
                    break;
                }
                out.extend(line.map(|line| line.to_vec()));
                all_dropped.extend(dropped);
            }
        }
        out.extend(lines.finish().map(|l| l.to_vec()));
        all_dropped.extend(lines.dropped());
        (out, all_dropped, lines.too_long())
    }

    #[test]
    fn the_ends_of_a_dropped_line_are_kept() {
        let line = [&b"start"[..], &[b'x'; 4000], b"end"].concat();
        let ended = [&line[..], b"\nnext\n"].concat();
        let kept = Dropped {
            head: Bytes::copy_from_slice(&line[..KEPT]),
            tail: Some(Bytes::copy_from_slice(&line[line.len() - KEPT..])),
        };
        let goes_on = Dropped { tail: None, ..kept.clone() };
        assert_eq!(feed_all(1000, &[&ended]).1, std::slice::from_ref(&kept));
        let chunks: Vec<&[u8]> = ended.chunks(700).collect();
        assert_eq!(feed_all(1000, &chunks), (vec![b"next".to_vec()], vec![goes_on.clone(), kept.clone()], 1));
        let unended: Vec<&[u8]> = line.chunks(70).collect();
        assert_eq!(feed_all(1000, &unended).1, [goes_on, kept]);
        let short = Dropped { head: "abcde".into(), tail: Some("abcde".into()) };
        assert_eq!(feed_all(4, &[b"abcde\nab\n"]), (vec![b"ab".to_vec()], vec![short], 1));
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
