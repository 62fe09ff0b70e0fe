//! Servers that sleep, die, come back: an answer within the deadline, a circuit breaker, nothing lost that is on disk.

use crate::support::{
    ALL, LONG, at, call, connect, event, expected, figure, made, options, stream_id, until,
};
use bowline_store::{
    Appended, CreateError, ReadError, SessionStore as _, StreamLog as _, Unavailable, WriteError,
};
use bowline_store_redis::{ConnectError, Options, RedisStore};
use bowline_testkit::Redis;
use std::time::Duration;
use tokio::time::Instant;

/// A server may answer 503 within a second.
const WITHIN: Duration = Duration::from_millis(950);

async fn is_back(store: &RedisStore) -> bool {
    store.load_session("nobody").await.is_ok()
}

#[tokio::test]
async fn a_server_that_sleeps_is_unavailable_within_the_deadline() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 1).await;
    server.pause();
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        let answer = store.read_after(id, 0, ALL).await;
        best = best.min(Instant::now() - begun);
        assert!(matches!(answer, Err(ReadError::Unavailable(_))), "{answer:?}");
    }
    // The best of three: the machine may be busy, a longer wait would be there every time.
    assert!(best < WITHIN, "{best:?}");
    until("the breaker opens", async || figure(&store, "store_redis_breaker_opens") == 1).await;
    // Now it is told at once, whatever is asked.
    let begun = Instant::now();
    let append = store.append(at(id, 1, 2), event(2)).await;
    assert!(
        matches!(&append, Err(WriteError::Unavailable(Unavailable(why))) if why.contains("breaker")),
        "{append:?}"
    );
    let create = store.create(call(stream_id())).await;
    assert!(matches!(create, Err(CreateError::Unavailable(_))), "{create:?}");
    let took = Instant::now() - begun;
    assert!(took < Duration::from_millis(600), "failing fast took {took:?}");
    assert_eq!(figure(&store, "store_redis_connected"), 0);
    server.resume();
    until("the server is back", async || is_back(&store).await).await;
    assert_eq!(figure(&store, "store_redis_connected"), 1);
    // Whether the append was sent is not known; a retry tells.
    store.append(at(id, 1, 2), event(2)).await.expect("appending");
    let page = store.read_after(id, 0, ALL).await.expect("reading");
    assert_eq!(page.events, expected(0, 2));
}

#[tokio::test]
async fn many_callers_are_told_at_the_same_time() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 1).await;
    server.pause();
    let begun = Instant::now();
    let callers: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.read_after(id, 0, ALL).await })
        })
        .collect();
    for caller in callers {
        assert!(matches!(caller.await.expect("a caller"), Err(ReadError::Unavailable(_))));
    }
    let took = Instant::now() - begun;
    // One after the other they would take minutes.
    assert!(took < WITHIN * 4, "{took:?}");
    server.resume();
    until("the server is back", async || is_back(&store).await).await;
}

#[tokio::test]
async fn a_short_sleep_is_not_noticed() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 1).await;
    server.pause();
    let reading = tokio::spawn({
        let store = store.clone();
        async move { store.read_after(id, 0, ALL).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.resume();
    assert_eq!(reading.await.expect("a reader").map(|page| page.events), Ok(expected(0, 1)));
    assert_eq!(figure(&store, "store_redis_failures"), 0);
}

#[tokio::test]
async fn a_server_that_died_is_unavailable_at_once_and_found_again() {
    let mut server = Redis::start("appendonly yes\nappendfsync always").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 3).await;
    server.kill().await;
    until("the breaker opens", async || {
        let begun = Instant::now();
        let answer = store.read_after(id, 0, ALL).await;
        let took = Instant::now() - begun;
        assert!(matches!(answer, Err(ReadError::Unavailable(_))), "{answer:?}");
        assert!(took < WITHIN, "{took:?}");
        figure(&store, "store_redis_breaker_opens") == 1
    })
    .await;
    server.restart().await;
    until("the server is back", async || is_back(&store).await).await;
    let page = store.read_after(id, 0, ALL).await.expect("reading what was kept");
    assert_eq!(page.events, expected(0, 3));
    assert_eq!(store.append(at(id, 1, 4), event(4)).await, Ok(Appended::New));
}

/// Writers and readers go on through restarts: what was acknowledged is there, in order, once.
#[tokio::test]
async fn restarts_in_the_middle_lose_nothing_that_was_acknowledged() {
    let mut server = Redis::start("appendonly yes\nappendfsync always").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 0).await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for offset in 1..=300 {
                while let Err(error) = store.append(at(id, 1, offset), event(offset)).await {
                    assert!(matches!(error, WriteError::Unavailable(_)), "offset {offset}: {error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            store.seal(at(id, 1, 301), None, LONG).await
        }
    });
    let reader = tokio::spawn({
        let store = store.clone();
        async move {
            let mut seen = Vec::new();
            loop {
                match store.read_after(id, seen.len() as u64, ALL).await {
                    Ok(page) => {
                        seen.extend(page.events);
                        if page.sealed && page.tail == seen.len() as u64 {
                            return seen;
                        }
                    }
                    Err(ReadError::Unavailable(_)) => {}
                    Err(error) => panic!("after {}: {error}", seen.len()),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.restart().await;
    }
    let sealed = writer.await.expect("the writer");
    // The answer of the first try may have got lost.
    assert!(matches!(sealed, Ok(_) | Err(WriteError::Unavailable(_))), "{sealed:?}");
    until("it is sealed", async || store.seal(at(id, 1, 301), None, LONG).await.is_ok()).await;
    assert_eq!(reader.await.expect("the reader"), expected(0, 300));
}

#[tokio::test]
async fn functions_that_were_flushed_are_loaded_again() {
    let server = Redis::start("").await;
    // That of another version, which stays.
    let another = "#!lua name=bowline_1_00000000\nredis.register_function('bowline_1_00000000_read', function() return 1 end)";
    assert_eq!(server.ask(&["FUNCTION", "LOAD", another]).await.text(), "bowline_1_00000000");
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 1).await;
    assert_eq!(server.ask(&["FCALL", "bowline_1_00000000_read", "0"]).await.number(), 1);
    assert_eq!(server.ask(&["FUNCTION", "LIST"]).await.list().len(), 2);
    server.ask(&["FUNCTION", "FLUSH"]).await;
    assert_eq!(store.append(at(id, 1, 2), event(2)).await, Ok(Appended::New));
    let scripts =
        connect(&server.url(), options(|o| o.scripting = bowline_store_redis::Scripting::Scripts)).await;
    server.ask(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(scripts.append(at(id, 1, 3), event(3)).await, Ok(Appended::New));
}

#[tokio::test]
async fn what_cannot_be_used_is_named() {
    let server = Redis::start("user app on >secret ~* &* +@all").await;
    let url = server.url();
    let error = |url: String, options: Options| async move {
        RedisStore::connect(&url, options).await.expect_err("it cannot be used")
    };
    let nobody = error("redis://127.0.0.1:1".to_owned(), Options::default()).await;
    assert!(
        matches!(&nobody, ConnectError::Unreachable { server, .. } if server == "127.0.0.1:1"),
        "{nobody}"
    );
    let wrong = error(format!("redis://app:mistake@{}", server.address()), Options::default()).await;
    assert!(matches!(wrong, ConnectError::Unreachable { .. }), "{wrong}");
    assert!(!wrong.to_string().contains("mistake"), "{wrong}");
    let _first = connect(&url, options(|o| o.partitions = 16)).await;
    let second = error(url.clone(), options(|o| o.partitions = 32)).await;
    assert!(matches!(&second, ConnectError::Layout { theirs, .. } if theirs == "1:16"), "{second}");
    let _other = connect(
        &url,
        options(|o| {
            o.partitions = 32;
            o.prefix = "other".to_owned();
        }),
    )
    .await;
    server.pause();
    let begun = Instant::now();
    let silent = error(url, options(|o| o.connect_timeout = Duration::from_millis(200))).await;
    assert!(matches!(silent, ConnectError::Unreachable { .. }), "{silent}");
    assert!(Instant::now() - begun < Duration::from_millis(1_900), "as it was told, not as usual");
    server.resume();
}
