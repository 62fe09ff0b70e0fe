//! Whether text is JSON: a quick yes for nearly everything that comes, so that only the rest goes through `serde_json`, which says what is
//! wrong with it.
//!
//! The grammar is the whole of RFC 8259, as `serde_json` takes it for a value that it skips; the property tests hold the two together.

use super::{MAX_DEPTH, scan::find_special};
use std::ops::Range;

/// Whether `text` is one JSON value that nests at most [`MAX_DEPTH`] deep, with white space around it at most. If it is an object, `see` is
/// shown its members on the way, names as they stand between their quotes; what it saw counts for nothing where the text is no JSON.
pub(super) fn is_json<'a>(text: &'a str, see: impl FnMut(&'a str, &'a str)) -> bool {
    let bytes = text.as_bytes();
    Check { whole: text, text: bytes, at: 0, objects: 0, depth: 0, name: 0..0, value: 0 }.whole(see).is_some()
}

/// What has been looked at, and which arrays and objects are open there. Every step is `None` where the text is no JSON.
struct Check<'a> {
    whole: &'a str,
    text: &'a [u8],
    at: usize,
    /// A bit for each level that is open, the innermost lowest: whether it is an object.
    objects: u128,
    depth: usize,
    /// The name of the last member of the outermost object, and where its value begins.
    name: Range<usize>,
    value: usize,
}

impl<'a> Check<'a> {
    fn whole(mut self, mut see: impl FnMut(&'a str, &'a str)) -> Option<()> {
        loop {
            self.value()?;
            // Behind a value: what is open goes on or ends there.
            loop {
                let in_object = self.objects & 1 == 1;
                if in_object && self.depth == 1 {
                    see(self.whole.get(self.name.clone())?, self.whole.get(self.value..self.at)?);
                }
                self.space();
                if self.depth == 0 {
                    return (self.at == self.text.len()).then_some(());
                }
                match (self.next()?, in_object) {
                    (b',', true) => {
                        self.space();
                        self.name()?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => self.close(),
                    _ => return None,
                }
            }
        }
    }

    /// A whole value, or the beginning of one up to the first value inside of it.
    fn value(&mut self) -> Option<()> {
        loop {
            self.space();
            match self.next()? {
                b'"' => return self.string(),
                b'{' => {
                    self.open(true)?;
                    self.space();
                    if self.text.get(self.at) == Some(&b'}') {
                        self.at += 1;
                        self.close();
                        return Some(());
                    }
                    self.name()?;
                }
                b'[' => {
                    self.open(false)?;
                    self.space();
                    if self.text.get(self.at) == Some(&b']') {
                        self.at += 1;
                        self.close();
                        return Some(());
                    }
                }
                b't' => return self.word(b"rue"),
                b'f' => return self.word(b"alse"),
                b'n' => return self.word(b"ull"),
                b'-' => {
                    let first = self.next()?;
                    return self.number(first);
                }
                first => return self.number(first),
            }
        }
    }

    fn open(&mut self, object: bool) -> Option<()> {
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        (self.depth <= MAX_DEPTH).then_some(())
    }

    const fn close(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// The name of a member and its colon.
    fn name(&mut self) -> Option<()> {
        if self.next()? != b'"' {
            return None;
        }
        let start = self.at;
        self.string()?;
        let end = self.at - 1;
        self.space();
        if self.next()? != b':' {
            return None;
        }
        if self.depth == 1 {
            self.space();
            (self.name, self.value) = (start..end, self.at);
        }
        Some(())
    }

    /// The rest of a string, its closing quote included.
    fn string(&mut self) -> Option<()> {
        loop {
            self.at = find_special(self.text, self.at)?;
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        let digits = self.text.get(self.at..self.at + 4)?;
                        if !digits.iter().all(u8::is_ascii_hexdigit) {
                            return None;
                        }
                        self.at += 4;
                    }
                    _ => return None,
                },
                // A control character.
                _ => return None,
            }
        }
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        let there = self.text.get(self.at..)?.starts_with(rest);
        self.at += rest.len();
        there.then_some(())
    }

    /// The rest of a number, behind the first digit.
    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Some(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Option<()> {
        let before = self.at;
        self.digits();
        (self.at > before).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Members;
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn same(text: &str) {
        let theirs = serde_json::from_str::<&RawValue>(text).is_ok();
        let mut seen = Vec::new();
        assert_eq!(is_json(text, |name, value| seen.push((name, value))), theirs, "{text:?}");
        if theirs {
            let members = Members::of(text).map(Iterator::collect::<Vec<_>>);
            assert_eq!(seen, members.unwrap_or_default(), "{text:?}");
        }
    }

    #[test]
    fn corners_are_taken_as_serde_json_takes_them() {
        for text in [
            "",
            " ",
            "null",
            " null ",
            "nul",
            "nulls",
            "tru",
            "true",
            "false",
            "fals",
            "0",
            "-0",
            "00",
            "01",
            "-",
            "-a",
            "1.",
            ".5",
            "1.5",
            "1e5",
            "1E+5",
            "1e-",
            "1e",
            "1.e1",
            "1e999",
            "123456789012345678901234567890",
            "+1",
            "NaN",
            "\"\"",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\\\\"",
            "\"\\u00e4\"",
            "\"\\ud800\"",
            "\"\\u00g0\"",
            "\"\\u00",
            "\"\\x\"",
            "\"\n\"",
            "\"\u{7f}\u{80}\"",
            "[]",
            "[ ]",
            "[,]",
            "[1,]",
            "[1 2]",
            "[1,2]",
            "[1",
            "]",
            "{}",
            "{ }",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{\"a\" : [ {} , [] ] }",
            "{1:2}",
            "[}",
            "{]",
            "{\"a\":1]",
            "[1}",
            "{} {}",
            "1 1",
            "\u{feff}1",
            "[1]x",
            "\"a\"b",
            "//",
            "{\"a\":1}\0",
        ] {
            same(text);
            same(&format!(" [{text}]"));
            same(&format!("{{\"x\":{text}\r\n}}\t"));
        }
        // Special bytes at every place of the blocks that are looked at together.
        for at in 0..200 {
            for special in ["\"", "\\", "\\n", "\n", "\u{1f}", "\u{20}"] {
                same(&format!("\"{}{special}{}\"", "x".repeat(at), "y".repeat(200 - at)));
            }
        }
    }

    #[test]
    fn the_deepest_nesting_is_the_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_json(&nested(MAX_DEPTH), |_, _| {}));
        assert!(!is_json(&nested(MAX_DEPTH + 1), |_, _| {}));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert!(is_json(&objects(MAX_DEPTH), |_, _| {}));
        assert!(!is_json(&objects(MAX_DEPTH + 1), |_, _| {}));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_as_serde_json_takes_it(text in "[{}\\[\\]\":,\\\\utrefalsn01.eE+\\- \n\u{1}ä]{0,24}") {
            same(&text);
        }

        #[test]
        fn what_was_json_is_so_until_it_is_damaged(
            members in prop::collection::vec(("[a\\\\u\"ä\n]{0,40}", any::<f64>(), any::<bool>()), 0..6),
            at: prop::sample::Index,
            with in "[{}\\[\\]\":,\\\\x0e\n]{0,1}",
        ) {
            let value = serde_json::json!({ "members": members, "none": null });
            let mut text = value.to_string();
            same(&text);
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = ends[at.index(ends.len())];
            let wide = text[at..].chars().next().map_or(0, char::len_utf8);
            text.replace_range(at..at + wide, &with);
            same(&text);
        }
    }
}
