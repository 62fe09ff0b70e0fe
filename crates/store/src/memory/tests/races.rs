//! Real threads: the kit's tasks take turns on one.

use super::*;
use crate::MemoryStats;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

#[test]
fn one_of_many_threads_seals() {
    let store = MemoryStore::default();
    for round in 0..200 {
        create(&store, round).unwrap();
        let won = AtomicU64::new(0);
        thread::scope(|scope| {
            for epoch in 1..=4 {
                let (store, won) = (&store, &won);
                scope.spawn(move || {
                    let at = WriteAt { epoch, ..at(round, 1) };
                    if ready(store.seal(at, Some(Bytes::from(format!("{epoch}"))), MINUTE)).is_ok() {
                        won.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1, "round {round}");
    }
}

#[test]
fn the_accounts_are_even_after_many_threads_under_pressure() {
    let event = 100 + OVERHEAD;
    let limits = MemoryLimits { streams: 40, bytes: 100 * event, ..MemoryLimits::default() };
    let store = MemoryStore::new(limits);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..500 {
                    // Each stream has two threads that meet there.
                    let n = (thread / 2) * 10_000 + round % 50;
                    let _ = create(store, n);
                    for _ in 0..4 {
                        let Err(ReadError::Lost { tail }) = read(store, n, u64::MAX) else { break };
                        let _ = append(store, n, tail + 1, 100, EventClass::Droppable);
                        store.trim(id(n), tail / 2);
                    }
                    let tail = read(store, n, 0).map_or(0, |page| page.tail);
                    let _ = seal(store, n, tail + 1, 100);
                    if round % 7 == 0 {
                        ready(store.remove(id(n))).unwrap();
                    }
                    let stats = store.stats();
                    assert!(stats.bytes <= 200 * event, "{stats:?}");
                    assert!(stats.streams_open + stats.streams_sealed <= 40 + 4, "{stats:?}");
                }
            });
        }
    });
    assert!(store.stats().streams_evicted > 0, "there was no pressure: {:?}", store.stats());
    for n in (0..50).chain(10_000..10_050) {
        ready(store.remove(id(n))).unwrap();
    }
    let left = store.stats();
    let MemoryStats { streams_open, streams_sealed, events, bytes, .. } = left;
    assert_eq!((streams_open, streams_sealed, events, bytes), (0, 0, 0, 0));
}
