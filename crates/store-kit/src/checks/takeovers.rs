use crate::{
    Kit,
    harness::{LONG, at, bytes, call, kept, standalone},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Appended, BackendId, NewStream, ReadError, TakeOver, TakenOver, WriteError};
use bytes::Bytes;
use std::sync::Arc;

/// All bytes that there are, so that none is taken for the end of it.
fn request() -> Bytes {
    (0..=255).collect::<Vec<u8>>().into()
}

fn repeatable(owner: BackendId) -> NewStream {
    NewStream { owner, rerun: Some(request()), ..call(Kit::stream_id()) }
}

const fn by(stream: StreamId, epoch: u64, owner: BackendId) -> TakeOver {
    TakeOver { stream, epoch, owner, open_ttl: LONG }
}

pub(super) async fn a_call_gets_another_owner(kit: &Kit<'_>) -> Result<(), String> {
    let (store, dead, other) = (&kit.store, Kit::backend_id(), Kit::backend_id());
    let id = kit.make(repeatable(dead)).await?;
    expect!(store.append(at(id, 1, 1), kept("a")).await, Ok(Appended::New), "the first owner appends");
    let taken = value!(store.take_over(by(id, 2, other)).await, "taking over");
    let expected =
        TakenOver { tail: 1, session: call(id).session, request_id: call(id).request_id, rerun: request() };
    expect_eq!(taken, Some(expected), "what the new owner is given");
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!((page.owner, page.epoch, page.tail, page.sealed), (other, 2, 1, false), "the stream");
    let of = async |owner| value_of(store.open_streams(owner, 10).await.map(|open| open.len()));
    expect_eq!((of(dead).await?, of(other).await?), (0, 1), "whose open call it is");
    expect!(store.append(at(id, 2, 2), kept("b")).await, Ok(Appended::New), "the new owner appends");
    // It may die too.
    let third = Kit::backend_id();
    let taken = value!(store.take_over(by(id, 3, third)).await, "taking over again");
    expect_eq!(
        taken.map(|taken| (taken.tail, taken.rerun)),
        Some((2, request())),
        "what the third owner is given"
    );
    let sealed = store.seal(at(id, 3, 3), Some(bytes("z")), LONG).await;
    expect!(sealed, Ok(Appended::New), "the third owner seals");
    expect_eq!((of(other).await?, of(third).await?), (0, 0), "whose open call it is once it is sealed");
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!(page.events, [bytes("a"), bytes("b"), bytes("z")], "the events");
    Ok(())
}

fn value_of<T, E: std::fmt::Debug>(answer: Result<T, E>) -> Result<T, String> {
    answer.map_err(|error| format!("looking for open streams: {error:?}"))
}

pub(super) async fn the_same_take_over_again_succeeds(kit: &Kit<'_>) -> Result<(), String> {
    let (store, other) = (&kit.store, Kit::backend_id());
    let id = kit.make(repeatable(Kit::backend_id())).await?;
    for tail in 0..2 {
        let taken = value!(store.take_over(by(id, 2, other)).await, "taking over");
        expect_eq!(taken.map(|taken| taken.tail), Some(tail), "where the log ends");
        expect!(
            store.append(at(id, 2, 1), kept("a")).await,
            Ok(Appended::New | Appended::Again),
            "appending"
        );
    }
    let page = value!(kit.read(id, 0).await, "reading");
    expect_eq!((page.owner, page.epoch, page.tail), (other, 2, 1), "the stream");
    Ok(())
}

pub(super) async fn one_of_many_take_overs_wins(kit: &Kit<'_>) -> Result<(), String> {
    for _ in 0..8 {
        let id = kit.make(repeatable(Kit::backend_id())).await?;
        let all: Vec<_> = (0..8)
            .map(|_| {
                let (store, own) = (Arc::clone(&kit.store), Kit::backend_id());
                tokio::spawn(async move { (own, store.take_over(by(id, 2, own)).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for one in all {
            match value!(one.await, "waiting for a backend") {
                (own, Ok(Some(_))) => winners.push(own),
                (_, answer) => {
                    expect!(answer, Err(WriteError::Fenced { epoch: 2 }), "one that came too late");
                }
            }
        }
        let [winner] = winners[..] else { return Err(format!("of 8 backends these won: {winners:?}")) };
        let page = value!(kit.read(id, 0).await, "reading");
        expect_eq!((page.owner, page.epoch), (winner, 2), "the stream");
    }
    Ok(())
}

pub(super) async fn the_former_owner_is_fenced(kit: &Kit<'_>) -> Result<(), String> {
    let (store, asleep, other) = (&kit.store, Kit::backend_id(), Kit::backend_id());
    let id = kit.make(repeatable(asleep)).await?;
    expect!(store.take_over(by(id, 2, other)).await, Ok(Some(_)), "taking over");
    let fenced = store.append(at(id, 1, 1), kept("x")).await;
    expect!(fenced, Err(WriteError::Fenced { epoch: 2 }), "the former owner appends");
    let fenced = store.seal(at(id, 1, 1), Some(bytes("x")), LONG).await;
    expect!(fenced, Err(WriteError::Fenced { epoch: 2 }), "the former owner seals");
    let fenced = store.take_over(by(id, 1, asleep)).await;
    expect!(fenced, Err(WriteError::Fenced { epoch: 2 }), "the former owner takes it at its own epoch");
    expect!(store.append(at(id, 2, 1), kept("a")).await, Ok(Appended::New), "the new owner appends");
    Ok(())
}

pub(super) async fn a_call_without_a_way_to_run_again_keeps_its_owner(kit: &Kit<'_>) -> Result<(), String> {
    let (store, owner, other) = (&kit.store, Kit::backend_id(), Kit::backend_id());
    for stream in [call(Kit::stream_id()), standalone(Kit::stream_id())] {
        let id = kit.make(NewStream { owner, ..stream }).await?;
        expect!(store.take_over(by(id, 2, other)).await, Ok(None), "taking over");
        let page = value!(kit.read(id, 0).await, "reading");
        expect_eq!((page.owner, page.epoch), (owner, 1), "the stream");
        expect!(store.append(at(id, 1, 1), kept("a")).await, Ok(Appended::New), "its owner appends");
    }
    Ok(())
}

pub(super) async fn what_is_over_is_not_taken_over(kit: &Kit<'_>) -> Result<(), String> {
    let (store, other) = (&kit.store, Kit::backend_id());
    for last in [Some(bytes("z")), None] {
        let id = kit.make(repeatable(Kit::backend_id())).await?;
        expect!(store.seal(at(id, 1, 1), last, LONG).await, Ok(Appended::New), "sealing");
        expect!(store.take_over(by(id, 2, other)).await, Err(WriteError::Sealed), "taking over");
    }
    let removed = kit.make(repeatable(Kit::backend_id())).await?;
    expect!(store.remove(removed).await, Ok(()), "removing");
    for gone in [removed, Kit::stream_id()] {
        expect!(store.take_over(by(gone, 2, other)).await, Err(WriteError::Gone), "taking over");
    }
    // One of the same id that is made later has nothing of the one before.
    kit.make(call(removed)).await?;
    expect!(store.take_over(by(removed, 2, other)).await, Ok(None), "taking over");
    Ok(())
}

pub(super) async fn what_is_taken_over_lives_on(kit: &Kit<'_>) -> Result<(), String> {
    let (store, other) = (&kit.store, Kit::backend_id());
    let short = NewStream { open_ttl: kit.units(3), ..repeatable(Kit::backend_id()) };
    let (prolonged, not_shortened) = (short.clone(), repeatable(Kit::backend_id()));
    let prolonged = kit.make(prolonged).await?;
    let not_shortened = kit.make(not_shortened).await?;
    let left = kit.make(NewStream { id: Kit::stream_id(), ..short }).await?;
    expect!(store.take_over(by(prolonged, 2, other)).await, Ok(Some(_)), "taking over");
    let soon = TakeOver { open_ttl: kit.units(1), ..by(not_shortened, 2, other) };
    expect!(store.take_over(soon).await, Ok(Some(_)), "taking over for a short time");
    kit.advance(4).await;
    expect!(kit.read(left, 0).await, Err(ReadError::Gone), "one that was not taken over");
    for id in [prolonged, not_shortened] {
        expect!(kit.read(id, 0).await, Ok(page) if page.owner == other, "one that was");
        let again = value!(store.take_over(by(id, 3, Kit::backend_id())).await, "taking over later");
        expect_eq!(again.map(|taken| taken.rerun), Some(request()), "what is kept with it");
    }
    Ok(())
}
