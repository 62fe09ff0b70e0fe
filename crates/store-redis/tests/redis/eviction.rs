//! Keys that the server evicts, or somebody deletes: a reader is told so, and never gets anything wrong.

use crate::support::{ALL, LONG, at, call, connect, event, expected, figure, made, random, stream_id};
use bowline_store::{
    Appended, Mailbox as _, ReadError, SessionLookup, SessionStore as _, StreamLog as _, WriteError,
};
use bowline_store_redis::{Options, RedisStore};
use bowline_testkit::Redis;

async fn one(pattern: &str, server: &Redis) -> String {
    let keys = server.keys(pattern).await;
    assert_eq!(keys.len(), 1, "{pattern}: {keys:?}");
    keys.into_iter().next().expect("one")
}

#[tokio::test]
async fn a_stream_without_its_record_is_gone_for_everybody() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 3).await;
    server.ask(&["DEL", &one("*:s:*", &server).await]).await;
    assert_eq!(store.read_after(id, 1, ALL).await, Err(ReadError::Gone));
    assert_eq!(store.attach(id).await, Err(ReadError::Gone));
    assert_eq!(store.append(at(id, 1, 4), event(4)).await, Err(WriteError::Gone));
    assert_eq!(store.seal(at(id, 1, 4), None, LONG).await, Err(WriteError::Gone));
    // Never started again by a write; only somebody who makes it anew may, and then nothing of the former is in it.
    store.create(call(id)).await.expect("making it anew");
    let page = store.read_after(id, 0, ALL).await.expect("reading");
    assert_eq!((page.events.len(), page.tail), (0, 0));
}

#[tokio::test]
async fn a_stream_without_its_events_is_evicted_and_goes_on() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 3).await;
    server.ask(&["DEL", &one("*:l:*", &server).await]).await;
    for after in 0..3 {
        assert_eq!(store.read_after(id, after, ALL).await, Err(ReadError::Evicted { oldest: 4 }));
    }
    assert_eq!(store.append(at(id, 1, 3), event(3)).await, Ok(Appended::Again));
    assert_eq!(store.append(at(id, 1, 4), event(4)).await, Ok(Appended::New));
    assert_eq!(store.read_after(id, 3, ALL).await.map(|page| page.events), Ok(expected(3, 4)));
    assert_eq!(store.read_after(id, 2, ALL).await, Err(ReadError::Evicted { oldest: 4 }));
}

#[tokio::test]
async fn a_hole_is_never_read_over() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 5).await;
    let list = one("*:l:*", &server).await;
    let third = server.ask(&["LINDEX", &list, "2"]).await;
    server.ask(&["LREM", &list, "1", third.text()]).await;
    for after in 0..3 {
        let answer = store.read_after(id, after, ALL).await;
        assert!(
            matches!(answer, Err(ReadError::Evicted { .. } | ReadError::Lost { .. })),
            "{after}: {answer:?}"
        );
    }
    assert!(figure(&store, "store_redis_holes") > 0);
    // Another event in its place, and one too many.
    server.ask(&["LINSERT", &list, "BEFORE", third.text(), "x"]).await;
    server.ask(&["LPUSH", &list, third.text()]).await;
    let answer = store.read_after(id, 0, ALL).await;
    assert!(matches!(answer, Err(ReadError::Evicted { .. } | ReadError::Lost { .. })), "{answer:?}");
}

/// What is deleted at random, while streams are written and read: what is read is right, or it is an error.
#[tokio::test]
async fn what_is_deleted_at_random_is_never_read_wrong() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let (mut pages, mut errors) = (0, 0);
    for _ in 0..60 {
        let id = made(&store, 6).await;
        let keys: Vec<_> =
            server.keys("*").await.into_iter().filter(|key| !key.contains("registry")).collect();
        for _ in 0..2 {
            let victim = &keys[usize::try_from(random() % keys.len() as u64).expect("small")];
            server.ask(&["DEL", victim]).await;
        }
        let mut tail = 6;
        for offset in 7..=8 {
            match store.append(at(id, 1, offset), event(offset)).await {
                Ok(Appended::New) => tail = offset,
                Err(WriteError::Gone) => {}
                other => panic!("{other:?}"),
            }
        }
        for after in 0..=tail {
            match store.read_after(id, after, ALL).await {
                Ok(page) => {
                    assert_eq!(page.events, expected(after, tail), "after {after}");
                    pages += 1;
                }
                Err(ReadError::Gone | ReadError::Evicted { .. }) => errors += 1,
                other => panic!("{other:?}"),
            }
        }
        server.ask(&["FLUSHALL"]).await;
        assert_eq!(store.read_after(id, 1, ALL).await, Err(ReadError::Gone));
    }
    assert!(pages > 50 && errors > 50, "{pages} pages and {errors} errors: too few of one of them");
}

/// A server that evicts what it likes, with too little memory.
#[tokio::test]
async fn a_server_that_evicts_is_survived() {
    let server = Redis::start("maxmemory-policy allkeys-random").await;
    let store: RedisStore = connect(&server.url(), Options::default()).await;
    let used: u64 = server.info("used_memory").await.parse().expect("a number");
    server.ask(&["CONFIG", "SET", "maxmemory", &(used + 300_000).to_string()]).await;
    let mut streams = Vec::new();
    let (mut pages, mut errors) = (0, 0);
    for _ in 0..400 {
        let id = stream_id();
        store.create(call(id)).await.expect("making a stream");
        let mut tail = 0;
        for offset in 1..=20 {
            match store.append(at(id, 1, offset), event(offset)).await {
                Ok(_) => tail = offset,
                Err(WriteError::Gone) => break,
                other => panic!("{other:?}"),
            }
        }
        streams.push((id, tail));
    }
    assert_ne!(server.info("evicted_keys").await, "0");
    for (id, tail) in streams {
        for after in [0, tail / 2, tail] {
            match store.read_after(id, after, ALL).await {
                Ok(page) => {
                    assert_eq!(page.events, expected(after, tail));
                    pages += 1;
                }
                Err(ReadError::Gone | ReadError::Evicted { .. }) => errors += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(pages > 10 && errors > 10, "{pages} pages and {errors} errors: too few of one of them");
}

#[tokio::test]
async fn sessions_and_letters_that_are_evicted_are_unknown() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = stream_id();
    assert_eq!(store.put_letter(id, "a", "1".into(), LONG).await, Ok(true));
    assert_eq!(store.put_letter(id, "b", "2".into(), LONG).await, Ok(true));
    // Only the letters: their keys must not keep the next ones out.
    server.ask(&["DEL", &one("*:m:*", &server).await]).await;
    assert_eq!(store.letters_after(id, 0).await, Ok(vec![]));
    assert_eq!(store.put_letter(id, "a", "1".into(), LONG).await, Ok(true));
    assert_eq!(store.letters_after(id, 0).await.map(|letters| letters.len()), Ok(1));
    assert_eq!(store.load_session("nobody").await, Ok(SessionLookup::Unknown));
}
