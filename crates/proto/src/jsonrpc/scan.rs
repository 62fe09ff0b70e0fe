//! The parts of JSON text that a parser has passed before: found again without checking it again.
//!
//! A parser looks at every byte of a string, because any of them may be wrong. In text that is known to be JSON a string ends at the next
//! quote that no backslash stands before, which is found many bytes at a time. Text that is no JSON after all gives `None`, never a panic.

use memchr::memchr2;

/// The members of an object, in their order: names as they stand between their quotes, values as they came.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    text: &'a str,
    at: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Behind the brace that opens the object.
    Opened,
    /// Behind a member.
    Between,
    /// Behind the brace that closes the object.
    Closed,
    /// What stands there is no JSON.
    Broken,
}

impl<'a> Members<'a> {
    /// Those of the object `text`; `None` where it is no object. White space may stand before it.
    #[must_use]
    pub fn of(text: &'a str) -> Option<Self> {
        let at = skip_space(text.as_bytes(), 0);
        (text.as_bytes().get(at) == Some(&b'{')).then_some(Self { text, at: at + 1, state: State::Opened })
    }

    /// Whether the object was read to its end, rather than to something that is no JSON.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.state == State::Closed
    }

    /// The next member, where there is one. Broken text is the error.
    fn member(&mut self) -> Result<Option<(&'a str, &'a str)>, ()> {
        let bytes = self.text.as_bytes();
        let mut at = skip_space(bytes, self.at);
        match (bytes.get(at), self.state) {
            (Some(b'}'), State::Opened | State::Between) => {
                self.state = State::Closed;
                return Ok(None);
            }
            (Some(b','), State::Between) => at = skip_space(bytes, at + 1),
            (Some(_), State::Opened) => {}
            _ => return Err(()),
        }
        let behind_name = string_end(bytes, at).ok_or(())?;
        let name = self.text.get(at + 1..behind_name - 1).ok_or(())?;
        at = skip_space(bytes, behind_name);
        if bytes.get(at) != Some(&b':') {
            return Err(());
        }
        at = skip_space(bytes, at + 1);
        self.at = value_end(bytes, at).ok_or(())?;
        self.state = State::Between;
        self.text.get(at..self.at).map(|value| Some((name, value))).ok_or(())
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.state, State::Closed | State::Broken) {
            return None;
        }
        self.member().unwrap_or_else(|()| {
            self.state = State::Broken;
            None
        })
    }
}

/// The text of a JSON string between its quotes, where it stands there as it is meant: it has no escapes.
#[must_use]
pub fn plain_string(value: &str) -> Option<&str> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    memchr::memchr(b'\\', inner.as_bytes()).is_none().then_some(inner)
}

/// How many bytes are looked at together: few at first, as most texts have a special byte soon.
const BLOCK: usize = 32;
/// What follows is looked at in such blocks.
const LONG_BLOCK: usize = 128;

/// Where the next byte is that cannot stand in a JSON string as it is: a quote, a backslash, a control character.
#[must_use]
pub fn next_special(text: &[u8]) -> Option<usize> {
    let mut at = clean_blocks::<BLOCK>(&text[..text.len().min(LONG_BLOCK)]);
    if at == LONG_BLOCK {
        at += clean_blocks::<LONG_BLOCK>(&text[at..]);
        at += clean_blocks::<BLOCK>(&text[at..]);
    }
    text[at..].iter().position(|byte| is_special(*byte)).map(|found| at + found)
}

/// The same from `at` on, for strings of which most are short: those are over before a vectorised search has begun.
pub(super) fn find_special(text: &[u8], mut at: usize) -> Option<usize> {
    let near = text.len().min(at + NEAR);
    while at < near {
        if SPECIAL[usize::from(text[at])] {
            return Some(at);
        }
        at += 1;
    }
    next_special(text.get(at..)?).map(|found| at + found)
}

/// How many bytes of a string are looked at one by one.
const NEAR: usize = 16;

static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        special[byte] = is_special(byte as u8);
        byte += 1;
    }
    special
};

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The length of the blocks at the start of `text` that have no special byte.
fn clean_blocks<const SIZE: usize>(text: &[u8]) -> usize {
    // Without a branch on each byte, and as bytes throughout, so that the compiler makes vector instructions of it.
    let has_special =
        |block: &[u8; SIZE]| block.iter().fold(0, |any, byte| any | u8::from(is_special(*byte))) != 0;
    let (blocks, _) = text.as_chunks::<SIZE>();
    blocks.iter().take_while(|block| !has_special(block)).count() * SIZE
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Behind the closing quote of the string that begins at `at`.
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    let near = bytes.len().min(at + NEAR);
    while at < near {
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Where the value that begins at `at` has ended.
fn value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => return string_end(bytes, at),
        b'{' | b'[' => {}
        b',' | b':' | b']' | b'}' => return None,
        // A number or a word: it ends where something else begins, or with the text.
        _ => {
            let rest = &bytes[at..];
            let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
            return Some(at + rest.iter().position(ends).unwrap_or(rest.len()));
        }
    }
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value, value::RawValue};

    fn members(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut members = Members::of(text)?;
        let all = members.by_ref().collect();
        members.is_whole().then_some(all)
    }

    #[test]
    fn members_are_found_as_they_stand() {
        assert_eq!(members("{}").unwrap(), []);
        assert_eq!(members(" { } ").unwrap(), []);
        assert_eq!(
            members(r#"{"a" : 1.50 , "b\"\\":[{"}":"]"},"\\"], "" :{ },"n":null}"#).unwrap(),
            [("a", "1.50"), (r#"b\"\\"#, r#"[{"}":"]"},"\\"]"#), ("", "{ }"), ("n", "null")]
        );
        let long = "ä".repeat(100);
        let text = format!(r#"{{"{long}":"{long}\"{long}"}}"#);
        assert_eq!(members(&text).unwrap(), [(&*long, &*format!(r#""{long}\"{long}""#))]);
    }

    #[test]
    fn what_is_no_json_is_none_and_no_panic() {
        let whole = r#"{"a":[1,{"b":"x\\"}],"c":"ä\u00e4","d":-1e3}"#;
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert_eq!(members(&whole[..end]), None, "{end}");
        }
        for text in ["", "[]", "1", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1 "b":2}"#, "{a:1}", "{,}", r#"{"a":]}"#]
        {
            assert_eq!(members(text), None, "{text}");
        }
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        assert_eq!(plain_string(r#""a ä""#), Some("a ä"));
        assert_eq!(plain_string(r#""""#), Some(""));
        for value in [r#""a\n""#, "1", "\"", "null"] {
            assert_eq!(plain_string(value), None, "{value}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[ \"\\\\a-d{}\\[\\]:,ä\n]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[\"\\\\a-d{}ä ]{0,24}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_members_are_those_that_a_parser_finds(value in json(), pretty: bool) {
            let map: Map<String, Value> = [("x".to_owned(), value.clone()), ("y".to_owned(), value)].into_iter().collect();
            let text = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) }.unwrap();
            let parsed: std::collections::BTreeMap<&str, &RawValue> = serde_json::from_str(&text).unwrap();
            let found: std::collections::BTreeMap<&str, &str> = Members::of(&text).unwrap().collect();
            prop_assert_eq!(found.len(), parsed.len());
            for (name, value) in parsed {
                prop_assert_eq!(found[name], value.get());
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[{}\\[\\]\":,\\\\a1 ä]{0,60}") {
            if let Some(members) = Members::of(&text) {
                let _ = members.count();
            }
        }
    }
}
