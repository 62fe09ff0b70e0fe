//! What a parked call and an idle session cost, added up from sizes and capacities (an allocator that counts would need
//! unsafe code). The allocator's own headers are not in it: about 8 bytes for each allocation, of which a call has two.

use super::*;
use crate::{SessionStore, memory::expiring::Expiring};

const COUNT: u64 = 20_000;

/// A `Bytes` that is shared: three words that its holders point to.
const SHARED: usize = 24;

/// What the maps take for each entry, beside what the entries point to.
fn each<K: Eq + std::hash::Hash, V>(maps: &[&Expiring<K, V>]) -> usize {
    let (heap, entries) = maps.iter().fold((0, 0), |(heap, len), map| (heap + map.heap(), len + map.len()));
    heap / entries
}

#[test]
fn an_open_call_with_three_events_takes_few_bytes() {
    let store = MemoryStore::default();
    for n in 0..COUNT {
        create(&store, n).unwrap();
        for offset in 1..=3 {
            let params = format!(r#"{{"progressToken":"{n}","progress":{offset}}}"#);
            let event = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
            let event = Event { payload: event.into(), class: EventClass::Droppable };
            ready(store.append(at(n, offset), event)).unwrap();
        }
        assert_eq!(read(&store, n, 0).unwrap().events.len(), 3);
    }
    let shards: Vec<_> = store.inner.shards.iter().map(|shard| shard.lock()).collect();
    let maps: Vec<_> = shards.iter().map(|shard| &shard.streams).collect();
    let now = store.inner.origin.now();
    let events = (0..COUNT)
        .filter_map(|n| maps.iter().find_map(|map| map.get(&id(n), now)))
        .map(super::super::log::Log::heap)
        .max()
        .unwrap();
    let entry = each(&maps);
    let total = events + entry;
    println!("{total} = events and whose it is {events} + entry {entry}");
    assert!(total <= 320, "{total}");
}

#[test]
fn a_stream_is_a_record_of_few_bytes() {
    assert_eq!(size_of::<super::super::log::Log>(), 104);
}

#[test]
fn an_idle_session_takes_less_than_a_kilobyte() {
    let store = MemoryStore::default();
    let name = |n| format!("{n:032}");
    for n in 0..COUNT {
        ready(store.create_session(&name(n), record(), MINUTE)).unwrap();
    }
    let shards: Vec<_> = store.inner.shards.iter().map(|shard| shard.lock()).collect();
    let maps: Vec<_> = shards.iter().map(|shard| &shard.sessions).collect();
    let counts = 2 * size_of::<usize>();
    let initialize = record().initialize.as_str().len();
    assert_eq!(initialize, 350);
    let id = counts + name(0).len();
    let record = counts + size_of::<SessionRecord>() + initialize + SHARED;
    let entry = each(&maps);
    let total = id + record + entry;
    println!("{total} = id {id} + record {record} + entry {entry}");
    assert!(total <= 900, "{total}");
}

#[test]
fn keys_spread_over_the_shards() {
    let store = MemoryStore::default();
    for n in 0..COUNT {
        create(&store, n).unwrap();
        ready(store.create_session(&format!("session-{n}"), record(), MINUTE)).unwrap();
    }
    let fair = usize::try_from(COUNT).unwrap() / store.inner.shards.len();
    for shard in &store.inner.shards {
        let shard = shard.lock();
        for len in [shard.streams.len(), shard.sessions.len()] {
            assert!((fair / 2..fair * 2).contains(&len), "{len} where {fair} would be fair");
        }
    }
}
