use crate::{
    Kit,
    harness::{LONG, at, bytes, call, droppable, kept, standalone},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Appended, NewStream, ReadError, WriteError};

/// What holds of a stream that is past its time: it is gone for everybody, never empty.
async fn expect_gone(kit: &Kit<'_>, id: StreamId, when: &str) -> Result<(), String> {
    for after in [0, 1, 99] {
        expect!(kit.read(id, after).await, Err(ReadError::Gone), "reading after {after}, {when}");
    }
    expect!(kit.store.attach(id).await, Err(ReadError::Gone), "attaching, {when}");
    for offset in [1, 2, 3] {
        let answer = kit.store.append(at(id, 9, offset), kept("x")).await;
        expect!(answer, Err(WriteError::Gone), "appending at {offset}, {when}");
        let answer = kit.store.seal(at(id, 9, offset), None, LONG).await;
        expect!(answer, Err(WriteError::Gone), "sealing at {offset}, {when}");
    }
    Ok(())
}

pub(super) async fn an_open_stream_expires(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.make(NewStream { open_ttl: kit.units(3), ..call(Kit::stream_id()) }).await?;
    kit.fill(id, &["a", "b"]).await?;
    kit.advance(1).await;
    value!(kit.read(id, 0).await, "reading in time");
    kit.advance(4).await;
    expect_gone(kit, id, "past the time of an open stream").await?;
    kit.store.keep(id, LONG);
    kit.clock.settle().await;
    expect_gone(kit, id, "after prolonging what had expired").await
}

pub(super) async fn an_open_stream_is_prolonged(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.make(NewStream { open_ttl: kit.units(3), ..call(Kit::stream_id()) }).await?;
    kit.fill(id, &["a"]).await?;
    kit.store.keep(id, kit.units(20));
    for _ in 0..10 {
        kit.clock.settle().await;
    }
    kit.advance(6).await;
    value!(kit.read(id, 0).await, "reading a stream that was prolonged");
    expect!(kit.store.append(at(id, 1, 2), kept("b")).await, Ok(Appended::New), "appending to it");
    kit.advance(20).await;
    expect_gone(kit, id, "past the time that it was prolonged to").await
}

pub(super) async fn a_sealed_stream_is_kept_from_its_seal_on(kit: &Kit<'_>) -> Result<(), String> {
    // Longer than the open stream would have lived, and shorter.
    let longer = kit.make(NewStream { open_ttl: kit.units(3), ..call(Kit::stream_id()) }).await?;
    let shorter = kit.call().await?;
    let answer = kit.store.seal(at(longer, 1, 1), Some(bytes("last")), kit.units(10)).await;
    expect!(answer, Ok(Appended::New), "sealing");
    let answer = kit.store.seal(at(shorter, 1, 1), Some(bytes("last")), kit.units(3)).await;
    expect!(answer, Ok(Appended::New), "sealing");
    kit.advance(1).await;
    value!(kit.read(shorter, 0).await, "reading a sealed stream in its time");
    kit.advance(5).await;
    let page =
        value!(kit.read(longer, 0).await, "reading a sealed stream that is kept longer than an open one");
    expect_eq!((page.events, page.sealed), (vec![bytes("last")], true), "what it holds");
    expect_gone(kit, shorter, "past the time of a sealed stream").await?;
    kit.advance(6).await;
    expect_gone(kit, longer, "past the time of the other sealed stream").await
}

pub(super) async fn a_sealed_stream_is_not_prolonged(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call().await?;
    expect!(kit.store.seal(at(id, 1, 1), Some(bytes("l")), kit.units(3)).await, Ok(Appended::New), "sealing");
    kit.store.keep(id, LONG);
    for _ in 0..10 {
        kit.clock.settle().await;
    }
    let answer = kit.store.seal(at(id, 1, 1), Some(bytes("l")), kit.units(3)).await;
    expect!(answer, Ok(Appended::Again), "the same seal again");
    kit.advance(5).await;
    expect_gone(kit, id, "past the time of a sealed stream").await
}

pub(super) async fn trimmed_events_are_evicted(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b", "c", "d"]).await?;
    kit.store.trim(id, 2);
    kit.eventually("trimming", async || matches!(kit.read(id, 0).await, Err(ReadError::Evicted { .. })))
        .await?;
    for after in [0, 1] {
        let answer = kit.read(id, after).await;
        expect!(answer, Err(ReadError::Evicted { oldest: 3 }), "position {after} of what starts at 3");
    }
    let page = value!(kit.read(id, 2).await, "reading after the last event that was trimmed");
    expect_eq!((page.events, page.tail), (vec![bytes("c"), bytes("d")], 4), "the run after the anchor");
    expect!(kit.store.append(at(id, 1, 5), kept("e")).await, Ok(Appended::New), "appending");
    // An older position is presented late: nothing comes back.
    kit.store.trim(id, 1);
    kit.clock.settle().await;
    expect!(
        kit.read(id, 1).await,
        Err(ReadError::Evicted { oldest: 3 }),
        "after a trim to an older position"
    );
    Ok(())
}

pub(super) async fn a_trim_never_moves_the_tail(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b"]).await?;
    kit.store.trim(id, 99);
    kit.eventually("trimming", async || matches!(kit.read(id, 0).await, Err(ReadError::Evicted { .. })))
        .await?;
    expect!(
        kit.read(id, 0).await,
        Err(ReadError::Evicted { oldest: 3 }),
        "position 0 of a stream without events"
    );
    let page = value!(kit.read(id, 2).await, "reading at the tail");
    expect_eq!((page.events.len(), page.tail), (0, 2), "events and tail");
    expect!(kit.read(id, 3).await, Err(ReadError::Lost { tail: 2 }), "a position after the tail");
    expect!(kit.store.append(at(id, 1, 3), kept("c")).await, Ok(Appended::New), "the next append");
    expect!(kit.store.seal(at(id, 1, 4), Some(bytes("d")), LONG).await, Ok(Appended::New), "the seal");
    kit.store.trim(id, 4);
    kit.eventually("trimming", async || matches!(kit.read(id, 2).await, Err(ReadError::Evicted { .. })))
        .await?;
    let page = value!(kit.read(id, 4).await, "reading a sealed stream at its tail");
    expect_eq!((page.events.len(), page.tail, page.sealed), (0, 4, true), "what is left");
    Ok(())
}

pub(super) async fn a_full_standalone_stream_drops_its_oldest(kit: &Kit<'_>) -> Result<(), String> {
    let by_count = NewStream { max_events: 3, ..standalone(Kit::stream_id()) };
    let by_bytes = NewStream { max_bytes: 35, ..standalone(Kit::stream_id()) };
    for stream in [by_count, by_bytes] {
        let id = kit.make(stream).await?;
        for offset in 1..=8 {
            let answer = kit.store.append(at(id, 1, offset), droppable(&format!("{offset:010}"))).await;
            expect!(answer, Ok(Appended::New), "event {offset} of a stream that holds three");
        }
        let oldest = match kit.read(id, 0).await {
            Err(ReadError::Evicted { oldest }) => oldest,
            other => return Err(format!("position 0 of a stream without its oldest events: got {other:?}")),
        };
        if !(6..=9).contains(&oldest) {
            return Err(format!("eight events came, three may be held, the oldest that is kept is {oldest}"));
        }
        for after in 0..oldest - 1 {
            let answer = kit.read(id, after).await;
            expect!(answer, Err(ReadError::Evicted { oldest: o }) if *o == oldest, "position {after}");
        }
        for after in oldest - 1..=8 {
            let page = value!(kit.read(id, after).await, "position {after}, with {oldest} the oldest kept");
            let expected: Vec<_> = (after + 1..=8).map(|offset| bytes(&format!("{offset:010}"))).collect();
            expect_eq!(page.events, expected, "the run after {after}");
        }
    }
    Ok(())
}

pub(super) async fn a_full_call_refuses_only_what_may_be_dropped(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.make(NewStream { max_events: 2, ..call(Kit::stream_id()) }).await?;
    let store = &kit.store;
    kit.fill(id, &["a", "b"]).await?;
    let answer = store.append(at(id, 1, 3), droppable("x")).await;
    expect!(answer, Err(WriteError::Full { limit: 2, .. }), "a third event that may be dropped");
    expect!(
        store.append(at(id, 1, 2), droppable("b")).await,
        Ok(Appended::Again),
        "a retry in a full stream"
    );
    expect!(
        store.append(at(id, 1, 3), kept("c")).await,
        Ok(Appended::New),
        "one that is kept, at the same offset"
    );
    let answer = store.append(at(id, 1, 4), droppable("x")).await;
    expect!(answer, Err(WriteError::Full { .. }), "a droppable event after it");
    expect!(store.seal(at(id, 1, 4), Some(bytes("last")), LONG).await, Ok(Appended::New), "the last message");
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!(page.events, [bytes("a"), bytes("b"), bytes("c"), bytes("last")], "the events");
    Ok(())
}

pub(super) async fn a_call_is_full_by_bytes_too(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.make(NewStream { max_bytes: 10, ..call(Kit::stream_id()) }).await?;
    let store = &kit.store;
    expect!(store.append(at(id, 1, 1), droppable("0123456789")).await, Ok(Appended::New), "ten bytes of ten");
    let answer = store.append(at(id, 1, 2), droppable("x")).await;
    expect!(answer, Err(WriteError::Full { limit: 10, .. }), "one byte more that may be dropped");
    expect!(store.append(at(id, 1, 2), kept("x")).await, Ok(Appended::New), "one byte more that is kept");
    Ok(())
}

pub(super) async fn a_removed_stream_is_gone(kit: &Kit<'_>) -> Result<(), String> {
    let open = kit.call_with(&["a"]).await?;
    let sealed = kit.call_with(&["a"]).await?;
    expect!(kit.store.seal(at(sealed, 1, 2), None, LONG).await, Ok(Appended::New), "sealing");
    for id in [open, sealed] {
        expect!(kit.store.remove(id).await, Ok(()), "removing");
        expect_gone(kit, id, "after its removal").await?;
        expect!(kit.store.remove(id).await, Ok(()), "removing again");
    }
    Ok(())
}
