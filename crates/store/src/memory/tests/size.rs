//! What a parked call and an idle session cost, added up from sizes and capacities (an allocator that counts would need
//! unsafe code). The allocator's own headers are not in it: about 8 bytes for each allocation.

use super::*;
use crate::{SessionStore, memory::expiring::Expiring};

const COUNT: u64 = 20_000;

/// A `Bytes` that is shared: three words that its holders point to.
const SHARED: usize = 24;

/// An entry of a B-tree takes its own size in leaves of eleven places, which random keys fill by two thirds, and a share of
/// the inner nodes.
fn in_a_tree(entry: usize) -> usize {
    entry * 3 / 2 + 8
}

/// The table's buckets for each entry, each with a byte of the hash.
fn in_a_table<K: Clone + Eq + std::hash::Hash + Ord, V>(maps: &[&Expiring<K, V>]) -> usize {
    let (mut entries, mut buckets) = (0, 0);
    for map in maps {
        let (len, capacity, _) = map.layout();
        entries += len;
        // A table of this capacity is full to seven eighths.
        buckets += capacity * 8 / 7;
    }
    buckets * (size_of::<K>() + size_of::<usize>() + 1) / entries
}

#[test]
fn an_open_call_with_three_events_takes_700_bytes() {
    let store = MemoryStore::default();
    for n in 0..COUNT {
        create(&store, n).unwrap();
        for offset in 1..=3 {
            append(&store, n, offset, 100, EventClass::Droppable).unwrap();
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
    let log = maps[0].layout().2;
    let table = in_a_table(&maps);
    let queue = in_a_tree(size_of::<(u64, StreamId)>());
    let whose = {
        let stream = call(0);
        1 + stream.session.as_deref().map_or(0, str::len) + stream.request_id.as_deref().map_or(0, str::len)
    };
    let total = events + log + whose + table + queue;
    println!("{total} = events {events} + log {log} + whose {whose} + table {table} + queue {queue}");
    assert!(total <= 700, "{total}");
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
    let entry = maps[0].layout().2;
    let table = in_a_table(&maps);
    let queue = in_a_tree(size_of::<(u64, std::sync::Arc<str>)>());
    let total = id + record + entry + table + queue;
    println!("{total} = id {id} + record {record} + entry {entry} + table {table} + queue {queue}");
    assert!(total <= 1_024, "{total}");
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
        for len in [shard.streams.layout().0, shard.sessions.layout().0] {
            assert!((fair / 2..fair * 2).contains(&len), "{len} where {fair} would be fair");
        }
    }
}
