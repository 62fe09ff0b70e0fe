use crate::{Kit, harness::LONG};
use bowline_store::BackendState;

pub(super) async fn a_lease_is_in_force_for_its_time(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::backend_id();
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "before its first lease");
    expect!(kit.store.renew(id, false, kit.units(3)).await, Ok(()), "taking a lease");
    kit.advance(1).await;
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Alive), "in its time");
    kit.advance(4).await;
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "past its time");
    expect!(kit.store.renew(id, false, LONG).await, Ok(()), "taking it anew");
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Alive), "taken anew");
    Ok(())
}

pub(super) async fn a_lease_is_prolonged(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::backend_id();
    for _ in 0..4 {
        expect!(kit.store.renew(id, false, kit.units(3)).await, Ok(()), "renewing");
        kit.advance(1).await;
    }
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Alive), "four units on, renewed one ago");
    kit.advance(4).await;
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "no longer renewed");
    Ok(())
}

pub(super) async fn a_draining_backend_says_so(kit: &Kit<'_>) -> Result<(), String> {
    let (id, other) = (Kit::backend_id(), Kit::backend_id());
    for id in [id, other] {
        expect!(kit.store.renew(id, false, LONG).await, Ok(()), "taking a lease");
    }
    expect!(kit.store.renew(id, true, LONG).await, Ok(()), "leaving");
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Draining), "the one that leaves");
    expect!(kit.store.backend_state(other).await, Ok(BackendState::Alive), "the other");
    Ok(())
}

pub(super) async fn a_released_lease_is_gone(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::backend_id();
    expect!(kit.store.renew(id, true, LONG).await, Ok(()), "taking a lease");
    expect!(kit.store.release(id).await, Ok(()), "releasing it");
    expect!(kit.store.backend_state(id).await, Ok(BackendState::Gone), "after that");
    expect!(kit.store.release(id).await, Ok(()), "releasing it again");
    Ok(())
}
