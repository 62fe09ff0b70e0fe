//! What the traits say, in a form that is too simple to be wrong.

use super::operation::{BACKENDS, Operation, SESSIONS, STREAMS};
use crate::{
    Kit,
    harness::{INCARNATION, LONG, OWNER, at, bytes, call, droppable, kept, record},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, BackendId, BackendState, CreateError, Letter, NewStream, Page, ReadError,
    ReadLimit, SealedStream, SessionLookup, StreamKind, UpdateError, Version, WriteError,
};
use bytes::Bytes;
use std::{fmt::Debug, time::Duration};

/// The state that the store should be in. Time is counted in units.
pub(super) struct Reference {
    unit: Duration,
    now: u32,
    /// Makes every payload another one.
    written: u32,
    streams: [Stream; STREAMS],
    sessions: [Session; SESSIONS],
    backends: [(BackendId, bool, u32); BACKENDS],
}

struct Stream {
    id: StreamId,
    log: Option<Log>,
    letters: Vec<Letter>,
}

struct Log {
    kind: StreamKind,
    max_events: u64,
    epoch: u64,
    /// Every event that ever was, with the epoch that wrote it.
    events: Vec<(u64, Bytes)>,
    /// How many of them were dropped.
    dropped: u64,
    sealed: Option<(u64, u64)>,
    generation: u64,
    delivered: u64,
    deadline: u32,
}

struct Session {
    id: String,
    /// Version and mark, `None` for a tombstone; and when it ends.
    state: Option<(Option<(Version, String)>, u32)>,
}

impl Log {
    fn tail(&self) -> u64 {
        self.events.len() as u64
    }

    /// The offset that is `behind` the tail.
    fn behind(&self, behind: i64) -> u64 {
        self.tail().saturating_add_signed(-behind)
    }
}

/// Fails unless `answer` is what was expected.
fn same<T: PartialEq + Debug>(answer: &T, expected: &T) -> Result<(), String> {
    if answer == expected { Ok(()) } else { Err(format!("expected {expected:?}, got {answer:?}")) }
}

/// Fails unless `answer` is one of what the traits allow. The name of a bound is the store's own affair.
fn one_of(
    answer: &Result<Appended, WriteError>,
    allowed: &[Result<Appended, WriteError>],
) -> Result<(), String> {
    let matches = |expected: &Result<Appended, WriteError>| match (answer, expected) {
        (Err(WriteError::Full { .. }), Err(WriteError::Full { .. })) => true,
        _ => answer == expected,
    };
    if allowed.iter().any(matches) {
        Ok(())
    } else {
        Err(format!("expected one of {allowed:?}, got {answer:?}"))
    }
}

impl Reference {
    pub(super) fn new(unit: Duration) -> Self {
        Self {
            unit,
            now: 0,
            written: 0,
            streams: std::array::from_fn(|_| Stream { id: Kit::stream_id(), log: None, letters: Vec::new() }),
            sessions: std::array::from_fn(|_| Session { id: Kit::session_id(), state: None }),
            backends: std::array::from_fn(|_| (Kit::backend_id(), false, 0)),
        }
    }

    /// Does one operation on both sides and compares.
    pub(super) async fn step(&mut self, kit: &Kit<'_>, operation: &Operation) -> Result<(), String> {
        match *operation {
            Operation::Advance { units } => {
                kit.clock.advance(self.unit * units).await;
                self.now += units;
                self.expire();
                Ok(())
            }
            Operation::Create { .. }
            | Operation::CreateSealed { .. }
            | Operation::Append { .. }
            | Operation::Seal { .. }
            | Operation::Read { .. }
            | Operation::Attach { .. }
            | Operation::Delivered { .. }
            | Operation::Trim { .. }
            | Operation::Remove { .. } => self.stream_step(kit, operation).await,
            Operation::PutLetter { .. } | Operation::Letters { .. } | Operation::DropMailbox { .. } => {
                self.mailbox_step(kit, operation).await
            }
            Operation::Renew { .. } | Operation::Release { .. } | Operation::BackendState { .. } => {
                self.backend_step(kit, operation).await
            }
            _ => self.session_step(kit, operation).await,
        }
    }

    fn expire(&mut self) {
        let now = self.now;
        for stream in &mut self.streams {
            stream.log.take_if(|log| log.deadline < now);
        }
        for session in &mut self.sessions {
            session.state.take_if(|(_, deadline)| *deadline < now);
        }
    }

    async fn stream_step(&mut self, kit: &Kit<'_>, operation: &Operation) -> Result<(), String> {
        let store = &kit.store;
        let unit = self.unit;
        let now = self.now;
        match *operation {
            Operation::Create { stream, standalone, epoch, max_events, units } => {
                let stream = &mut self.streams[stream];
                if stream.log.is_none() {
                    // What is gone stays gone: ids are not used again.
                    *stream = Stream { id: Kit::stream_id(), log: None, letters: Vec::new() };
                }
                let kind = if standalone { StreamKind::Standalone } else { StreamKind::Call };
                let open_ttl = unit * units;
                let new = NewStream { kind, epoch, max_events, open_ttl, ..call(stream.id) };
                let expected = if stream.log.is_some() { Err(CreateError::Exists) } else { Ok(()) };
                same(&store.create(new).await, &expected)?;
                stream.log.get_or_insert_with(|| Log {
                    kind,
                    max_events,
                    epoch,
                    events: Vec::new(),
                    dropped: 0,
                    sealed: None,
                    generation: 0,
                    delivered: 0,
                    deadline: now + units,
                });
                Ok(())
            }
            Operation::CreateSealed { stream, epoch, units } => {
                self.written += 1;
                let last = bytes(&format!("only {}", self.written));
                let stream = &mut self.streams[stream];
                if stream.log.is_none() {
                    *stream = Stream { id: Kit::stream_id(), log: None, letters: Vec::new() };
                }
                let (id, keep) = (stream.id, unit * units);
                let new = SealedStream { id, owner: OWNER, epoch, last: last.clone(), keep };
                let expected = if stream.log.is_some() { Err(CreateError::Exists) } else { Ok(()) };
                same(&store.create_sealed(new).await, &expected)?;
                stream.log.get_or_insert_with(|| Log {
                    kind: StreamKind::Call,
                    max_events: 1,
                    epoch,
                    events: vec![(epoch, last)],
                    dropped: 0,
                    sealed: Some((epoch, 1)),
                    generation: 0,
                    delivered: 0,
                    deadline: now + units,
                });
                Ok(())
            }
            Operation::Append { stream, epoch, ahead, kept: is_kept } => {
                self.written += 1;
                let text = format!("event {}", self.written);
                let stream = &mut self.streams[stream];
                let offset = stream.log.as_ref().map_or(1, |log| log.behind(-ahead));
                let event = if is_kept { kept(&text) } else { droppable(&text) };
                let allowed = stream.allowed_append(epoch, offset, is_kept);
                one_of(&store.append(at(stream.id, epoch, offset), event).await, &allowed)?;
                if let (Some(log), [Ok(Appended::New)]) = (&mut stream.log, &allowed[..]) {
                    log.append(epoch, bytes(&text));
                }
                Ok(())
            }
            Operation::Seal { stream, epoch, ahead, cancelled, units } => {
                self.written += 1;
                let last = (!cancelled).then(|| bytes(&format!("last {}", self.written)));
                let stream = &mut self.streams[stream];
                let offset = stream.log.as_ref().map_or(1, |log| log.behind(-ahead));
                let allowed = stream.allowed_seal(epoch, offset);
                let answer = store.seal(at(stream.id, epoch, offset), last.clone(), unit * units).await;
                one_of(&answer, &allowed)?;
                if let (Some(log), [Ok(Appended::New)]) = (&mut stream.log, &allowed[..]) {
                    match last {
                        Some(last) => log.append(epoch, last),
                        None => log.epoch = epoch,
                    }
                    log.sealed = Some((epoch, offset));
                    log.deadline = now + units;
                }
                Ok(())
            }
            Operation::Read { stream, behind, events, bytes } => {
                let stream = &self.streams[stream];
                let after = stream.log.as_ref().map_or(0, |log| log.behind(behind));
                let limit = ReadLimit { events, bytes };
                stream.compare_read(&store.read_after(stream.id, after, limit).await, after, limit)
            }
            Operation::Attach { stream } => {
                let stream = &mut self.streams[stream];
                let expected = match &mut stream.log {
                    Some(log) => {
                        log.generation += 1;
                        Ok(Attachment {
                            generation: log.generation,
                            delivered: log.delivered,
                            incarnation: INCARNATION,
                        })
                    }
                    None => Err(ReadError::Gone),
                };
                same(&store.attach(stream.id).await, &expected)
            }
            Operation::Delivered { stream, older, behind } => {
                let stream = &mut self.streams[stream];
                let Some(log) = stream.log.as_mut().filter(|log| log.generation > older) else {
                    return Ok(());
                };
                let offset = log.behind(behind);
                store.delivered(stream.id, log.generation - older, offset);
                for _ in 0..5 {
                    kit.clock.settle().await;
                }
                if older == 0 {
                    log.delivered = log.delivered.max(offset);
                }
                Ok(())
            }
            Operation::Trim { stream, behind } => {
                let stream = &mut self.streams[stream];
                let offset = stream.log.as_ref().map_or(1, |log| log.behind(behind));
                store.trim(stream.id, offset);
                let Some(log) = &mut stream.log else { return Ok(()) };
                let before = log.dropped;
                log.dropped = before.max(offset.min(log.tail()));
                if log.dropped == before {
                    return Ok(());
                }
                let expected = Err(ReadError::Evicted { oldest: log.dropped + 1 });
                kit.eventually("trimming", async || kit.read(stream.id, before).await == expected).await
            }
            Operation::Remove { stream } => {
                let stream = &mut self.streams[stream];
                stream.log = None;
                same(&store.remove(stream.id).await, &Ok(()))
            }
            _ => Ok(()),
        }
    }

    async fn mailbox_step(&mut self, kit: &Kit<'_>, operation: &Operation) -> Result<(), String> {
        match *operation {
            Operation::PutLetter { stream, key } => {
                self.written += 1;
                let stream = &mut self.streams[stream];
                let (key, payload) = (format!("key {key}"), bytes(&format!("letter {}", self.written)));
                let is_new = stream.letters.iter().all(|letter| letter.key != key);
                let answer = kit.store.put_letter(stream.id, &key, payload.clone(), LONG * 100).await;
                same(&answer, &Ok(is_new))?;
                if is_new {
                    let number = stream.letters.len() as u64 + 1;
                    stream.letters.push(Letter { number, key, payload });
                }
                Ok(())
            }
            Operation::Letters { stream, after } => {
                let stream = &self.streams[stream];
                let expected =
                    stream.letters.iter().filter(|letter| letter.number > after).cloned().collect();
                same(&kit.store.letters_after(stream.id, after).await, &Ok(expected))
            }
            Operation::DropMailbox { stream } => {
                let stream = &mut self.streams[stream];
                stream.letters.clear();
                same(&kit.store.drop_mailbox(stream.id).await, &Ok(()))
            }
            _ => Ok(()),
        }
    }

    async fn session_step(&mut self, kit: &Kit<'_>, operation: &Operation) -> Result<(), String> {
        let store = &kit.store;
        let unit = self.unit;
        let now = self.now;
        match *operation {
            Operation::CreateSession { session, units } => {
                let session = &mut self.sessions[session];
                match (store.create_session(&session.id, record("new"), unit * units).await, &session.state) {
                    (Ok(version), None) => {
                        session.state = Some((Some((version, "new".to_owned())), now + units));
                        Ok(())
                    }
                    (answer, None) => Err(format!("expected a version, got {answer:?}")),
                    (answer, Some(_)) => same(&answer, &Err(CreateError::Exists)),
                }
            }
            Operation::LoadSession { session } => {
                let session = &self.sessions[session];
                let expected = match &session.state {
                    Some((Some((version, mark)), _)) => SessionLookup::Live(*version, record(mark).into()),
                    Some((None, _)) => SessionLookup::Ended,
                    None => SessionLookup::Unknown,
                };
                same(&store.load_session(&session.id).await, &Ok(expected))
            }
            Operation::UpdateSession { session, stale, mark } => {
                let session = &mut self.sessions[session];
                let mark = format!("mark {mark}");
                let in_force = match &session.state {
                    Some((Some((version, _)), _)) => *version,
                    _ => Version(1),
                };
                let version = Version(in_force.0 + u64::from(stale));
                match (store.update_session(&session.id, version, record(&mark)).await, &mut session.state) {
                    (Ok(next), Some((Some(kept), _))) if !stale && next > in_force => {
                        *kept = (next, mark);
                        Ok(())
                    }
                    (answer, Some((Some(_), _))) if stale => same(&answer, &Err(UpdateError::Conflict)),
                    (answer, Some((Some(_), _))) => Err(format!("expected a later version, got {answer:?}")),
                    (answer, _) => same(&answer, &Err(UpdateError::Gone)),
                }
            }
            Operation::TouchSession { session, units } => {
                let session = &mut self.sessions[session];
                match &mut session.state {
                    // Whether a life may be made shorter is not said.
                    Some((Some(_), deadline)) if *deadline > now + units => return Ok(()),
                    Some((Some(_), deadline)) => *deadline = now + units,
                    _ => {}
                }
                same(&store.touch_session(&session.id, unit * units).await, &Ok(()))
            }
            Operation::DeleteSession { session, units } => {
                let session = &mut self.sessions[session];
                let alive = matches!(session.state, Some((Some(_), _)));
                if session.state.is_none() {
                    // Whether an unknown session gets a tombstone is not said.
                    return Ok(());
                }
                same(&store.delete_session(&session.id, unit * units).await, &Ok(alive))?;
                if alive {
                    session.state = Some((None, now + units));
                } else {
                    // Whether the tombstone is prolonged is not said either: go on with another session.
                    *session = Session { id: Kit::session_id(), state: None };
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn backend_step(&mut self, kit: &Kit<'_>, operation: &Operation) -> Result<(), String> {
        let now = self.now;
        match *operation {
            Operation::Renew { backend, draining, units } => {
                let (id, was_draining, deadline) = &mut self.backends[backend];
                if *deadline > now + units {
                    return Ok(());
                }
                (*was_draining, *deadline) = (draining, now + units);
                same(&kit.store.renew(*id, draining, self.unit * units).await.map(drop), &Ok(()))
            }
            Operation::Release { backend } => {
                let (id, _, deadline) = &mut self.backends[backend];
                *deadline = 0;
                same(&kit.store.release(*id).await, &Ok(()))
            }
            Operation::BackendState { backend } => {
                let (id, draining, deadline) = self.backends[backend];
                let expected = match (deadline > now, draining) {
                    (true, false) => BackendState::Alive,
                    (true, true) => BackendState::Draining,
                    (false, _) => BackendState::Gone,
                };
                same(&kit.store.backend_state(id).await, &Ok(expected))
            }
            _ => Ok(()),
        }
    }
}

impl Stream {
    /// What every write meets before its own rules; `None` where it may go on.
    fn refusal(log: &Log, epoch: u64) -> Option<Vec<Result<Appended, WriteError>>> {
        let fenced = Err(WriteError::Fenced { epoch: log.epoch });
        match (epoch < log.epoch, log.sealed.is_some()) {
            // Both tell the writer to stop.
            (true, true) => Some(vec![fenced, Err(WriteError::Sealed)]),
            (true, false) => Some(vec![fenced]),
            (false, true) => Some(vec![Err(WriteError::Sealed)]),
            (false, false) => None,
        }
    }

    fn allowed_append(&self, epoch: u64, offset: u64, is_kept: bool) -> Vec<Result<Appended, WriteError>> {
        let Some(log) = &self.log else { return vec![Err(WriteError::Gone)] };
        if let Some(refusal) = Self::refusal(log, epoch) {
            return refusal;
        }
        let there = usize::try_from(offset).ok().and_then(|offset| log.events.get(offset.checked_sub(1)?));
        vec![if there.is_some_and(|(by, _)| *by == epoch) {
            Ok(Appended::Again)
        } else if offset != log.tail() + 1 {
            Err(WriteError::OutOfOrder { tail: log.tail() })
        } else if log.kind == StreamKind::Call && !is_kept && log.tail() - log.dropped >= log.max_events {
            Err(WriteError::Full { what: "events", limit: log.max_events })
        } else {
            Ok(Appended::New)
        }]
    }

    fn allowed_seal(&self, epoch: u64, offset: u64) -> Vec<Result<Appended, WriteError>> {
        let Some(log) = &self.log else { return vec![Err(WriteError::Gone)] };
        if log.sealed == Some((epoch, offset)) {
            return vec![Ok(Appended::Again)];
        }
        if let Some(refusal) = Self::refusal(log, epoch) {
            return refusal;
        }
        vec![if offset == log.tail() + 1 {
            Ok(Appended::New)
        } else {
            Err(WriteError::OutOfOrder { tail: log.tail() })
        }]
    }

    fn compare_read(
        &self,
        answer: &Result<Page, ReadError>,
        after: u64,
        limit: ReadLimit,
    ) -> Result<(), String> {
        let Some(log) = &self.log else { return same(answer, &Err(ReadError::Gone)) };
        if after > log.tail() {
            return same(answer, &Err(ReadError::Lost { tail: log.tail() }));
        }
        if after < log.dropped {
            return same(answer, &Err(ReadError::Evicted { oldest: log.dropped + 1 }));
        }
        let rest: Vec<_> = log
            .events
            .iter()
            .skip(usize::try_from(after).unwrap_or(usize::MAX))
            .map(|(_, event)| event.clone())
            .collect();
        // A page may be shorter than asked for, but not empty where there is something.
        let count = answer.as_ref().map_or(0, |page| page.events.len());
        let size: usize = rest.iter().take(count).map(Bytes::len).sum();
        let too_much = count > 1 && (count > limit.events || size > limit.bytes);
        if too_much || count > rest.len() || (count == 0 && !rest.is_empty()) {
            return Err(format!("expected some of {rest:?} within {limit:?}, got {answer:?}"));
        }
        let expected = Page {
            events: rest[..count].to_vec(),
            tail: log.tail(),
            sealed: log.sealed.is_some(),
            epoch: log.epoch,
            incarnation: INCARNATION,
            owner: OWNER,
            generation: log.generation,
        };
        same(answer, &Ok(expected))
    }
}

impl Log {
    fn append(&mut self, epoch: u64, payload: Bytes) {
        self.epoch = epoch;
        self.events.push((epoch, payload));
        if self.kind == StreamKind::Standalone {
            self.dropped = self.dropped.max(self.tail().saturating_sub(self.max_events));
        }
    }
}
