//! How fast a store appends and reads: `cargo run --release -p bowline-store-redis --example measure -- redis://127.0.0.1:6379`.
//! Server and store share the machine, so the numbers are good for comparing.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for a terminal")]

use bowline_proto::cursor::StreamId;
use bowline_store::{
    BackendId, Event, EventClass, NewStream, ReadLimit, StreamKind, StreamLog as _, WriteAt,
};
use bowline_store_redis::{Options, RedisStore};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

/// How long each measurement takes.
const SPAN: Duration = Duration::from_secs(3);

fn stream(number: u64) -> NewStream {
    let mut id = [0; 16];
    getrandom::fill(&mut id).unwrap();
    id[..8].copy_from_slice(&number.to_be_bytes());
    NewStream {
        id: StreamId::from_bytes(id),
        kind: StreamKind::Standalone,
        owner: BackendId(1),
        epoch: 1,
        incarnation: 0,
        session: None,
        request_id: None,
        rerun: None,
        open_ttl: Duration::from_secs(60),
        max_events: 100,
        max_bytes: 1 << 20,
    }
}

/// Runs `writers` at once; each does one thing after the other. Returns how many things were done in a second.
async fn rate(store: &RedisStore, writers: u64, reading: bool) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let stream = stream(number);
                let id = stream.id;
                store.create(stream).await.unwrap();
                let mut done = 0;
                while Instant::now() - begun < SPAN {
                    done += 1;
                    if reading {
                        store.read_after(id, 0, ReadLimit { events: 64, bytes: 1 << 20 }).await.unwrap();
                    } else {
                        let payload = Bytes::from(vec![b'x'; 300]);
                        let at = WriteAt { stream: id, epoch: 1, offset: done };
                        store.append(at, Event { payload, class: EventClass::Kept }).await.unwrap();
                    }
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    f64::from(u32::try_from(done).unwrap()) / (Instant::now() - begun).as_secs_f64()
}

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let store = RedisStore::connect(&url, Options::default()).await.unwrap();
    for writers in [1, 64, 256] {
        println!("{writers:4} writers: {:8.0} appends/s of 300 bytes", rate(&store, writers, false).await);
    }
    for readers in [1, 64] {
        println!("{readers:4} readers: {:8.0} reads/s of an empty stream", rate(&store, readers, true).await);
    }
}
