//! Keys that the store keeps for all its backends, where none was given: made once, known to all, replaced one by one.
//!
//! The list has at most two. The first signs and both verify. A new key is put behind the one in force first, so that every backend knows
//! it by the time it signs; then it goes to the front. Each key carries the time at which it was made, so whichever backend looks at
//! the list knows what is due, and of two that do it at once the store lets one win.

use super::{alive, jittered, patiently};
use crate::{core::Core, random};
use bowline_proto::cursor::Keyring;
use bytes::Bytes;
use std::{sync::Weak, time::Duration};

/// How often a backend looks at the list.
const LOOK: Duration = Duration::from_secs(5);

/// How often while it has none yet.
const LOOK_AT_FIRST: Duration = Duration::from_millis(500);

/// How long a new key is known before it signs: well above what a backend takes to look.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The bytes of a key that are random; the rest is the time at which it was made, in seconds since 1970.
const RANDOM: usize = 32;
const LENGTH: usize = RANDOM + 8;

/// Follows the list until the endpoint is gone or has left.
pub(super) async fn follow(core: Weak<Core>) {
    let mut in_force = Vec::new();
    loop {
        let pause = {
            let Some(core) = alive(&core) else { return };
            match agree(&core, &in_force).await {
                Ok(keys) if keys != in_force => match Keyring::from_bytes(&keys) {
                    Ok(ring) => {
                        let ids: Vec<u8> = ring.key_ids().collect();
                        tracing::info!(?ids, "the keys that the backends share");
                        core.keys.replace(ring);
                        in_force = keys;
                    }
                    Err(error) => tracing::error!(%error, "the store keeps keys that are none"),
                },
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the shared keys could not be read"),
            }
            if in_force.is_empty() { LOOK_AT_FIRST } else { jittered(LOOK) }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The keys in force, after what is due was done. A store that forgot them is told again: what clients hold stays valid.
async fn agree(core: &Core, in_force: &[Bytes]) -> Result<Vec<Bytes>, bowline_store::Unavailable> {
    let keys = patiently(core.store.shared_keys()).await?;
    if keys.is_empty() && !in_force.is_empty() {
        return patiently(core.store.swap_keys(keys, in_force.to_vec())).await;
    }
    match due(&keys, core.wall_seconds(), core.options.rotate_key_every) {
        Some(after) => patiently(core.store.swap_keys(keys, after)).await,
        None => Ok(keys),
    }
}

/// What the list has to become now, if anything.
fn due(keys: &[Bytes], now: u64, every: Option<Duration>) -> Option<Vec<Bytes>> {
    let Some(first) = keys.first() else { return Some(vec![make(now)]) };
    let age = |key: &Bytes| made_at(key).map(|at| now.saturating_sub(at));
    let newer = keys.get(1).filter(|second| made_at(second) > made_at(first));
    if let Some(newer) = newer {
        // One that is on its way: it signs when everybody knows it.
        return (age(newer)? >= KNOWN_FOR.as_secs()).then(|| vec![newer.clone(), first.clone()]);
    }
    (age(first)? >= every?.as_secs()).then(|| vec![first.clone(), make(now)])
}

fn make(now: u64) -> Bytes {
    let mut key = random::key().to_vec();
    key.extend_from_slice(&now.to_be_bytes());
    key.into()
}

fn made_at(key: &Bytes) -> Option<u64> {
    if key.len() != LENGTH {
        return None;
    }
    key[RANDOM..].try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Option<Duration> = Some(Duration::from_secs(3_600));

    #[test]
    fn the_first_backend_makes_one_and_nobody_replaces_it_unasked() {
        let keys = due(&[], 1_000, None).unwrap();
        assert_eq!((keys.len(), made_at(&keys[0])), (1, Some(1_000)));
        assert_eq!(due(&keys, 1_000_000_000, None), None);
        assert_ne!(due(&[], 1_000, None).unwrap(), keys);
    }

    #[test]
    fn a_new_key_is_known_before_it_signs_and_the_old_one_verifies_on() {
        let first = due(&[], 0, EVERY).unwrap();
        assert_eq!(due(&first, 3_599, EVERY), None);
        let both = due(&first, 3_600, EVERY).unwrap();
        assert_eq!((both.len(), &both[0]), (2, &first[0]));
        assert_eq!(due(&both, 3_659, EVERY), None);
        let turned = due(&both, 3_660, EVERY).unwrap();
        assert_eq!(turned, [both[1].clone(), both[0].clone()]);
        // A clock that is behind changes nothing.
        assert_eq!(due(&turned, 0, EVERY), None);
        assert_eq!(due(&turned, 7_199, EVERY), None);
        let next = due(&turned, 7_200, EVERY).unwrap();
        assert_eq!((next.len(), &next[0]), (2, &turned[0]));
        assert!(!next.contains(&first[0]));
    }

    #[test]
    fn keys_that_somebody_else_put_there_are_left_alone() {
        let keys = [Bytes::from_static(&[7; 32]), Bytes::from_static(&[8; 32])];
        assert_eq!(due(&keys, 1_000_000_000, EVERY), None);
    }
}
