use crate::{
    Kit,
    harness::{LONG, at, bytes, call, droppable, standalone},
};
use bowline_store::{Appended, BackendState, NewStream, OpenStream, StreamKind};
use std::time::Duration;

pub(super) async fn a_lease_is_in_force_for_its_time(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::backend_id();
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "before its first lease");
    expect!(kit.store.renew(id, false, kit.units(3)).await.map(drop), Ok(()), "taking a lease");
    kit.advance(1).await;
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Alive), "in its time");
    kit.advance(4).await;
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "past its time");
    expect!(kit.store.renew(id, false, LONG).await.map(drop), Ok(()), "taking it anew");
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Alive), "taken anew");
    Ok(())
}

pub(super) async fn a_lease_is_prolonged(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::backend_id();
    for _ in 0..4 {
        expect!(kit.store.renew(id, false, kit.units(3)).await.map(drop), Ok(()), "renewing");
        kit.advance(1).await;
    }
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Alive), "four units on, renewed one ago");
    kit.advance(4).await;
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "no longer renewed");
    Ok(())
}

pub(super) async fn a_break_between_renewals_is_told(kit: &Kit<'_>) -> Result<(), String> {
    // Different ones: it is enough that somebody was there.
    for count in 0..4 {
        let watched = value!(kit.store.renew(Kit::backend_id(), false, kit.units(6)).await, "renewing");
        let least = kit.units(count);
        expect_eq!(
            watched >= least,
            true,
            "whether {watched:?} after {count} renewals are {least:?} or more"
        );
        kit.advance(1).await;
    }
    kit.advance(4).await;
    let watched = value!(kit.store.renew(Kit::backend_id(), false, kit.units(6)).await, "renewing");
    expect_eq!(watched, Duration::ZERO, "after five units of a lease of six");
    Ok(())
}

pub(super) async fn a_draining_backend_says_so(kit: &Kit<'_>) -> Result<(), String> {
    let (id, other) = (Kit::backend_id(), Kit::backend_id());
    for id in [id, other] {
        expect!(kit.store.renew(id, false, LONG).await.map(drop), Ok(()), "taking a lease");
    }
    expect!(kit.store.renew(id, true, LONG).await.map(drop), Ok(()), "leaving");
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Draining), "the one that leaves");
    expect!(kit.store.backend_state(other).await, Ok(BackendState::Alive), "the other");
    Ok(())
}

pub(super) async fn a_released_lease_is_gone(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::backend_id();
    expect!(kit.store.renew(id, true, LONG).await.map(drop), Ok(()), "taking a lease");
    expect!(kit.store.release(id).await, Ok(()), "releasing it");
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "after that");
    expect!(kit.store.release(id).await, Ok(()), "releasing it again");
    Ok(())
}

pub(super) async fn backends_are_listed(kit: &Kit<'_>) -> Result<(), String> {
    let (alive, draining, dead) = (Kit::backend_id(), Kit::backend_id(), Kit::backend_id());
    expect!(kit.store.renew(alive, false, LONG).await.map(drop), Ok(()), "taking a lease");
    expect!(kit.store.renew(draining, true, LONG).await.map(drop), Ok(()), "leaving");
    expect!(kit.store.renew(dead, false, kit.units(3)).await.map(drop), Ok(()), "taking a short lease");
    let stream = NewStream { owner: dead, ..call(Kit::stream_id()) };
    kit.make(stream.clone()).await?;
    kit.advance(4).await;
    let listed = value!(kit.store.backends().await, "listing the backends");
    let state = |id| listed.iter().find(|(listed, _)| *listed == id).map(|(_, state)| *state);
    expect_eq!(state(alive), Some(BackendState::Alive), "one that has a lease");
    expect_eq!(state(draining), Some(BackendState::Draining), "one that leaves");
    expect_eq!(state(dead), Some(BackendState::Gone), "one without a lease that owns an open stream");
    expect_eq!(state(Kit::backend_id()), None, "one that never was");
    let sealed = kit.store.seal(at(stream.id, 2, 1), Some(bytes("z")), LONG).await;
    expect!(sealed, Ok(Appended::New), "sealing its stream");
    let listed = value!(kit.store.backends().await, "listing the backends");
    expect_eq!(listed.iter().any(|(listed, _)| *listed == dead), false, "one that is settled is listed");
    Ok(())
}

pub(super) async fn open_streams_are_found_by_their_owner(kit: &Kit<'_>) -> Result<(), String> {
    let (owner, other) = (Kit::backend_id(), Kit::backend_id());
    let owned = |owner, epoch| NewStream { owner, epoch, ..call(Kit::stream_id()) };
    let (open, sealed, removed) = (owned(owner, 3), owned(owner, 1), owned(owner, 1));
    let alone = NewStream { owner, ..standalone(Kit::stream_id()) };
    for stream in [&open, &sealed, &removed, &alone, &owned(other, 1)] {
        kit.make(stream.clone()).await?;
    }
    expect!(kit.store.append(at(open.id, 3, 1), droppable("a")).await, Ok(Appended::New), "appending");
    // A take-over raises the epoch and changes no owner.
    expect!(kit.store.append(at(open.id, 4, 2), droppable("b")).await, Ok(Appended::New), "taking over");
    expect!(kit.store.seal(at(sealed.id, 1, 1), None, LONG).await, Ok(Appended::New), "sealing");
    expect!(kit.store.remove(removed.id).await, Ok(()), "removing");
    let found = value!(kit.store.open_streams(owner, 100).await, "looking for open streams");
    let expected = OpenStream {
        id: open.id,
        kind: StreamKind::Call,
        epoch: 4,
        tail: 2,
        session: open.session,
        request_id: open.request_id,
    };
    expect_eq!(found, vec![expected], "what is open of one owner");
    for _ in 0..3 {
        kit.make(owned(owner, 1)).await?;
    }
    let found = value!(kit.store.open_streams(owner, 2).await, "looking for two of four");
    expect_eq!(found.len(), 2, "how many are found within the limit");
    let none = value!(kit.store.open_streams(Kit::backend_id(), 10).await, "looking for streams of nobody");
    expect_eq!(none, vec![], "what nobody owns");
    Ok(())
}
