//! Arguments as they are typed: `key=value`, `key:=json`, a JSON object, or one on stdin.

use super::failure::Failure;
use crate::untold::untold;
use bowline_client::Raw;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Read as _},
};

untold!(Arguments);

/// Bytes of stdin that are read.
const MAX_STDIN: u64 = 64 * 1024 * 1024;

/// Arguments by name, each as the JSON text that was typed: numbers keep their digits.
pub(super) type Named = BTreeMap<String, Raw>;

/// Where the arguments come from.
#[derive(Default, PartialEq)]
pub(super) struct Arguments {
    base: Option<String>,
    stdin: bool,
    pairs: Vec<(String, Raw)>,
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
                    let value = Raw::parse(value).map_err(|error| {
                        Failure::usage(format!("{key}:= needs JSON ({error}); for a text write {key}=..."))
                    })?;
                    (key, value)
                }
                None => (key, Raw::from_trusted(Value::from(value).to_string().into())),
            };
            if key.is_empty() {
                return Err(Failure::usage(format!("{word:?} has no name before its sign")));
            }
            arguments.pairs.push((key.to_owned(), value));
        }
        Ok(arguments)
    }

    /// The object; reads stdin where that is wanted. `whole` members go first, single ones over them.
    pub(super) fn read(self) -> Result<Named, Failure> {
        let stdin = if self.stdin { Some(from_stdin()?) } else { None };
        self.object(stdin.as_deref())
    }

    fn object(self, stdin: Option<&str>) -> Result<Named, Failure> {
        let mut all = Named::new();
        for (what, text) in [("--json", self.base.as_deref()), ("stdin", stdin)] {
            if let Some(text) = text {
                let object: Named = serde_json::from_str(text)
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
        Ok(serde_json::to_value(Arguments::new(words, json)?.object(stdin)?).unwrap())
    }

    #[test]
    fn numbers_keep_their_digits() {
        let words = ["a:=18446744073709551616", "b:=0.10000000000000000555", "c:= 1e400"].map(str::to_owned);
        let found = Arguments::new(words.to_vec(), Some(r#"{"d":1.0}"#)).unwrap().object(None).unwrap();
        let wanted = r#"{"a":18446744073709551616,"b":0.10000000000000000555,"c":1e400,"d":1.0}"#;
        assert_eq!(serde_json::to_string(&found).unwrap(), wanted);
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
