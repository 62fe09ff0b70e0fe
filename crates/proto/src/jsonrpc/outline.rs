//! What a message says of itself at its outermost level, read off text that need not be JSON.
//!
//! A process whose answer cannot be read has still answered, and whoever waits for it must be told (SEMANTICS 6). So this reads on
//! where a parser gives up: control characters in strings, `NaN`, bytes that are no text, an end in the middle, and the two ends of
//! a message whose middle was thrown away.

use super::{RequestId, scan::string_end};

/// The members at the outermost level of a message that may be broken. Costs one pass over the text, and keeps none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The id: an integer or a string. Of two that differ, none.
    pub id: Option<RequestId>,
    /// Whether there is a `method`: it is no response.
    pub method: bool,
    /// Whether there is a `result` or an `error`.
    pub reply: bool,
    /// Whether there is a `jsonrpc`.
    pub jsonrpc: bool,
    /// How many bytes the object takes, where its end was found.
    pub end: Option<usize>,
    two_ids: bool,
}

impl Outline {
    /// Reads an object from its first byte on, as far as it goes.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut found = Self::default();
        let (mut at, mut depth) = (0, 0_usize);
        while let Some(&byte) = text.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        found.end = Some(at + 1);
                        break;
                    }
                }
                b'"' => {
                    let Some(end) = string_end(text, at) else { break };
                    let close = end - 1;
                    if depth == 1
                        && let Some(value) = after_colon(text, close + 1)
                    {
                        found.note(&text[at + 1..close], &text[value..]);
                    }
                    at = close;
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// Reads a message of which the first and the last bytes are left. What the end says is added to what the start says.
    #[must_use]
    pub fn of_ends(head: &[u8], tail: &[u8]) -> Self {
        let mut found = starts(head)
            .take(MAX_STARTS)
            .map(|at| Self::of(&head[at..]))
            .find(|outline| outline.jsonrpc || outline.reply || outline.method || outline.id.is_some())
            .unwrap_or_default();
        found.end = None;
        found.read_back(tail);
        found
    }

    /// Whether it is a response, as far as can be seen.
    #[must_use]
    pub fn is_response(&self) -> bool {
        !self.method && (self.reply || self.jsonrpc)
    }

    /// Reads the outermost members backwards from the closing bracket, as far as they are there.
    fn read_back(&mut self, text: &[u8]) {
        let text = text.trim_ascii_end();
        let (mut at, mut depth) = (text.len(), 0_usize);
        // Where the value of the member begins whose key comes next.
        let mut value = None;
        while at > 0 {
            at -= 1;
            match text[at] {
                b'}' | b']' => depth += 1,
                b'{' | b'[' if depth <= 1 => return,
                b'{' | b'[' => depth -= 1,
                b'"' => {
                    let Some(open) = string_start(text, at) else { return };
                    if depth == 1
                        && let Some(value) = value.take()
                    {
                        self.note(&text[open + 1..at], &text[value..]);
                    }
                    at = open;
                }
                b':' if depth == 1 => value = Some(at + 1),
                byte if byte.is_ascii_whitespace() => {}
                _ if depth == 0 => return,
                _ => value = None,
            }
        }
    }

    fn note(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"method" => self.method = true,
            b"result" | b"error" => self.reply = true,
            b"jsonrpc" => self.jsonrpc = true,
            b"id" => {
                let id = scalar(value).and_then(|text| RequestId::of_response(text).ok());
                if self.two_ids || (self.id.is_some() && self.id != id) {
                    (self.id, self.two_ids) = (None, true);
                } else {
                    self.id = id;
                }
            }
            _ => {}
        }
    }
}

/// How many places a message may be looked for at that turn out to be none.
pub(super) const MAX_STARTS: usize = 16;

/// Where an object may begin: at a bracket with a key after it.
pub(super) fn starts(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memchr::memchr_iter(b'{', text).filter(|at| text[at + 1..].trim_ascii_start().starts_with(b"\""))
}

/// The text of a string or a number, where what follows shows that it is whole.
fn scalar(value: &[u8]) -> Option<&str> {
    let value = value.trim_ascii_start();
    let end = match value.first()? {
        b'"' => string_end(value, 0)?,
        _ => value.iter().position(|byte| matches!(byte, b',' | b'}') || byte.is_ascii_whitespace())?,
    };
    std::str::from_utf8(&value[..end]).ok()
}

/// The opening quote of the string whose closing quote is at `at`.
fn string_start(text: &[u8], at: usize) -> Option<usize> {
    let mut to = at;
    loop {
        to = memchr::memrchr(b'"', &text[..to])?;
        let backslashes = text[..to].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(to);
        }
    }
}

/// Where the value begins, should what ended before `at` be a key.
fn after_colon(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let skipped = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    (rest[skipped] == b':').then_some(at + skipped + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(id: u64) -> Outline {
        Outline { id: Some(id.into()), reply: true, jsonrpc: true, ..Outline::default() }
    }

    #[test]
    fn the_outermost_members_are_read_whatever_stands_inside() {
        let ended = |text: &str, outline: Outline| Outline { end: Some(text.len()), ..outline };
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN,"id":3}}"#,
            r#"{"result":{"id":3,"x":[{"id":4}],"t":"\"id\":5,{[\\"},"id" : 7.0 ,"jsonrpc":"2.0"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"t\":\"a\tb\x01\"}}",
        ] {
            assert_eq!(Outline::of(text.as_bytes()), ended(text, response(7)), "{text}");
        }
        let bytes = b"{\"id\":7,\"jsonrpc\":\"2.0\",\"result\":\"\xed\xa0\xbd\"} and more";
        assert_eq!(Outline::of(bytes), Outline { end: Some(bytes.len() - 9), ..response(7) });
        let request = br#"{"jsonrpc":"2.0","id":7,"method":"x","#;
        assert!(Outline::of(request).method && !Outline::of(request).is_response());
    }

    #[test]
    fn what_is_cut_off_is_read_to_the_cut_and_no_id_is_cut() {
        let id = |text: &str| Outline::of(text.as_bytes()).id;
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{"cont"#), Some(7.into()));
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7"#), None);
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":"7"#), None);
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":"7","#), Some("7".into()));
        assert_eq!(id(r#"{"id":7,"result":{},"id":8}"#), None);
        assert_eq!(id(r#"{"id":7,"result":{},"id":8,"id":8}"#), None);
    }

    #[test]
    fn two_ends_are_enough() {
        let of = |head: &str, tail: &str| Outline::of_ends(head.as_bytes(), tail.as_bytes());
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":7,"result":{"text":"xx"#, r#"xx{}"}}"#), response(7));
        assert_eq!(of(r#"{"jsonrpc":"2.0","result":{"te"#, r#"\"id\":3"},"x":"\\\""},"id":7}"#), response(7));
        assert_eq!(of(r#"{"result":[{"id":4"#, r#"{"id":3}],"id":7,"jsonrpc":"2.0"} "#), response(7));
        assert_eq!(of(r#"Loading {x} ... {"jsonrpc":"2.0","id":7,"result":"#, "xx"), response(7));
        assert!(
            !of(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"#, r#"x"}}"#).is_response()
        );
        assert!(!of(r#"{"jsonrpc":"2.0","id":1,"params":{"#, r#"x"},"method":"x"}"#).is_response());
        assert!(!of("xxxxxxxx", "xxxxxxxx").is_response());
        assert!(!of(r#"{"level":"debug","dump":""#, r#"xx","id":9}"#).is_response());
        let unknown = of(r#"{"jsonrpc":"2.0","result":{"text":""#, r#"xx"}}"#);
        assert!(unknown.is_response() && unknown.id.is_none());
    }

    proptest::proptest! {
        #[test]
        fn never_panics(head: Vec<u8>, tail: Vec<u8>) {
            let _ = (Outline::of(&head), Outline::of_ends(&head, &tail));
        }

        /// Wherever a response is cut, its ends say the id that the whole says, or nothing.
        #[test]
        fn the_ends_say_what_the_whole_says(text in "[a-z\"{}\\[\\]:,\\\\]{0,40}", id in 0_u64..1000, first: bool, cut in 0_usize..200, from in 0_usize..200) {
            let result = serde_json::json!({ "text": text, "id": 5000 });
            let whole = if first {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
            } else {
                format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#)
            };
            let (cut, from) = (cut.min(whole.len()), from.min(whole.len()));
            let found = Outline::of_ends(&whole.as_bytes()[..cut], &whole.as_bytes()[from..]);
            proptest::prop_assert!(found.id.is_none() || found.id == Some(id.into()), "{found:?} of {whole}");
        }
    }
}
