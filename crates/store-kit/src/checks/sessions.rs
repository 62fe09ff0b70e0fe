use crate::{
    Kit,
    harness::{LONG, record},
};
use bowline_store::{CreateError, SessionLookup, SessionRecord, UpdateError, Version};
use std::sync::Arc;

async fn make(kit: &Kit<'_>, units: u32) -> Result<(String, Version), String> {
    let id = Kit::session_id();
    let version =
        value!(kit.store.create_session(&id, record("p"), kit.units(units)).await, "making a session");
    Ok((id, version))
}

async fn expect_live(kit: &Kit<'_>, id: &str, when: &str) -> Result<(Version, Arc<SessionRecord>), String> {
    match kit.store.load_session(id).await {
        Ok(SessionLookup::Live(version, record)) => Ok((version, record)),
        other => Err(format!("{when}: expected a living session, got {other:?}")),
    }
}

pub(super) async fn a_session_comes_back_whole(kit: &Kit<'_>) -> Result<(), String> {
    let (id, made) = make(kit, 1000).await?;
    let (version, loaded) = expect_live(kit, &id, "after making it").await?;
    expect_eq!(version, made, "its version");
    expect_eq!(*loaded, record("p"), "its record");
    expect_eq!(loaded.initialize.as_str(), record("p").initialize.as_str(), "the text of initialize");
    let bare = SessionRecord {
        principal: None,
        log_level: None,
        initialized: true,
        subscriptions: std::collections::BTreeSet::new(),
        ..record("p")
    };
    let version = value!(kit.store.update_session(&id, version, bare.clone()).await, "updating");
    let (loaded, kept) = expect_live(kit, &id, "after the update").await?;
    expect_eq!(loaded, version, "the version that the update returned");
    expect_eq!(*kept, bare, "the record of the update");
    Ok(())
}

pub(super) async fn a_session_is_made_once(kit: &Kit<'_>) -> Result<(), String> {
    let (id, _) = make(kit, 1000).await?;
    let answer = kit.store.create_session(&id, record("thief"), LONG).await;
    expect!(answer, Err(CreateError::Exists), "making it again");
    let (_, kept) = expect_live(kit, &id, "after that").await?;
    expect_eq!(kept.principal.as_deref(), Some("p"), "whose it is");
    Ok(())
}

pub(super) async fn an_update_names_its_version(kit: &Kit<'_>) -> Result<(), String> {
    let (id, first) = make(kit, 1000).await?;
    let second = value!(kit.store.update_session(&id, first, record("q")).await, "the first update");
    if second == first {
        return Err("an update left the version as it was".to_owned());
    }
    for stale in [first, Version(second.0 + 1)] {
        let answer = kit.store.update_session(&id, stale, record("x")).await;
        expect!(answer, Err(UpdateError::Conflict), "an update of {stale:?} where {second:?} is in force");
    }
    let (_, kept) = expect_live(kit, &id, "after the conflicts").await?;
    expect_eq!(kept.principal.as_deref(), Some("q"), "which update is in force");
    Ok(())
}

pub(super) async fn one_of_many_updates_wins(kit: &Kit<'_>) -> Result<(), String> {
    let (id, version) = make(kit, 1000).await?;
    let updates: Vec<_> = (0..12)
        .map(|n| {
            let (store, id) = (Arc::clone(&kit.store), id.clone());
            let record = record(&format!("p{n}"));
            tokio::spawn(async move { (n, store.update_session(&id, version, record).await) })
        })
        .collect();
    let mut winners = Vec::new();
    for update in updates {
        match value!(update.await, "waiting for an update") {
            (n, Ok(_)) => winners.push(format!("p{n}")),
            (n, answer) => expect!(answer, Err(UpdateError::Conflict), "update {n}"),
        }
    }
    let (_, kept) = expect_live(kit, &id, "after the race").await?;
    expect_eq!(winners, [kept.principal.clone().unwrap_or_default()], "who won, and whose record is kept");
    Ok(())
}

pub(super) async fn an_unused_session_expires(kit: &Kit<'_>) -> Result<(), String> {
    let (id, version) = make(kit, 3).await?;
    kit.advance(1).await;
    // Looking it up and changing it is no use of it.
    let (version_then, _) = expect_live(kit, &id, "in its time").await?;
    expect_eq!(version_then, version, "its version");
    kit.advance(4).await;
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Unknown), "past its time");
    let answer = kit.store.update_session(&id, version, record("x")).await;
    expect!(answer, Err(UpdateError::Gone), "updating it past its time");
    expect!(kit.store.touch_session(&id, LONG).await, Ok(()), "touching it past its time");
    expect!(kit.store.delete_session(&id, LONG).await, Ok(false), "ending it past its time");
    expect!(
        kit.store.load_session(&id).await,
        Ok(SessionLookup::Unknown | SessionLookup::Ended),
        "after all that"
    );
    Ok(())
}

pub(super) async fn a_touched_session_lives_on(kit: &Kit<'_>) -> Result<(), String> {
    let (id, _) = make(kit, 3).await?;
    for _ in 0..4 {
        kit.advance(1).await;
        expect!(kit.store.touch_session(&id, kit.units(3)).await, Ok(()), "touching");
    }
    kit.advance(1).await;
    expect_live(kit, &id, "five units on, touched one ago").await?;
    kit.advance(5).await;
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Unknown), "no longer touched");
    Ok(())
}

pub(super) async fn an_ended_session_leaves_a_tombstone(kit: &Kit<'_>) -> Result<(), String> {
    let (id, _) = make(kit, 1000).await?;
    expect!(kit.store.delete_session(&id, LONG).await, Ok(true), "ending it");
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Ended), "looking it up");
    expect!(kit.store.delete_session(&id, LONG).await, Ok(false), "ending it again");
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Ended), "looking it up again");
    Ok(())
}

pub(super) async fn a_tombstone_lets_nothing_come_back(kit: &Kit<'_>) -> Result<(), String> {
    let (id, version) = make(kit, 3).await?;
    expect!(kit.store.delete_session(&id, kit.units(20)).await, Ok(true), "ending it");
    let still_ended = async |what: &str| {
        expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Ended), "after {what}");
        Ok(())
    };
    let answer = kit.store.create_session(&id, record("copy"), LONG).await;
    expect!(answer, Err(CreateError::Exists), "making it again");
    still_ended("making it again").await?;
    for version in [version, Version(version.0 + 1)] {
        let answer = kit.store.update_session(&id, version, record("copy")).await;
        expect!(answer, Err(UpdateError::Gone), "updating it");
    }
    still_ended("updating it").await?;
    expect!(kit.store.touch_session(&id, LONG).await, Ok(()), "touching it");
    still_ended("touching it").await?;
    // Past the time that the session itself had.
    kit.advance(6).await;
    still_ended("the time of the session").await
}

pub(super) async fn a_tombstone_ends(kit: &Kit<'_>) -> Result<(), String> {
    let (id, _) = make(kit, 1000).await?;
    expect!(kit.store.delete_session(&id, kit.units(3)).await, Ok(true), "ending it");
    expect!(kit.store.touch_session(&id, LONG).await, Ok(()), "touching a tombstone");
    kit.advance(5).await;
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Unknown), "past the time of the tombstone");
    let answer = kit.store.create_session(&id, record("new"), LONG).await;
    expect!(answer, Ok(Version(_)), "making it anew");
    let (_, kept) = expect_live(kit, &id, "made anew").await?;
    expect_eq!(kept.principal.as_deref(), Some("new"), "whose it is");
    Ok(())
}

pub(super) async fn missing_sessions_are_no_error(kit: &Kit<'_>) -> Result<(), String> {
    let id = Kit::session_id();
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Unknown), "looking it up");
    expect!(kit.store.touch_session(&id, LONG).await, Ok(()), "touching it");
    expect!(kit.store.load_session(&id).await, Ok(SessionLookup::Unknown), "after touching it");
    let answer = kit.store.update_session(&id, Version(1), record("x")).await;
    expect!(answer, Err(UpdateError::Gone), "updating it");
    expect!(kit.store.delete_session(&id, kit.units(1)).await, Ok(false), "ending it");
    Ok(())
}
