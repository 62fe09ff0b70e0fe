//! Servers that come back with less than they had acknowledged: the writer completes the log, or its readers are told.

use crate::support::{ALL, LONG, at, connect, event, expected, figure, made, options, payload, until};
use bowline_store::{Appended, ReadError, StreamLog as _, WriteError};
use bowline_store_redis::{Options, RedisStore};
use bowline_testkit::{Redis, has_role};
use std::time::Duration;

/// A server that will remember 5 of the 10 events that the store appended.
async fn forgetful(options: Options) -> (Redis, RedisStore, bowline_proto::cursor::StreamId) {
    let server = Redis::start("enable-debug-command yes").await;
    let store = connect(&server.url(), options).await;
    let id = made(&store, 5).await;
    assert_eq!(server.ask(&["SAVE"]).await.text(), "OK");
    for offset in 6..=10 {
        store.append(at(id, 1, offset), event(offset)).await.expect("appending");
    }
    (server, store, id)
}

/// Reads until the store is there, and says what came.
async fn read(
    store: &RedisStore,
    id: bowline_proto::cursor::StreamId,
    after: u64,
) -> Result<Vec<bytes::Bytes>, ReadError> {
    loop {
        match store.read_after(id, after, ALL).await {
            Err(ReadError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => return other.map(|page| page.events),
        }
    }
}

#[tokio::test]
async fn the_writer_appends_again_what_was_lost() {
    let (mut server, store, id) = forgetful(Options::default()).await;
    let other = connect(&server.url(), Options::default()).await;
    server.restart().await;
    // Another backend, ahead of what the server remembers, is never told that it is lost.
    assert_eq!(read(&other, id, 10).await, Ok(vec![]));
    assert_eq!(read(&other, id, 0).await, Ok(expected(0, 10)));
    until("it is counted", async || figure(&store, "store_redis_events_resent") >= 5).await;
    assert_eq!(store.append(at(id, 1, 11), event(11)).await, Ok(Appended::New));
    assert_eq!(read(&other, id, 9).await, Ok(expected(9, 11)));
}

#[tokio::test]
async fn an_append_completes_the_log_before_it() {
    let (server, store, id) = forgetful(Options::default()).await;
    // The server forgets without a loss of the connection: nobody notices but who writes.
    assert_eq!(server.ask(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE"]).await.text(), "OK");
    let list = server.keys("*:l:*").await.into_iter().next().expect("the events");
    assert_eq!(server.ask(&["LLEN", &list]).await.number(), 5, "the server did not forget");
    assert_eq!(store.append(at(id, 1, 11), event(11)).await, Ok(Appended::New));
    assert_eq!(read(&store, id, 0).await, Ok(expected(0, 11)));
    assert_eq!(figure(&store, "store_redis_events_resent"), 5);
}

#[tokio::test]
async fn a_reader_has_the_writer_complete_the_log() {
    let (server, store, id) = forgetful(Options::default()).await;
    let other = connect(&server.url(), Options::default()).await;
    for reader in [&store, &other] {
        assert_eq!(server.ask(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE"]).await.text(), "OK");
        assert_eq!(read(reader, id, 10).await, Ok(vec![]));
        assert_eq!(read(reader, id, 0).await, Ok(expected(0, 10)));
    }
}

#[tokio::test]
async fn a_seal_that_was_lost_is_made_again() {
    for last in [Some(payload(11)), None] {
        let (mut server, store, id) = forgetful(Options::default()).await;
        assert_eq!(store.seal(at(id, 1, 11), last.clone(), LONG).await, Ok(Appended::New));
        server.restart().await;
        // Nobody asks for it: it is the writer that looks after it.
        until("the stream is sealed again", async || {
            let page = store.read_after(id, 5, ALL).await;
            page.is_ok_and(|page| page.sealed && page.events == expected(5, 10 + u64::from(last.is_some())))
        })
        .await;
    }
}

#[tokio::test]
async fn what_nobody_remembers_is_lost_and_said_to_be() {
    // The writer died too.
    let (mut server, store, id) = forgetful(Options::default()).await;
    let other = connect(&server.url(), options(|o| o.settle = Duration::from_millis(300))).await;
    drop(store);
    server.restart().await;
    assert_eq!(read(&other, id, 10).await, Err(ReadError::Lost { tail: 5 }));
    assert_eq!(read(&other, id, 0).await, Ok(expected(0, 5)));
    // Whoever seals it has the say about what comes after.
    assert_eq!(other.seal(at(id, 2, 6), Some("lost".into()), LONG).await, Ok(Appended::New));
    assert_eq!(read(&other, id, 10).await, Err(ReadError::Lost { tail: 6 }));
}

#[tokio::test]
async fn a_stream_that_cannot_be_completed_is_given_up() {
    let two = payload(10).len() * 2 + 1;
    let (mut server, store, id) = forgetful(options(|o| o.tail_stream_bytes = two)).await;
    server.restart().await;
    until("it is given up", async || figure(&store, "store_redis_streams_lost") == 1).await;
    // No offset is given out a second time.
    for offset in [6, 11] {
        assert_eq!(store.append(at(id, 1, offset), event(offset)).await, Err(WriteError::Gone));
    }
    assert_eq!(store.seal(at(id, 1, 11), None, LONG).await, Err(WriteError::Gone));
    assert_eq!(read(&store, id, 5).await, Err(ReadError::Gone));
}

#[tokio::test]
async fn a_stream_whose_making_was_lost_is_gone() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 2).await;
    server.ask(&["FLUSHALL"]).await;
    assert_eq!(store.append(at(id, 1, 3), event(3)).await, Err(WriteError::Gone));
    assert_eq!(read(&store, id, 2).await, Err(ReadError::Gone));
}

/// A primary dies, a sentinel promotes a replica that missed the last events.
#[tokio::test]
async fn a_failover_by_sentinel_loses_nothing_while_the_writer_lives() {
    let mut primary = Redis::start("").await;
    let replica = primary.replica("").await;
    let sentinel = primary.sentinel(1).await;
    let url = format!("redis+sentinel://{}/main", sentinel.address());
    let store = connect(&url, Options::default()).await;
    let other = connect(&url, Options::default()).await;
    let id = made(&store, 5).await;
    until("the replica has it", async || {
        replica.keys("*:l:*").await.len() == 1 && replica.info("master_link_status").await == "up"
    })
    .await;
    // It follows nobody for a moment, which the primary does not live long enough to notice.
    replica.ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
    for offset in 6..=10 {
        store.append(at(id, 1, offset), event(offset)).await.expect("appending");
    }
    primary.kill().await;
    has_role(&replica, "master").await;
    assert_eq!(read(&other, id, 10).await, Ok(vec![]));
    assert_eq!(read(&other, id, 0).await, Ok(expected(0, 10)));
    assert!(figure(&store, "store_redis_events_resent") >= 5, "the replica had it all");
    let mut wakeups = bowline_store::WakeBus::subscribe(&other, id);
    let mut offset = 11;
    // Wake-ups come from the new primary.
    until("a wake-up", async || {
        tokio::time::timeout(Duration::from_millis(200), other_wake(&other)).await.is_ok()
    })
    .await;
    while tokio::time::timeout(Duration::from_millis(300), wakeups.changed()).await.is_ok() {}
    store.append(at(id, 1, offset), event(offset)).await.expect("appending");
    tokio::time::timeout(Duration::from_secs(10), wakeups.changed()).await.expect("a wake-up");
    offset += 1;
    assert_eq!(store.append(at(id, 1, offset), event(offset)).await, Ok(Appended::New));
}

/// That the store has a connection for wake-ups again.
async fn other_wake(store: &RedisStore) {
    while figure(store, "store_redis_listens") < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A primary that sleeps is replaced too; when it wakes up, it is nobody's any more.
#[tokio::test]
async fn a_primary_that_sleeps_is_replaced() {
    let primary = Redis::start("").await;
    let replica = primary.replica("").await;
    let sentinel = primary.sentinel(1).await;
    let url = format!("redis+sentinel://{}/main", sentinel.address());
    let store = connect(&url, Options::default()).await;
    let id = made(&store, 3).await;
    assert_eq!(primary.ask(&["WAIT", "1", "5000"]).await.number(), 1);
    primary.pause();
    let reading = read(&store, id, 0);
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), reading).await, Ok(Ok(expected(0, 3))));
    has_role(&replica, "master").await;
    assert_eq!(figure(&store, "store_redis_breaker_opens"), 1);
    primary.resume();
    // It takes itself for a primary until the sentinel tells it otherwise, and nobody talks to it.
    for offset in 4..=8 {
        assert_eq!(store.append(at(id, 1, offset), event(offset)).await, Ok(Appended::New));
    }
    assert_eq!(read(&store, id, 0).await, Ok(expected(0, 8)));
    let list = replica.keys("*:l:*").await.into_iter().next().expect("the events");
    assert_eq!(replica.ask(&["LLEN", &list]).await.number(), 8);
}
