//! The reading side of a stream, as far as its writing end has to know it.

use super::Outlet;
use crate::fleet::{BACKSTOP, patiently};
use bowline_proto::legacy::Millis;
use bowline_store::{ReadError, ReadLimit, StreamKind};
use std::sync::{Arc, atomic::Ordering};

impl Outlet {
    /// Notes the attachment of a connection on this backend.
    pub(crate) fn note_generation(&self, generation: u64) {
        self.is_newer(generation);
    }

    /// Notes an attachment; whether it is newer than all that were seen.
    fn is_newer(&self, generation: u64) -> bool {
        let generation = u32::try_from(generation).unwrap_or(u32::MAX);
        generation > self.generation.fetch_max(generation, Ordering::Relaxed)
    }

    /// Looks whether a client reads the stream on another backend, or did since the last look. While the store is away nobody knows, and
    /// the answer is yes.
    pub(crate) async fn is_read_elsewhere(&self) -> bool {
        if !self.core.is_shared() || self.is_unstored() {
            return false;
        }
        let tail = self.state.lock().writer.backlog().0.saturating_sub(1);
        let nothing = ReadLimit { events: 1, bytes: 1 };
        let read = match patiently(self.core.store.read_after(self.stream, tail, nothing)).await {
            Ok(page) => self.is_newer(page.generation),
            Err(ReadError::Unavailable(_)) => true,
            Err(_) => false,
        };
        if read {
            self.last_read.store(self.core.now().0, Ordering::Relaxed);
        }
        read
    }

    /// Notes that a connection reads the stream, until the guard is dropped.
    pub(crate) fn read(self: &Arc<Self>) -> Reading {
        self.facts.modify(|facts| {
            facts.readers += 1;
            true
        });
        Reading(self.clone())
    }

    /// Notes that a client has everything, or that there is nothing to have.
    pub(crate) fn set_fetched(&self) {
        self.fetched.store(true, Ordering::Relaxed);
    }

    /// Notes that a connection is over. A call's stream that is in no store dies with it: it has no id to come back with. A
    /// session's own is read again without one.
    pub(crate) fn reader_left(&self) {
        self.state.lock().writer.shrink();
        if self.kind == StreamKind::Call && self.is_unstored() {
            // The process's own memory answers at once.
            let _ = self.log().remove(self.stream).now();
        }
    }

    /// Notes that a question waits for its answer, until the guard is dropped.
    pub(crate) fn ask(self: &Arc<Self>) -> Asking {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(self.clone())
    }

    /// Whether a question on this stream waits for its answer: then clients are told to poll soon.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Since when nobody reads the stream here, if nobody does.
    pub(crate) fn unread_since(&self) -> Option<Millis> {
        (self.facts.get().readers == 0).then(|| Millis(self.last_read.load(Ordering::Relaxed)))
    }

    /// Waits until a connection reads the stream, here or on another backend.
    pub(crate) async fn wait_read(&self) {
        let here = self.facts.wait_for(|facts| facts.readers > 0);
        let elsewhere = async {
            if !self.core.is_shared() || self.is_unstored() {
                return std::future::pending().await;
            }
            let mut wakeups = self.core.store.subscribe(self.stream);
            // Who has attached before may have gone.
            let _ = self.is_read_elsewhere().await;
            loop {
                tokio::select! {
                    () = wakeups.changed() => {}
                    () = tokio::time::sleep(BACKSTOP) => {}
                }
                if self.is_read_elsewhere().await {
                    return;
                }
            }
        };
        tokio::select! {
            _ = here => {}
            () = elsewhere => {}
        }
    }

    /// Wishes that the connection that reads this stream be closed.
    pub(crate) fn wish_close(&self) {
        self.facts.modify(|facts| {
            facts.close_wishes = facts.close_wishes.saturating_add(1);
            true
        });
    }

    /// How many wishes there were.
    pub(crate) fn close_wishes(&self) -> u32 {
        self.facts.get().close_wishes
    }

    /// Whether there is a wish that no connection has fulfilled yet; the asking one does so now.
    pub(crate) fn take_close_wish(&self) -> bool {
        let wishes = self.close_wishes();
        self.wishes_done.swap(wishes, Ordering::Relaxed) < wishes
    }
}

/// A connection reads the stream while this exists.
pub(crate) struct Reading(Arc<Outlet>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.last_read.store(self.0.core.now().0, Ordering::Relaxed);
        self.0.facts.modify(|facts| {
            facts.readers -= 1;
            // Nobody waits for fewer.
            false
        });
    }
}

/// A question waits while this exists.
pub(crate) struct Asking(Arc<Outlet>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}
