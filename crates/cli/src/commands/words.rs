//! The words of a command line: first the server's address, unless a command stands in its place.

use super::failure::Failure;
use crate::untold::untold;
use std::{collections::VecDeque, ffi::OsString};

untold!(Words);

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Url(String),
    Command(Vec<OsString>),
}

/// The words that follow.
#[derive(Default)]
pub(super) struct Words(VecDeque<String>);

impl Words {
    pub(super) fn split(words: &[String], command: &[OsString]) -> Result<(Place, Self), Failure> {
        let mut rest: VecDeque<String> = words.iter().cloned().collect();
        let place = if command.is_empty() {
            let url = rest.pop_front().filter(|url| !url.is_empty()).ok_or_else(|| {
                Failure::usage("no server: give its address, or the command of a stdio server after `--`")
            })?;
            if !url.contains("://") {
                return Err(Failure::usage(format!(
                    "{url:?} is not an address that starts with http:// or https://; the command of a stdio server comes last, after `--`"
                )));
            }
            Place::Url(url)
        } else {
            Place::Command(command.to_vec())
        };
        Ok((place, Self(rest)))
    }

    /// The next word, which is `what`.
    pub(super) fn next(&mut self, what: &str) -> Result<String, Failure> {
        self.0
            .pop_front()
            .filter(|word| !word.is_empty())
            .ok_or_else(|| Failure::usage(format!("{what} is missing")))
    }

    /// Those that are left.
    pub(super) fn rest(self) -> Vec<String> {
        self.0.into()
    }

    /// Fails if any is left.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        match self.0.pop_front() {
            None => Ok(()),
            Some(word) => Err(Failure::usage(format!("{word:?} is one word too many"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(words: &[&str], command: &[&str]) -> Result<(Place, Words), Failure> {
        let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
        let command: Vec<OsString> = command.iter().map(|&word| word.into()).collect();
        Words::split(&words, &command)
    }

    #[test]
    fn an_address_or_a_command() {
        let (place, mut words) = split(&["http://a/", "echo", "x=1"], &[]).unwrap();
        assert_eq!(place, Place::Url("http://a/".into()));
        assert_eq!((words.next("the tool").unwrap().as_str(), words.rest()), ("echo", vec!["x=1".into()]));
        let (place, words) = split(&["echo"], &["cat", "-u"]).unwrap();
        assert_eq!(place, Place::Command(vec!["cat".into(), "-u".into()]));
        assert!(words.end().unwrap_err().to_string().contains("\"echo\""));
        for words in [&[][..], &["echo"], &[""]] {
            assert_eq!(split(words, &[]).unwrap_err().exit_code(), 2, "{words:?}");
        }
        assert!(
            split(&["http://a/"], &[])
                .unwrap()
                .1
                .next("the tool")
                .unwrap_err()
                .to_string()
                .contains("the tool")
        );
    }
}
