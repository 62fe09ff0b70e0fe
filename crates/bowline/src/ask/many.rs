//! Several questions at once.

use super::{AskError, AskErrorKind, Question, WireQuestion, read};
use bowline_proto::jsonrpc::Raw;

/// Questions with their keys: an array of the same kind, or a tuple of up to six of any kinds.
///
/// The answers come in the same shape: `[("a", q), ("b", q)]` is answered by a vector, `(("a", q), ("b", r))` by a pair.
pub trait Questions: Send {
    /// What the answers are read as.
    type Answers;

    /// The keys, and what goes to the client.
    ///
    /// # Errors
    /// Which question cannot be asked, and why; then none is.
    fn wires(&self) -> Result<Vec<(&str, WireQuestion)>, AskError>;

    /// Reads the answers, which are as many and in the same order.
    ///
    /// # Errors
    /// The first one that there is no answer to, or that cannot be read.
    fn read(&self, answers: Vec<Result<Raw, AskError>>) -> Result<Self::Answers, AskError>;
}

fn wire<'q, Q: Question>((key, question): &'q (&str, Q)) -> Result<(&'q str, WireQuestion), AskError> {
    let wire = question.wire().map_err(|why| AskError::new(key, AskErrorKind::Unaskable(why)))?;
    Ok((*key, wire))
}

fn answer<Q: Question>(
    (key, question): &(&str, Q),
    answer: Option<Result<Raw, AskError>>,
) -> Result<Q::Answer, AskError> {
    let missing = || Err(AskError::new(key, AskErrorKind::Unaskable("it was not asked".into())));
    read(key, question, &answer.unwrap_or_else(missing)?)
}

impl<Q: Question> Questions for Vec<(&str, Q)> {
    type Answers = Vec<Q::Answer>;

    fn wires(&self) -> Result<Vec<(&str, WireQuestion)>, AskError> {
        self.iter().map(wire).collect()
    }

    fn read(&self, answers: Vec<Result<Raw, AskError>>) -> Result<Self::Answers, AskError> {
        let mut answers = answers.into_iter();
        self.iter().map(|question| answer(question, answers.next())).collect()
    }
}

impl<Q: Question, const N: usize> Questions for [(&str, Q); N] {
    type Answers = Vec<Q::Answer>;

    fn wires(&self) -> Result<Vec<(&str, WireQuestion)>, AskError> {
        self.iter().map(wire).collect()
    }

    fn read(&self, answers: Vec<Result<Raw, AskError>>) -> Result<Self::Answers, AskError> {
        let mut answers = answers.into_iter();
        self.iter().map(|question| answer(question, answers.next())).collect()
    }
}

/// Tuples: each place has a kind of its own.
macro_rules! tuples {
    ($(($($kind:ident $place:tt),+);)*) => {
        $(impl<$($kind: Question),+> Questions for ($((&str, $kind),)+) {
            type Answers = ($($kind::Answer,)+);

            fn wires(&self) -> Result<Vec<(&str, WireQuestion)>, AskError> {
                Ok(vec![$(wire(&self.$place)?),+])
            }

            fn read(&self, answers: Vec<Result<Raw, AskError>>) -> Result<Self::Answers, AskError> {
                let mut answers = answers.into_iter();
                Ok(($(answer(&self.$place, answers.next())?,)+))
            }
        })*
    };
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}
