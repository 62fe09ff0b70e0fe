//! One action with its keys and arguments, and what it answered.

use crate::actions::{Action, Form};
use bytes::Bytes;
use redis::{Cmd, RedisWrite, ToRedisArgs, Value};
use std::io::Write as _;

/// The largest number that Lua and Redis keep exactly; larger ones are meant as "without end".
pub(crate) const MOST: u64 = (1 << 53) - 1;

/// An action to be run. It can be written as a command as often as it has to be sent.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) action: Action,
    keys: Vec<String>,
    args: Vec<Arg>,
}

/// One argument.
#[derive(Debug)]
pub(crate) enum Arg {
    Number(u64),
    Text(String),
    Bytes(Bytes),
    /// An event as it is kept: its id, a blank, its payload.
    Event {
        epoch: u64,
        offset: u64,
        payload: Bytes,
    },
}

impl ToRedisArgs for Arg {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Number(number) => out.write_arg_fmt((*number).min(MOST)),
            Self::Text(text) => out.write_arg(text.as_bytes()),
            Self::Bytes(bytes) => out.write_arg(bytes),
            Self::Event { epoch, offset, payload } => {
                let mut writer = out.writer_for_next_arg();
                let written = write!(writer, "{epoch}-{offset} ").and_then(|()| writer.write_all(payload));
                debug_assert!(written.is_ok(), "a buffer in memory takes everything");
            }
        }
    }
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Bytes> for Arg {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<bool> for Arg {
    fn from(yes: bool) -> Self {
        Self::Number(yes.into())
    }
}

impl Call {
    pub(crate) const fn new(action: Action) -> Self {
        Self { action, keys: Vec::new(), args: Vec::new() }
    }

    pub(crate) fn key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    pub(crate) fn keys(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.keys.extend(keys);
        self
    }

    pub(crate) fn arg(mut self, arg: impl Into<Arg>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = Bytes>) -> Self {
        self.args.extend(args.into_iter().map(Arg::Bytes));
        self
    }

    /// The command. `sourced` sends the script itself.
    pub(crate) fn command(&self, form: Form, sourced: bool) -> Cmd {
        let mut command = if sourced { self.action.with_source() } else { self.action.command(form) };
        command.arg(self.keys.len()).arg(&self.keys).arg(&self.args[..]);
        command
    }
}

/// What an action answered: a word, and what goes with it.
#[derive(Debug)]
pub(crate) struct Reply(std::vec::IntoIter<Value>);

/// An answer that no version of ours gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Strange;

impl Reply {
    pub(crate) fn new(value: Value) -> Result<Self, Strange> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(Strange),
        }
    }

    /// The next part as text.
    pub(crate) fn text(&mut self) -> Result<String, Strange> {
        String::from_utf8(self.next().ok_or(Strange)?.into()).map_err(|_| Strange)
    }

    /// The next part as a number.
    pub(crate) fn number(&mut self) -> Result<u64, Strange> {
        match self.0.next() {
            Some(Value::Int(number)) => u64::try_from(number).map_err(|_| Strange),
            Some(Value::BulkString(text)) => {
                std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).ok_or(Strange)
            }
            _ => Err(Strange),
        }
    }
}

/// The parts that are left.
impl Iterator for Reply {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        match self.0.next()? {
            Value::BulkString(bytes) => Some(bytes.into()),
            Value::SimpleString(text) => Some(text.into()),
            Value::Int(number) => Some(number.to_string().into()),
            Value::Okay => Some(Bytes::from_static(b"OK")),
            _ => None,
        }
    }
}

/// Splits an event as it is kept into its epoch, its offset, its payload.
pub(crate) fn event(kept: &Bytes) -> Option<(u64, u64, Bytes)> {
    let blank = kept.iter().take(48).position(|byte| *byte == b' ')?;
    let (epoch, offset) = std::str::from_utf8(&kept[..blank]).ok()?.split_once('-')?;
    Some((epoch.parse().ok()?, offset.parse().ok()?, kept.slice(blank + 1..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_back_as_it_was_sent() {
        for payload in [&b""[..], b" ", b"{\"a\": 1}", b"1-1 x"] {
            let payload = Bytes::copy_from_slice(payload);
            let sent = Arg::Event { epoch: 3, offset: 7, payload: payload.clone() }.to_redis_args();
            assert_eq!(event(&Bytes::from(sent[0].clone())), Some((3, 7, payload)));
        }
        for strange in [&b""[..], b"1-2", b"x-1 a", b"1 a", b"-1 a"] {
            assert_eq!(event(&Bytes::copy_from_slice(strange)), None);
        }
    }

    #[test]
    fn numbers_without_end_stay_exact() {
        assert_eq!(Arg::Number(u64::MAX).to_redis_args(), [b"9007199254740991".to_vec()]);
        assert_eq!(Arg::Number(5).to_redis_args(), [b"5".to_vec()]);
    }

    #[test]
    fn answers_are_read_part_by_part() {
        let parts = vec![Value::BulkString(b"ok".to_vec()), Value::Int(3), Value::BulkString(b"4".to_vec())];
        let mut reply = Reply::new(Value::Array(parts)).expect("an array");
        assert_eq!(reply.text().as_deref(), Ok("ok"));
        assert_eq!((reply.number(), reply.number()), (Ok(3), Ok(4)));
        assert_eq!((reply.number(), reply.text()), (Err(Strange), Err(Strange)));
        assert_eq!(Reply::new(Value::Nil).err(), Some(Strange));
    }
}
