//! Streams of the revisions with sessions (2024-11-05 to 2025-11-25): SEMANTICS 5.
//!
//! A stream has two halves that never touch. A [`Writer`] turns what a call says into operations on the log, one at a time.
//! A [`Reader`] turns pages of the log into the frames of one connection. What lies between them is the log alone, so a
//! connection that is live, one that resumes and one on another backend take the same path, and either half can be
//! rebuilt from records.
//!
//! Neither half knows how an event id is written: a reader says a [`Position`], the cursor codec makes an id of it.

#[cfg(test)]
mod harness;
mod queue;
mod reader;
mod retry;
mod writer;

pub use crate::time::Millis;
pub use reader::{Close, End, Frame, PageFacts, Position, Reader, ReaderConfig, Start};
pub use retry::RetryPolicy;
pub use writer::{Directive, Op, Outcome, Pushed, StopReason, Writer, WriterConfig, too_large};
