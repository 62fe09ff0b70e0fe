use crate::{
    Kit,
    harness::{INCARNATION, at, bytes, call, droppable, kept, standalone},
};
use bowline_store::{Appended, CreateError, Event, EventClass, NewStream, ReadError, ReadLimit, WriteError};
use bytes::Bytes;
use std::sync::Arc;

pub(super) async fn a_stream_is_made_once(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a"]).await?;
    expect!(kit.store.create(call(id)).await, Err(CreateError::Exists), "making it again");
    let page = value!(kit.read(id, 0).await, "reading what the second one must not have touched");
    expect_eq!(page.events, [bytes("a")], "its events");
    Ok(())
}

pub(super) async fn one_of_many_makers_wins(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::stream_id();
    let makers: Vec<_> = (1..=8)
        .map(|epoch| {
            let store = Arc::clone(&kit.store);
            tokio::spawn(async move { store.create(NewStream { epoch, ..call(id) }).await })
        })
        .collect();
    let mut made = 0;
    for maker in makers {
        match value!(maker.await, "waiting for a maker") {
            Ok(()) => made += 1,
            other => expect!(other, Err(CreateError::Exists), "a maker that came too late"),
        }
    }
    expect_eq!(made, 1, "how many of 8 made the stream");
    Ok(())
}

pub(super) async fn offsets_are_contiguous_from_one(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let id = kit.call().await?;
    for offset in [0, 2, 7] {
        let answer = store.append(at(id, 1, offset), droppable("x")).await;
        expect!(answer, Err(WriteError::OutOfOrder { tail: 0 }), "offset {offset} in an empty stream");
    }
    let page = value!(kit.read(id, 0).await, "reading the empty stream");
    expect_eq!((page.events.len(), page.tail, page.sealed), (0, 0, false), "the empty stream");
    for offset in 1..=3 {
        let answer = store.append(at(id, 1, offset), droppable("x")).await;
        expect!(answer, Ok(Appended::New), "offset {offset} in its turn");
    }
    let answer = store.append(at(id, 1, 5), droppable("x")).await;
    expect!(answer, Err(WriteError::OutOfOrder { tail: 3 }), "offset 5 after 3");
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!((page.events.len(), page.tail), (3, 3), "events and tail");
    expect_eq!((page.owner, page.epoch), (crate::harness::OWNER, 1), "owner and epoch");
    Ok(())
}

pub(super) async fn a_retried_append_changes_nothing(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b", "c"]).await?;
    for offset in [3, 1, 2, 3] {
        let answer = kit.store.append(at(id, 1, offset), droppable("other")).await;
        expect!(answer, Ok(Appended::Again), "offset {offset} again");
    }
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!(page.events, [bytes("a"), bytes("b"), bytes("c")], "the events after the retries");
    Ok(())
}

pub(super) async fn a_retry_after_a_trim_is_still_a_retry(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b"]).await?;
    kit.store.trim(id, 2);
    kit.eventually("trimming", async || matches!(kit.read(id, 0).await, Err(ReadError::Evicted { .. })))
        .await?;
    let answer = kit.store.append(at(id, 1, 2), droppable("b")).await;
    expect!(
        answer,
        Ok(Appended::Again),
        "an append whose event a reader confirmed before its writer heard of it"
    );
    expect!(kit.store.append(at(id, 1, 3), droppable("c")).await, Ok(Appended::New), "the next append");
    Ok(())
}

pub(super) async fn a_lower_epoch_is_fenced(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::stream_id();
    kit.make(NewStream { epoch: 5, ..call(id) }).await?;
    let store = &kit.store;
    expect!(store.append(at(id, 5, 1), kept("a")).await, Ok(Appended::New), "the owner");
    for offset in [1, 2, 9] {
        let answer = store.append(at(id, 4, offset), kept("x")).await;
        expect!(answer, Err(WriteError::Fenced { epoch: 5 }), "appending at epoch 4, offset {offset}");
        let answer = store.seal(at(id, 4, offset), Some(bytes("x")), kit.units(100)).await;
        expect!(answer, Err(WriteError::Fenced { epoch: 5 }), "sealing at epoch 4, offset {offset}");
    }
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!((page.tail, page.sealed, page.epoch), (1, false, 5), "the stream after it all");
    Ok(())
}

pub(super) async fn a_higher_epoch_takes_over(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a"]).await?;
    let store = &kit.store;
    let answer = store.append(at(id, 3, 5), kept("x")).await;
    expect!(answer, Err(WriteError::OutOfOrder { tail: 1 }), "a take-over at a wrong offset");
    let answer = store.append(at(id, 1, 2), kept("b")).await;
    expect!(answer, Ok(Appended::New), "the owner, after a take-over that failed");
    expect!(store.append(at(id, 3, 3), kept("c")).await, Ok(Appended::New), "a take-over");
    expect!(store.append(at(id, 3, 3), kept("c")).await, Ok(Appended::Again), "the take-over again");
    for offset in [2, 3, 4] {
        let answer = store.append(at(id, 1, offset), kept("x")).await;
        expect!(answer, Err(WriteError::Fenced { epoch: 3 }), "the former owner at offset {offset}");
    }
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!(page.events, [bytes("a"), bytes("b"), bytes("c")], "the events");
    expect_eq!(page.epoch, 3, "the epoch");
    Ok(())
}

pub(super) async fn an_event_of_an_earlier_epoch_is_no_retry(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b"]).await?;
    let store = &kit.store;
    expect!(store.append(at(id, 2, 3), kept("c")).await, Ok(Appended::New), "a take-over");
    let answer = store.append(at(id, 2, 2), kept("mine")).await;
    expect!(answer, Err(WriteError::OutOfOrder { tail: 3 }), "epoch 2 at an offset that epoch 1 wrote");
    let answer = store.append(at(id, 3, 3), kept("mine")).await;
    expect!(answer, Err(WriteError::OutOfOrder { tail: 3 }), "epoch 3 at an offset that epoch 2 wrote");
    expect!(store.append(at(id, 2, 4), kept("d")).await, Ok(Appended::New), "epoch 2 in its turn");
    Ok(())
}

/// Writers at two epochs, each going by the tail that it is told, while somebody reads: whatever is read is a prefix of what
/// is read at the end.
pub(super) async fn racing_writers_leave_no_hole(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    let writers: Vec<_> = [1_u64, 2, 2, 3]
        .into_iter()
        .enumerate()
        .map(|(writer, epoch)| {
            let store = Arc::clone(&kit.store);
            tokio::spawn(async move {
                let mut offset = 1;
                let mut appended = Vec::new();
                while appended.len() < 20 {
                    let text = format!("{writer}-{offset}");
                    match store.append(at(id, epoch, offset), kept(&text)).await {
                        Ok(Appended::New) => {
                            appended.push((offset, text));
                            offset += 1;
                        }
                        Ok(Appended::Again) => offset += 1,
                        Err(WriteError::OutOfOrder { tail }) => offset = tail + 1,
                        Err(_) => break,
                    }
                    tokio::task::yield_now().await;
                }
                appended
            })
        })
        .collect();
    let mut seen: Vec<Bytes> = Vec::new();
    while writers.iter().any(|writer| !writer.is_finished()) {
        let page = value!(kit.read(id, seen.len() as u64).await, "reading beside the writers");
        expect_eq!(page.tail, (seen.len() + page.events.len()) as u64, "the tail of a page with everything");
        seen.extend(page.events);
        tokio::task::yield_now().await;
    }
    let page = value!(kit.read(id, 0).await, "reading at the end");
    expect_eq!(
        page.events[..seen.len().min(page.events.len())],
        seen[..],
        "what was read before, at the end"
    );
    let mut acknowledged = 0;
    for writer in writers {
        for (offset, text) in value!(writer.await, "waiting for a writer") {
            acknowledged += 1;
            let index = usize::try_from(offset - 1).unwrap_or(usize::MAX);
            expect_eq!(
                page.events.get(index),
                Some(&bytes(&text)),
                "what was acknowledged at offset {offset}"
            );
        }
    }
    expect_eq!(page.events.len(), acknowledged, "how many events there are, of those acknowledged");
    Ok(())
}

pub(super) async fn a_read_is_a_run(kit: &Kit<'_>) -> Result<(), String> {
    let texts: Vec<_> = (1..=20).map(|n| format!("{n:010}")).collect();
    let id = kit.call_with(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    for after in 0..=20_usize {
        let page = value!(kit.read(id, after as u64).await, "reading after {after}");
        expect_eq!(page.events, texts[after..], "everything after {after}");
        // Ten bytes an event: both bounds, and the one event that is there whatever they say.
        for (events, size, most) in
            [(3, 1 << 20, 3), (100, 45, 4), (100, 40, 4), (100, 1, 1), (1, 1, 1), (0, 0, 1)]
        {
            let limit = ReadLimit { events, bytes: size };
            let page = value!(kit.store.read_after(id, after as u64, limit).await, "reading with {limit:?}");
            if page.events.is_empty() && after < 20 {
                return Err(format!("no event after {after} with {limit:?}"));
            }
            if page.events.len() > most {
                return Err(format!("{} events after {after} with {limit:?}", page.events.len()));
            }
            expect_eq!(page.events, texts[after..after + page.events.len()], "after {after} with {limit:?}");
            expect_eq!(page.tail, 20, "the tail, wherever the page ends");
        }
    }
    Ok(())
}

pub(super) async fn a_position_after_the_tail_is_lost(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    expect!(kit.read(id, 1).await, Err(ReadError::Lost { tail: 0 }), "position 1 of an empty stream");
    kit.fill(id, &["a", "b"]).await?;
    expect!(kit.read(id, 3).await, Err(ReadError::Lost { tail: 2 }), "position 3 of a stream of two");
    expect!(kit.read(id, u64::from(u32::MAX)).await, Err(ReadError::Lost { tail: 2 }), "a position far away");
    Ok(())
}

pub(super) async fn what_was_never_made_is_gone(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let id = Kit::stream_id();
    expect!(kit.read(id, 0).await, Err(ReadError::Gone), "reading");
    expect!(store.append(at(id, 1, 1), kept("a")).await, Err(WriteError::Gone), "appending");
    let answer = store.seal(at(id, 1, 1), Some(bytes("a")), kit.units(100)).await;
    expect!(answer, Err(WriteError::Gone), "sealing");
    expect!(store.seal(at(id, 1, 1), None, kit.units(100)).await, Err(WriteError::Gone), "cancelling");
    expect!(store.attach(id).await, Err(ReadError::Gone), "attaching");
    store.trim(id, 1);
    store.keep(id, kit.units(100));
    store.delivered(id, 1, 1);
    kit.clock.settle().await;
    expect!(kit.read(id, 0).await, Err(ReadError::Gone), "reading after all that");
    Ok(())
}

pub(super) async fn payloads_come_back_byte_for_byte(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    let payloads = [
        Bytes::from_static(br#"{"jsonrpc":"2.0","method":"x","params":{"a":1.50}}"#),
        Bytes::new(),
        Bytes::from_static(b"\0\xff\r\n\n data: \xe2\x80\xa8"),
        Bytes::from(vec![b'x'; 1 << 20]),
    ];
    for (offset, payload) in (1..).zip(&payloads) {
        let event = Event { payload: payload.clone(), class: EventClass::Kept };
        expect!(kit.store.append(at(id, 1, offset), event).await, Ok(Appended::New), "payload {offset}");
    }
    let page = value!(kit.read(id, 0).await, "reading");
    if page.events != payloads {
        return Err("the payloads came back changed".to_owned());
    }
    Ok(())
}

pub(super) async fn a_stream_that_is_made_again_is_another_one(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::stream_id();
    // The first two are removed, the third one expires.
    let mut incarnations = (1..=3).map(|n| INCARNATION - n).chain([7]).peekable();
    while let Some(incarnation) = incarnations.next() {
        let is_third = incarnations.peek() == Some(&7);
        let open_ttl = if is_third { kit.units(3) } else { kit.units(1_000) };
        kit.make(NewStream { incarnation, open_ttl, ..standalone(id) }).await?;
        let another = NewStream { incarnation: 9, ..standalone(id) };
        expect!(kit.store.create(another).await, Err(CreateError::Exists), "making it while it is there");
        kit.fill(id, &["a", "b"]).await?;
        // Whoever writes it, it is the same one.
        expect!(kit.store.append(at(id, 2, 3), kept("c")).await, Ok(Appended::New), "another writer");
        let page = value!(kit.read(id, 2).await, "reading");
        expect_eq!((page.incarnation, page.tail), (incarnation, 3), "which one is read, and its tail");
        let attachment = value!(kit.store.attach(id).await, "attaching");
        expect_eq!(attachment.incarnation, incarnation, "which one is attached to");
        expect_eq!((attachment.generation, attachment.delivered), (1, 0), "what it knows of readers");
        if is_third {
            kit.advance(4).await;
        } else {
            expect!(kit.store.remove(id).await, Ok(()), "removing it");
        }
        expect!(kit.read(id, 2).await, Err(ReadError::Gone), "reading what is gone");
    }
    Ok(())
}
