use crate::{
    Kit,
    harness::{LONG, OWNER, at, bytes, call, kept},
};
use bowline_store::{Appended, CreateError, ReadError, SealedStream, WriteError};
use std::sync::Arc;

pub(super) async fn a_seal_appends_and_closes(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a"]).await?;
    let answer = kit.store.seal(at(id, 1, 2), Some(bytes("last")), LONG).await;
    expect!(answer, Ok(Appended::New), "sealing");
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!(page.events, [bytes("a"), bytes("last")], "the events");
    expect_eq!((page.tail, page.sealed), (2, true), "tail and seal");
    let page = value!(kit.read(id, 2).await, "reading at the tail");
    expect_eq!((page.events.len(), page.sealed), (0, true), "after the last message");
    Ok(())
}

pub(super) async fn the_same_seal_again_succeeds(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a"]).await?;
    let seal = || kit.store.seal(at(id, 1, 2), Some(bytes("last")), LONG);
    expect!(seal().await, Ok(Appended::New), "sealing");
    expect!(seal().await, Ok(Appended::Again), "the same seal again");
    let answer = kit.store.seal(at(id, 1, 2), Some(bytes("other")), LONG).await;
    expect!(answer, Ok(Appended::Again), "the same epoch and offset");
    let page = value!(kit.read(id, 1).await, "reading");
    expect_eq!((page.events, page.tail), (vec![bytes("last")], 2), "the last message");
    Ok(())
}

pub(super) async fn a_stream_is_made_with_its_seal(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let sealed =
        |id, last| SealedStream { id, owner: OWNER, epoch: 3, last: bytes(last), keep: kit.units(3) };
    // Payloads that a store may keep in different ways.
    let large = "x".repeat(5_000);
    for last in ["last", "", &large] {
        let id = Kit::stream_id();
        expect!(store.create_sealed(sealed(id, last)).await, Ok(()), "making a sealed stream");
        let page = value!(kit.read(id, 0).await, "reading");
        expect_eq!((page.events, page.tail, page.sealed), (vec![bytes(last)], 1, true), "the stream");
        expect_eq!((page.epoch, page.owner), (3, OWNER), "its writer");
        expect!(store.create_sealed(sealed(id, "other")).await, Err(CreateError::Exists), "making it again");
        expect!(store.create(call(id)).await, Err(CreateError::Exists), "making one that is open");
        expect!(
            store.seal(at(id, 3, 1), Some(bytes(last)), LONG).await,
            Ok(Appended::Again),
            "the same seal"
        );
        expect!(store.append(at(id, 3, 2), kept("x")).await, Err(WriteError::Sealed), "appending");
        expect!(store.seal(at(id, 4, 2), None, LONG).await, Err(WriteError::Sealed), "another seal");
        expect!(store.attach(id).await, Ok(first) if first.generation == 1, "attaching");
        let page = value!(kit.read(id, 1).await, "reading at the tail");
        expect_eq!((page.events.len(), page.sealed), (0, true), "after the only message");
    }
    // Nobody has to end it, and it ends by itself.
    let id = Kit::stream_id();
    expect!(store.create_sealed(sealed(id, "last")).await, Ok(()), "making a sealed stream");
    let open = value!(store.open_streams(OWNER, 10_000).await, "asking for open streams");
    expect_eq!(open.iter().any(|open| open.id == id), false, "whether it counts as open");
    kit.advance(5).await;
    expect!(kit.read(id, 0).await, Err(ReadError::Gone), "reading past its time");
    Ok(())
}

pub(super) async fn nothing_comes_after_a_seal(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    for last in [Some(bytes("last")), None] {
        let id = kit.call_with(&["a"]).await?;
        expect!(store.seal(at(id, 1, 2), last.clone(), LONG).await, Ok(Appended::New), "sealing");
        for (epoch, offset) in [(1, 2), (1, 3), (2, 2), (2, 3), (9, 9)] {
            let answer = store.append(at(id, epoch, offset), kept("x")).await;
            expect!(answer, Err(WriteError::Sealed), "appending at epoch {epoch}, offset {offset}");
        }
        for (epoch, offset) in [(1, 1), (1, 3), (2, 2), (2, 3), (9, 9)] {
            for other in [Some(bytes("x")), None] {
                let answer = store.seal(at(id, epoch, offset), other, LONG).await;
                expect!(answer, Err(WriteError::Sealed), "another seal at epoch {epoch}, offset {offset}");
            }
        }
        let page = value!(kit.read(id, 0).await, "reading");
        let expected: Vec<_> = std::iter::once(bytes("a")).chain(last).collect();
        expect_eq!((page.events, page.epoch, page.sealed), (expected, 1, true), "the stream");
    }
    Ok(())
}

pub(super) async fn a_cancelled_stream_keeps_its_tail(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    for events in [&["a", "b"][..], &[]] {
        let id = kit.call_with(events).await?;
        let tail = events.len() as u64;
        let wrong = store.seal(at(id, 1, tail + 2), None, LONG).await;
        expect!(wrong, Err(WriteError::OutOfOrder { tail: t }) if *t == tail, "a wrong offset");
        expect!(store.seal(at(id, 1, tail + 1), None, LONG).await, Ok(Appended::New), "cancelling");
        expect!(store.seal(at(id, 1, tail + 1), None, LONG).await, Ok(Appended::Again), "cancelling again");
        let page = value!(kit.read(id, 0).await, "reading");
        expect_eq!((page.events.len(), page.tail, page.sealed), (events.len(), tail, true), "the stream");
    }
    Ok(())
}

pub(super) async fn a_seal_out_of_order_closes_nothing(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let id = kit.call_with(&["a", "b"]).await?;
    for (epoch, offset) in [(1, 0), (1, 1), (1, 2), (1, 4), (2, 2), (2, 9)] {
        let answer = store.seal(at(id, epoch, offset), Some(bytes("x")), LONG).await;
        expect!(answer, Err(WriteError::OutOfOrder { tail: 2 }), "sealing at epoch {epoch}, offset {offset}");
    }
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!((page.tail, page.sealed, page.epoch), (2, false, 1), "the stream");
    expect!(store.append(at(id, 1, 3), kept("c")).await, Ok(Appended::New), "the owner goes on");
    Ok(())
}

pub(super) async fn a_seal_at_a_higher_epoch_stops_the_owner(kit: &Kit<'_>) -> Result<(), String> {
    let store = &kit.store;
    let id = kit.call_with(&["a"]).await?;
    let answer = store.seal(at(id, 2, 2), Some(bytes("owner lost")), LONG).await;
    expect!(answer, Ok(Appended::New), "the reaper's seal");
    // Both say that the owner has to stop.
    let answer = store.append(at(id, 1, 2), kept("x")).await;
    expect!(answer, Err(WriteError::Fenced { .. } | WriteError::Sealed), "the owner's append");
    let answer = store.seal(at(id, 1, 2), Some(bytes("x")), LONG).await;
    expect!(answer, Err(WriteError::Fenced { .. } | WriteError::Sealed), "the owner's seal");
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!(page.events, [bytes("a"), bytes("owner lost")], "the events");
    expect_eq!((page.epoch, page.sealed), (2, true), "epoch and seal");
    Ok(())
}

pub(super) async fn exactly_one_seal_wins(kit: &Kit<'_>) -> Result<(), String> {
    for round in 0..8 {
        let id = kit.call_with(&["a"]).await?;
        let sealers: Vec<_> = (1..=16_u64)
            .map(|n| {
                // Low epochs first in one round, high ones first in the next.
                let epoch = if round % 2 == 0 { n } else { 17 - n };
                let store = Arc::clone(&kit.store);
                tokio::spawn(async move {
                    let last = Some(bytes(&format!("seal {epoch}")));
                    (epoch, store.seal(at(id, epoch, 2), last, LONG).await)
                })
            })
            .collect();
        let mut winners = Vec::new();
        for sealer in sealers {
            match value!(sealer.await, "waiting for a sealer") {
                (epoch, Ok(Appended::New)) => winners.push(epoch),
                (epoch, answer) => {
                    expect!(
                        answer,
                        Err(WriteError::Sealed | WriteError::Fenced { .. }),
                        "the seal of {epoch}"
                    );
                }
            }
        }
        let [winner] = winners[..] else { return Err(format!("of 16 seals these won: {winners:?}")) };
        let page = value!(kit.read(id, 1).await, "reading");
        expect_eq!(page.events, [bytes(&format!("seal {winner}"))], "the last message");
        expect_eq!((page.epoch, page.tail, page.sealed), (winner, 2, true), "the stream");
    }
    Ok(())
}
