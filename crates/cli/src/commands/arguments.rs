//! Arguments as they are typed: `key=value`, `key:=json`, a JSON object, or one on stdin.

use super::failure::Failure;
use crate::untold::untold;
use serde_json::{Map, Value};
use std::io::{IsTerminal as _, Read as _};

untold!(Arguments);

/// Bytes of stdin that are read.
const MAX_STDIN: u64 = 64 * 1024 * 1024;

/// Where the arguments come from.
#[derive(Default, PartialEq)]
pub(super) struct Arguments {
    base: Option<String>,
    stdin: bool,
    pairs: Vec<(String, Value)>,
}

impl Arguments {
    /// Reads the words that follow a name, and `--json`.
    pub(super) fn new(words: Vec<String>, json: Option<&str>) -> Result<Self, Failure> {
        let mut arguments = Self::default();
        match json {
            Some("-") => arguments.stdin = true,
            Some(text) => arguments.base = Some(text.to_owned()),
            None => {}
        }
        for word in words {
            if word == "-" {
                arguments.stdin = true;
                continue;
            }
            let Some((key, value)) = word.split_once('=') else {
                return Err(Failure::usage(format!(
                    "{word:?} is no argument: write key=value, key:=json, or - for stdin"
                )));
            };
            let (key, value) = match key.strip_suffix(':') {
                Some(key) => {
                    let value = serde_json::from_str(value).map_err(|error| {
                        Failure::usage(format!("{key}:= needs JSON ({error}); for a text write {key}=..."))
                    })?;
                    (key, value)
                }
                None => (key, Value::from(value)),
            };
            if key.is_empty() {
                return Err(Failure::usage(format!("{word:?} has no name before its sign")));
            }
            arguments.pairs.push((key.to_owned(), value));
        }
        Ok(arguments)
    }

    /// The object; reads stdin where that is wanted. `whole` members go first, single ones over them.
    pub(super) fn read(self) -> Result<Map<String, Value>, Failure> {
        let stdin = if self.stdin { Some(from_stdin()?) } else { None };
        self.object(stdin.as_deref())
    }

    fn object(self, stdin: Option<&str>) -> Result<Map<String, Value>, Failure> {
        let mut all = Map::new();
        for (what, text) in [("--json", self.base.as_deref()), ("stdin", stdin)] {
            if let Some(text) = text {
                let object: Map<String, Value> = serde_json::from_str(text)
                    .map_err(|error| Failure::usage(format!("{what}: a JSON object is needed: {error}")))?;
                all.extend(object);
            }
        }
        all.extend(self.pairs);
        Ok(all)
    }
}

fn from_stdin() -> Result<String, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::usage(
            "- reads a JSON object from stdin, which is a terminal: send it through a pipe",
        ));
    }
    let mut text = String::new();
    let read = stdin.lock().take(MAX_STDIN + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 > MAX_STDIN => Err(Failure::usage("stdin: more than 64 MiB")),
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::here(format!("stdin cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(words: &[&str], json: Option<&str>, stdin: Option<&str>) -> Result<Value, Failure> {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Arguments::new(words, json)?.object(stdin).map(Value::from)
    }

    #[test]
    fn texts_and_json() {
        let found = read(
            &["a=1", "b:=1", "c=x=y", "d:=[true,null]", "e=", "f:g=1", "a=2", "u=http://x/?y:=1"],
            None,
            None,
        );
        let wanted = json!({ "a": "2", "b": 1, "c": "x=y", "d": [true, null], "e": "", "f:g": "1", "u": "http://x/?y:=1" });
        assert_eq!(found.unwrap(), wanted);
        assert_eq!(read(&[], None, None).unwrap(), json!({}));
    }

    #[test]
    fn single_ones_go_over_whole_ones() {
        let found = read(&["-", "a=typed"], Some(r#"{"a":1,"b":2,"c":3}"#), Some(r#"{"b":"stdin"}"#));
        assert_eq!(found.unwrap(), json!({ "a": "typed", "b": "stdin", "c": 3 }));
        assert!(Arguments::new(vec!["-".into()], None).unwrap().stdin);
        assert!(Arguments::new(vec![], Some("-")).unwrap().stdin);
    }

    #[test]
    fn what_is_wrong_is_usage() {
        for (words, json, stdin) in [
            (&["text"][..], None, None),
            (&["=1"], None, None),
            (&[":=1"], None, None),
            (&["a:=x"], None, None),
            (&[], Some("[1]"), None),
            (&["-"], None, Some("")),
        ] {
            assert_eq!(read(words, json, stdin).unwrap_err().exit_code(), 2, "{words:?} {json:?}");
        }
    }
}
