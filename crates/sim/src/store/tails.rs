//! What a backend has written and the store may yet lose: it is written again after a failover, as `bowline-store-redis` does.

use bowline_proto::cursor::StreamId;
use bowline_store::{Event, WriteAt};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};

/// One write.
#[derive(Clone)]
pub(super) enum Written {
    Append(WriteAt, Event),
    Seal(WriteAt, Option<Bytes>, Duration),
}

impl Written {
    const fn at(&self) -> WriteAt {
        match self {
            Self::Append(at, _) | Self::Seal(at, ..) => *at,
        }
    }
}

/// The writes of one backend, of each stream in order.
#[derive(Default)]
pub(super) struct Tails(Mutex<BTreeMap<[u8; 16], Vec<Written>>>);

impl Tails {
    pub(super) fn remember(&self, written: Written) {
        let at = written.at();
        let mut tails = self.0.lock();
        let tail = tails.entry(*at.stream.as_bytes()).or_default();
        if tail.iter().all(|known| (known.at().epoch, known.at().offset) != (at.epoch, at.offset)) {
            tail.push(written);
        }
    }

    pub(super) fn forget(&self, stream: StreamId) {
        self.0.lock().remove(stream.as_bytes());
    }

    /// Everything that is remembered of a stream, for a log that is at `epoch`: of another writer's log nothing.
    pub(super) fn after(&self, stream: StreamId, epoch: u64, tail: u64) -> Vec<Written> {
        let tails = self.0.lock();
        let known = tails.get(stream.as_bytes()).map(Vec::as_slice).unwrap_or_default();
        known
            .iter()
            .filter(|written| written.at().epoch >= epoch && written.at().offset > tail)
            .cloned()
            .collect()
    }

    pub(super) fn streams(&self) -> Vec<StreamId> {
        self.0.lock().keys().map(|bytes| StreamId::from_bytes(*bytes)).collect()
    }
}
