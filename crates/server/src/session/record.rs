//! The record of a session: what this backend knows of it, and how changes get into the store and out of it.

use super::Session;
use crate::core::Core;
use bowline_proto::jsonrpc::Raw;
use bowline_store::{SessionLookup, SessionRecord, UpdateError, Version};
use std::{
    sync::Arc,
    task::{Context, Waker},
};

/// The most subscriptions of one session that are remembered.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The longest URI of a subscription, and the longest name of a log level, that are remembered, in bytes.
const MAX_REMEMBERED_BYTES: usize = 8 * 1024;

/// How many notes a session may have, and how long a name and a text may be, in bytes.
const MAX_NOTES: usize = 32;
const MAX_NOTE_BYTES: usize = 1024;

/// The note that names the lists whose changes the server said it announces.
const LISTS: &str = "lists";

/// How often in a row another backend may change the record first.
const MAX_LOST_RACES: u32 = 16;

/// A change of a record, which may have to be made again.
type Change = Box<dyn Fn(&mut SessionRecord) + Send + Sync>;

/// Changes of the record that the store does not have yet, in their order.
#[derive(Default)]
pub(super) struct Unstored {
    /// Made for the first of them: nearly always there are none.
    changes: Option<Box<Changes>>,
    /// Whether a task brings them there.
    storing: bool,
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Unstored {
    fn changes(&self) -> &[Change] {
        self.changes.as_deref().map_or(&[], |changes| &changes.0)
    }

    /// Drops the oldest `count`, which the store has.
    fn stored(&mut self, count: usize) {
        if let Some(changes) = &mut self.changes {
            changes.0.drain(..count);
        }
    }
}

impl Session {
    /// The record as this backend last saw it.
    pub(crate) fn record(&self) -> Arc<SessionRecord> {
        self.record.read().1.clone()
    }

    /// Notes the version under which the store has the record.
    pub(crate) fn set_version(&self, version: Version) {
        self.record.write().0 = version;
    }

    /// Takes over what the store has; changes of ours that are not there yet stay.
    pub(crate) fn take_over(&self, version: Version, record: &Arc<SessionRecord>) {
        if record.initialized {
            self.set_initialized();
        }
        let mut held = self.record.write();
        if held.0 >= version {
            return;
        }
        let mut record = record.clone();
        for change in self.unstored.lock().changes() {
            change(Arc::make_mut(&mut record));
        }
        *held = (version, record);
    }

    /// Changes the record: here at once, in the store soon, and there in the same order.
    pub(crate) fn change(
        self: &Arc<Self>,
        core: &Arc<Core>,
        change: impl Fn(&mut SessionRecord) + Send + Sync + 'static,
    ) {
        if self.stateless {
            return;
        }
        let first = {
            let mut held = self.record.write();
            change(Arc::make_mut(&mut held.1));
            let mut unstored = self.unstored.lock();
            unstored.changes.get_or_insert_default().0.push(Box::new(change));
            !std::mem::replace(&mut unstored.storing, true)
        };
        if first {
            let (session, core) = (self.clone(), core.clone());
            let mut storing = Box::pin(async move { session.store_changes(&core).await });
            // A store that answers at once needs no task.
            if storing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                crate::task::spawn(storing);
            }
        }
    }

    /// Brings changes into the store until there are none left; what another backend changed in between is kept.
    async fn store_changes(&self, core: &Core) {
        // Whoever loses a race loads again; each round somebody got through.
        let mut lost = 0;
        loop {
            let (version, record, count) = {
                let held = self.record.read();
                let mut unstored = self.unstored.lock();
                if unstored.changes().is_empty() || lost > MAX_LOST_RACES {
                    *unstored = Unstored::default();
                    break;
                }
                (held.0, SessionRecord::clone(&held.1), unstored.changes().len())
            };
            match core.store.update_session(&self.id, version, record).await {
                Ok(version) => {
                    let mut held = self.record.write();
                    held.0 = held.0.max(version);
                    self.unstored.lock().stored(count);
                    lost = 0;
                }
                Err(UpdateError::Conflict) => {
                    lost += 1;
                    let loaded = core.store.load_session(&self.id).await;
                    let Ok(SessionLookup::Live(version, record)) = loaded else { return self.give_up() };
                    let mut record = SessionRecord::clone(&record);
                    // What was changed here meanwhile is among these.
                    let mut held = self.record.write();
                    for change in self.unstored.lock().changes() {
                        change(&mut record);
                    }
                    *held = (version, Arc::new(record));
                }
                Err(UpdateError::Gone) => return self.give_up(),
                Err(UpdateError::Unavailable(error)) => {
                    tracing::warn!(session = %self, %error, "the session record could not be updated");
                    return self.give_up();
                }
            }
        }
        if lost == 0 {
            self.share_record(core);
        } else {
            tracing::warn!(session = %self, "the session record is changed too often by others; changes of ours were given up");
        }
    }

    /// Takes the record as the store has it in its memory, where it does: one for both. It has a map and texts, and there may be many
    /// sessions.
    fn share_record(&self, core: &Core) {
        // Where others change it too, what comes back may be theirs; and nothing of it lies in this process.
        if core.is_shared() {
            return;
        }
        if let Some(Ok(SessionLookup::Live(version, record))) = core.store.load_session(&self.id).now() {
            let mut held = self.record.write();
            // What was changed meanwhile is not in it, but will be when that is stored.
            if held.0 == version && self.unstored.lock().changes().is_empty() {
                held.1 = record;
            }
        }
    }

    /// The store does not get what it has not got yet.
    fn give_up(&self) {
        *self.unstored.lock() = Unstored::default();
    }

    /// Notes whose changes `initialize` was answered that the server announces. Called before the session is in the store.
    pub(crate) fn set_lists(&self, lists: &str) {
        if !lists.is_empty() {
            let mut held = self.record.write();
            Arc::make_mut(&mut held.1).notes.insert(LISTS, lists);
        }
    }

    /// The lists whose changes the server said it announces.
    pub(crate) fn advertised_lists(&self) -> Vec<&'static str> {
        let record = self.record();
        let Some(lists) = record.notes.get(LISTS) else { return Vec::new() };
        let known = ["tools", "resources", "prompts"].into_iter();
        known.filter(|list| lists.split(',').any(|named| named == *list)).collect()
    }

    /// What was noted under `name`, by any backend.
    pub(crate) fn note(&self, name: &str) -> Option<String> {
        self.record.read().1.notes.get(name).map(str::to_owned)
    }

    /// Notes something for the other backends, or with `None` takes it away.
    pub(crate) fn set_note(self: &Arc<Self>, core: &Arc<Core>, name: &str, text: Option<String>) {
        let too_long = name.len().max(text.as_ref().map_or(0, String::len)) > MAX_NOTE_BYTES;
        if too_long || name == LISTS || self.record.read().1.notes.get(name) == text.as_deref() {
            return;
        }
        let name = name.to_owned();
        self.change(core, move |record| match &text {
            Some(text) => {
                if record.notes.len() < MAX_NOTES || record.notes.get(&name).is_some() {
                    record.notes.insert(&name, text);
                }
            }
            None => record.notes.remove(&name),
        });
    }

    /// Notes what a request that succeeded changed in the session, so that a replaced upstream can be brought to the same
    /// state.
    pub(crate) fn observe(self: &Arc<Self>, core: &Arc<Core>, method: &str, params: Option<&Raw>) {
        let text = |name: &str| {
            let value = params.and_then(|params| params.member(name)).and_then(|value| value.string());
            value.filter(|text| text.len() <= MAX_REMEMBERED_BYTES)
        };
        match method {
            "logging/setLevel" => {
                if let Some(level) = text("level") {
                    self.change(core, move |record| record.log_level = Some(level.clone()));
                }
            }
            "resources/subscribe" => {
                if let Some(uri) = text("uri") {
                    self.change(core, move |record| {
                        if record.subscriptions.len() < MAX_SUBSCRIPTIONS {
                            record.subscriptions.insert(uri.clone());
                        }
                    });
                }
            }
            "resources/unsubscribe" => {
                if let Some(uri) = text("uri") {
                    self.change(core, move |record| {
                        record.subscriptions.remove(&uri);
                    });
                }
            }
            _ => {}
        }
    }
}
