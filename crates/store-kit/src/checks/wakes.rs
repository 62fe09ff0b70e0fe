use crate::{
    Kit,
    harness::{ALL, LONG, at, bytes, droppable, kept, record},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Appended, ReadLimit, SessionRecord, Store, Wakeups, WriteError};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::timeout};

/// How long a wake-up may take where nothing fails.
const PATIENCE: Duration = Duration::from_secs(10);

const EVENTS: u64 = 40;

/// Writes numbers into a stream, with pauses of several lengths, and seals it.
fn write(store: Arc<dyn Store>, id: StreamId) -> JoinHandle<Result<Appended, WriteError>> {
    tokio::spawn(async move {
        for offset in 1..EVENTS {
            for _ in 0..offset % 4 {
                tokio::task::yield_now().await;
            }
            store.append(at(id, 1, offset), kept(&offset.to_string())).await?;
        }
        store.seal(at(id, 1, EVENTS), Some(bytes(&EVENTS.to_string())), LONG).await
    })
}

pub(super) async fn a_reader_that_only_reads_gets_everything(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    let writer = write(Arc::clone(&kit.store), id);
    let mut seen = Vec::new();
    for round in 0_usize.. {
        // Small pages and large ones.
        let limit = ReadLimit { events: 1 + round % 5, ..ALL };
        let page = value!(kit.store.read_after(id, seen.len() as u64, limit).await, "reading");
        let nothing_new = page.events.is_empty();
        seen.extend(page.events);
        if page.sealed && seen.len() as u64 == page.tail {
            break;
        }
        if round > 100_000 {
            return Err(format!("after {round} reads there are {} events of {EVENTS}", seen.len()));
        }
        if nothing_new {
            kit.clock.settle().await;
        }
    }
    expect!(value!(writer.await, "waiting for the writer"), Ok(Appended::New), "the seal");
    let expected: Vec<_> = (1..=EVENTS).map(|n| bytes(&n.to_string())).collect();
    expect_eq!(seen, expected, "what was read");
    Ok(())
}

pub(super) async fn a_reader_that_subscribes_first_misses_nothing(kit: &Kit<'_>) -> Result<(), String> {
    // The narrowest place first: what comes after the read and before the wait.
    let id = kit.call().await?;
    let mut wakeups = kit.store.subscribe(id);
    for offset in 1..=3 {
        let page = value!(kit.read(id, offset - 1).await, "reading");
        expect_eq!(page.events.len(), 0, "what is new before it was appended");
        expect!(kit.store.append(at(id, 1, offset), kept("x")).await, Ok(Appended::New), "appending");
        expect_woken(std::slice::from_mut(&mut wakeups), "an append between a read and the wait").await?;
    }
    let id = kit.call().await?;
    let mut wakeups = kit.store.subscribe(id);
    let writer = write(Arc::clone(&kit.store), id);
    let mut seen = Vec::new();
    loop {
        let page = value!(kit.read(id, seen.len() as u64).await, "reading");
        seen.extend(page.events);
        if page.sealed {
            break;
        }
        // No timer would wake a reader here: what comes between the read and this line must.
        if timeout(PATIENCE, wakeups.changed()).await.is_err() {
            return Err(format!("a wake-up got lost after event {} of {EVENTS}", seen.len()));
        }
    }
    expect!(value!(writer.await, "waiting for the writer"), Ok(Appended::New), "the seal");
    expect_eq!(seen.len() as u64, EVENTS, "how many events came");
    Ok(())
}

async fn expect_woken(wakeups: &mut [Wakeups], by: &str) -> Result<(), String> {
    for subscription in wakeups {
        if timeout(PATIENCE, subscription.changed()).await.is_err() {
            return Err(format!("{by} did not wake a subscription that was there before it"));
        }
    }
    Ok(())
}

pub(super) async fn changes_wake(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let id = Kit::stream_id();
    // Before the stream is made, and two of them.
    let mut both = [store.subscribe(id), store.subscribe(id)];
    kit.make(crate::harness::call(id)).await?;
    expect!(store.append(at(id, 1, 1), droppable("a")).await, Ok(Appended::New), "appending");
    expect_woken(&mut both, "an append").await?;
    let mut both = [store.subscribe(id), store.subscribe(id)];
    value!(store.attach(id).await, "attaching");
    expect_woken(&mut both, "an attachment").await?;
    let mut both = [store.subscribe(id), store.subscribe(id)];
    expect!(store.put_letter(id, "k", bytes("l"), LONG).await, Ok(true), "putting a letter");
    expect_woken(&mut both, "a letter").await?;
    let mut both = [store.subscribe(id), store.subscribe(id)];
    expect!(store.seal(at(id, 1, 2), Some(bytes("z")), LONG).await, Ok(Appended::New), "sealing");
    expect_woken(&mut both, "a seal").await
}

pub(super) async fn other_streams_do_not_matter(kit: &Kit<'_>) -> Result<(), String> {
    let (id, other) = (kit.call().await?, kit.call().await?);
    let mut wakeups = kit.store.subscribe(id);
    drop(kit.store.subscribe(id));
    drop(kit.store.subscribe(other));
    expect!(
        kit.store.append(at(other, 1, 1), droppable("a")).await,
        Ok(Appended::New),
        "appending elsewhere"
    );
    // A wake-up for nothing is allowed; that one of the others ended must not end this one.
    expect!(kit.store.append(at(id, 1, 1), droppable("a")).await, Ok(Appended::New), "appending");
    expect_woken(std::slice::from_mut(&mut wakeups), "an append").await
}

pub(super) async fn a_changed_session_wakes(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let id = Kit::session_id();
    let before = SessionRecord { standalone: Kit::stream_id(), ..record("p") };
    let version = value!(store.create_session(&id, before.clone(), LONG).await, "making a session");
    let mut both = [store.subscribe(before.standalone), store.subscribe(before.standalone)];
    let after = SessionRecord { log_level: None, ..before.clone() };
    value!(store.update_session(&id, version, after).await, "changing it");
    expect_woken(&mut both, "a change of the session").await?;
    let mut both = [store.subscribe(before.standalone), store.subscribe(before.standalone)];
    expect!(store.delete_session(&id, LONG).await, Ok(true), "ending it");
    expect_woken(&mut both, "the end of the session").await
}
