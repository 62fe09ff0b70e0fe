//! A model of the log: the contract of the store in as few lines as possible.

use crate::legacy::{Op, Outcome};
use bytes::Bytes;

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) exists: bool,
    pub(super) sealed: bool,
    pub(super) events: Vec<Bytes>,
    /// Who wrote the events, and the seal.
    pub(super) epochs: Vec<u64>,
    pub(super) seal_at: Option<(u64, u64)>,
    pub(super) epoch: u64,
    pub(super) generation: u64,
    /// How many events there may be before what is droppable is refused.
    pub(super) max_events: usize,
}

impl Log {
    pub(super) fn tail(&self) -> u64 {
        self.events.len() as u64
    }

    pub(super) fn attach(&mut self) -> u64 {
        assert!(self.exists, "a connection before the stream");
        self.generation += 1;
        self.generation
    }

    pub(super) fn perform(&mut self, epoch: u64, op: &Op) -> Outcome {
        match op {
            Op::Create if self.exists => Outcome::Exists,
            Op::Create => {
                self.exists = true;
                self.epoch = epoch;
                Outcome::Done
            }
            _ if !self.exists => panic!("{op:?} before the stream was there"),
            _ if epoch < self.epoch => Outcome::Fenced,
            Op::Append { offset, payload, droppable } => {
                if self.epochs.get(*offset as usize - 1) == Some(&epoch) {
                    assert_eq!(&self.events[*offset as usize - 1], payload, "a retry changed the event");
                    return Outcome::Done;
                }
                if self.sealed {
                    return Outcome::Sealed;
                }
                if *offset != self.tail() + 1 {
                    return Outcome::OutOfOrder { tail: self.tail() };
                }
                if *droppable && self.events.len() >= self.max_events {
                    return Outcome::Full;
                }
                self.write(epoch, payload.clone());
                Outcome::Done
            }
            Op::Seal { offset, last } => {
                if self.seal_at == Some((epoch, *offset)) {
                    return Outcome::Done;
                }
                if self.sealed {
                    return Outcome::Sealed;
                }
                if *offset != self.tail() + 1 {
                    return Outcome::OutOfOrder { tail: self.tail() };
                }
                self.seal_at = Some((epoch, *offset));
                self.sealed = true;
                if let Some(last) = last {
                    self.write(epoch, last.clone());
                }
                Outcome::Done
            }
        }
    }

    fn write(&mut self, epoch: u64, payload: Bytes) {
        self.epoch = epoch;
        self.epochs.push(epoch);
        self.events.push(payload);
    }
}
