//! The ids of tasks: they name the log of a task, so that any backend finds it, and say when it was made (SEMANTICS 4).
//!
//! The bytes, before base64url without padding: version `1`, id of the signing key, stream (16), the time of its making (a
//! variable-length integer), MAC (16).

use thiserror::Error;

use super::wire::{Decoded, Writer};
use super::{Keyring, Scope, ScopedKeys, StreamId};

const PURPOSE: &str = "task id";
const VERSION: u8 = 1;
const MAC_BYTES: usize = 16;

/// Names one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The log of the task: 128 unguessable bits.
    pub stream: StreamId,
    /// When it was made, in milliseconds of Unix time.
    pub created: u64,
}

/// The text is no id of a task of this principal. Which of its parts is wrong is not said.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("there is no such task")]
pub struct NoTaskIdError;

/// Mints and reads the ids of the tasks of one principal.
#[derive(Clone, Debug)]
pub struct TaskIdCodec {
    keys: ScopedKeys,
}

impl TaskIdCodec {
    /// The codec of a principal; `None` where nobody authenticates.
    pub fn new(keyring: &Keyring, principal: Option<&str>) -> Self {
        Self { keys: keyring.scoped(PURPOSE, Scope { session: None, principal }) }
    }

    /// The id as text: base64url characters, 47 to 59 of them.
    pub fn mint(&self, task: TaskId) -> String {
        let mut out = String::with_capacity(56);
        let mut writer = Writer::new();
        writer.put(&[VERSION, self.keys.key_id()]);
        writer.put(task.stream.as_bytes());
        writer.put_varint(task.created);
        writer.finish(&self.keys, MAC_BYTES, &mut out);
        out
    }

    /// Reads an id.
    ///
    /// # Errors
    ///
    /// It is none of ours, or another principal's.
    pub fn read(&self, text: &str) -> Result<TaskId, NoTaskIdError> {
        let decoded = Decoded::from_text(text.as_bytes(), MAC_BYTES).ok_or(NoTaskIdError)?;
        let task = parse(&decoded).ok_or(NoTaskIdError)?;
        if decoded.verifies(&self.keys) { Ok(task) } else { Err(NoTaskIdError) }
    }
}

fn parse(decoded: &Decoded) -> Option<TaskId> {
    let mut body = decoded.body();
    let [version, _key_id] = body.take_array()?;
    let stream = StreamId::from_bytes(body.take_array()?);
    let created = body.take_varint()?;
    (version == VERSION && body.is_empty()).then_some(TaskId { stream, created })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codec(keys: &[u8], principal: Option<&str>) -> TaskIdCodec {
        let keys: Vec<[u8; 32]> = keys.iter().map(|key| [*key; 32]).collect();
        TaskIdCodec::new(&Keyring::from_bytes(&keys).unwrap(), principal)
    }

    const TASK: TaskId = TaskId { stream: StreamId::from_bytes([7; 16]), created: 1_790_000_000_000 };

    #[test]
    fn an_id_is_its_principals_alone() {
        let text = codec(&[1], Some("alice")).mint(TASK);
        assert!(
            text.len() <= 59
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
        assert_eq!(codec(&[1], Some("alice")).read(&text), Ok(TASK));
        assert_eq!(codec(&[2, 1], Some("alice")).read(&text), Ok(TASK), "keys rotate");
        for other in
            [codec(&[1], Some("bob")), codec(&[1], None), codec(&[1], Some("")), codec(&[2], Some("alice"))]
        {
            assert_eq!(other.read(&text), Err(NoTaskIdError));
        }
    }

    #[test]
    fn anything_else_is_none() {
        let codec = codec(&[1], None);
        let cursor = codec.mint(TASK);
        for text in [
            "",
            "gate-test",
            "AQ",
            "tasks-conformance-nonexistent-12345",
            &cursor[1..],
            &format!("{cursor}A"),
        ] {
            assert_eq!(codec.read(text), Err(NoTaskIdError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_id_is_read_back_and_no_text_panics(
            stream in any::<[u8; 16]>(), created in any::<u64>(), text in any::<String>(),
        ) {
            let codec = codec(&[1], None);
            let task = TaskId { stream: StreamId::from_bytes(stream), created };
            prop_assert_eq!(codec.read(&codec.mint(task)), Ok(task));
            prop_assert_eq!(codec.read(&text), Err(NoTaskIdError));
        }
    }
}
