//! Wake-ups that get lost, come twice, come late: everything is read all the same.

use crate::{
    kit::Opener,
    support::{at, connect, event, figure, made, options, random},
};
use bowline_store::{Store, StreamLog as _, WakeBus as _};
use bowline_testkit::Redis;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// Nothing comes any more after so long without anything, also on a machine that does other things.
const QUIET: Duration = Duration::from_secs(1);

/// A user who may neither publish nor subscribe: every wake-up between backends is lost.
#[test]
fn two_backends_conform_with_every_wake_up_lost() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start("user app on >secret ~* resetchannels +@all"));
    let mut opener = Opener::new(format!("redis://app:secret@{}", server.address()), 2);
    opener.options.backstop = Duration::from_millis(800);
    opener.assert_conforms();
}

/// Everything that is published comes three times, twice of it later.
#[test]
fn two_backends_conform_with_wake_ups_doubled_and_late() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start(""));
    let echo = runtime.spawn(echo(server.address()));
    Opener::new(server.url(), 2).assert_conforms();
    assert!(!echo.is_finished(), "the echo ended before the checks");
    echo.abort();
    let _ = runtime.block_on(echo);
}

/// The connection on which wake-ups come is cut all the time.
#[test]
fn two_backends_conform_while_subscribers_are_cut_off() {
    let runtime = runtime();
    let server = runtime.block_on(Redis::start(""));
    let address = server.address();
    let cutting = runtime.spawn(async move {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        let mut answer = [0; 64];
        loop {
            stream.write_all(b"CLIENT KILL TYPE pubsub\r\n").await.expect("sending");
            let _ = stream.read(&mut answer).await.expect("an answer");
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    });
    let mut opener = Opener::new(server.url(), 2);
    opener.options.backstop = Duration::from_millis(800);
    opener.assert_conforms();
    assert!(!cutting.is_finished(), "the cutting ended before the checks");
    cutting.abort();
    let _ = runtime.block_on(cutting);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Publishes again what it hears, 20 and 60 ms later; not what it published itself.
async fn echo(address: std::net::SocketAddr) {
    let mut listening = TcpStream::connect(address).await.expect("the server listens");
    listening.write_all(b"PSUBSCRIBE kit-*\r\n").await.expect("subscribing");
    let (sender, mut queue) = tokio::sync::mpsc::channel::<(String, String)>(100_000);
    tokio::spawn(async move {
        let mut publishing = TcpStream::connect(address).await.expect("the server listens");
        let mut answer = [0; 4096];
        while let Some((channel, message)) = queue.recv().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
            for _ in 0..2 {
                // A longer message means nothing to a store; the echo knows its own by its length.
                let text = format!("PUBLISH {channel} {message}\r\nPUBLISH {channel} {message}-echo\r\n");
                publishing.write_all(text.as_bytes()).await.expect("publishing");
                let _ = publishing.read(&mut answer).await.expect("an answer");
            }
        }
    });
    let mut heard = Vec::new();
    let mut last = String::new();
    loop {
        let mut bytes = [0; 4096];
        let count = listening.read(&mut bytes).await.expect("messages");
        assert!(count > 0, "the server ended");
        heard.extend_from_slice(&bytes[..count]);
        // A message is four bulk strings: pmessage, pattern, channel, text.
        let text = String::from_utf8_lossy(&heard).into_owned();
        let lines: Vec<&str> = text.split("\r\n").collect();
        let mut at = 0;
        while let Some(index) = lines[at..].iter().position(|line| *line == "pmessage") {
            let start = at + index;
            let (Some(channel), Some(message), Some(_)) =
                (lines.get(start + 4), lines.get(start + 6), lines.get(start + 7))
            else {
                break;
            };
            if message.len() == 32 && *message != last {
                last = (*message).to_owned();
                let _ = sender.try_send(((*channel).to_owned(), (*message).to_owned()));
            }
            at = start + 7;
        }
        heard = lines[at..].join("\r\n").into_bytes();
    }
}

#[tokio::test]
async fn a_wake_up_comes_from_another_backend_and_only_where_somebody_waits() {
    let server = Redis::start("").await;
    let prefix = format!("w-{:x}", random());
    let options = || {
        options(|options| {
            options.prefix.clone_from(&prefix);
            // What wakes here is a message, or nothing.
            options.backstop = Duration::ZERO;
        })
    };
    let [writer, reader] = [connect(&server.url(), options()).await, connect(&server.url(), options()).await];
    let [id, other] = [made(&writer, 0).await, made(&writer, 0).await];
    let mut wakeups = reader.subscribe(id);
    // The one for the registration, and the one for the connection.
    while timeout(QUIET, wakeups.changed()).await.is_ok() {}
    writer.append(at(other, 1, 1), event(1)).await.expect("appending");
    assert!(timeout(Duration::from_millis(300), wakeups.changed()).await.is_err(), "woken for nothing");
    assert_eq!(figure(&reader, "store_redis_wakeups"), 0);
    writer.append(at(id, 1, 1), event(1)).await.expect("appending");
    timeout(PATIENCE, wakeups.changed()).await.expect("a wake-up");
    assert_eq!(figure(&reader, "store_redis_wakeups"), 1);
    assert_eq!(figure(&reader, "store_subscriptions"), 1);
    drop(wakeups);
    crate::support::until("nobody is registered", async || server.keys("*:w:*").await.is_empty()).await;
    writer.append(at(id, 1, 2), event(2)).await.expect("appending");
    assert_eq!(figure(&reader, "store_subscriptions"), 0);
    let _: &dyn Store = &reader;
}

#[tokio::test]
async fn after_a_restart_of_the_server_everybody_is_woken_and_registered_again() {
    let mut server = Redis::start("").await;
    let options = || options(|options| options.backstop = Duration::ZERO);
    let [writer, reader] = [connect(&server.url(), options()).await, connect(&server.url(), options()).await];
    let mut wakeups = reader.subscribe(made(&writer, 0).await);
    while timeout(QUIET, wakeups.changed()).await.is_ok() {}
    server.restart().await;
    timeout(PATIENCE, wakeups.changed()).await.expect("a wake-up for what may have been missed");
    // The server forgot it all, and was told again.
    crate::support::until("it is registered", async || !server.keys("*:w:*").await.is_empty()).await;
}
