//! Loads a store file: to measure it, or to be killed while it does.
//!
//! - `load rate PATH full|os WRITERS SECONDS`: appends from so many writers, each waiting for its answer; prints the rate
//! - `load acks PATH NAME WRITERS`: writes for ever, and prints a line for each answer; `NAME` makes its ids unlike those of others
//! - `load log PATH BYTES`: writes while a reader keeps the log from being copied into the file, until the log has so many
//!   bytes; then prints a line and waits
//! - `load look PATH`: opens the file as any SQLite program does, and closes it

#[path = "../tests/support/payload.rs"]
mod payload;
#[path = "../tests/support/traffic.rs"]
mod traffic;

use bowline_proto::{cursor::StreamId, jsonrpc::Raw, revision::Revision};
use bowline_store::{
    BackendId, Event, EventClass, Mailbox as _, NewStream, SessionRecord, SessionStore as _, StreamKind,
    StreamLog as _, WriteAt,
};
use bowline_store_sqlite::{Durability, Options, SqliteStore};
use bytes::Bytes;
use payload::payload;
use std::{
    collections::BTreeSet,
    env,
    error::Error,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};
use traffic::Ack;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const HOUR: Duration = Duration::from_hours(1);

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rate", path, durability, writers, seconds] => {
            let durability = if durability == "os" { Durability::Os } else { Durability::Full };
            rate(Path::new(path), durability, writers.parse()?, Duration::from_secs(seconds.parse()?)).await
        }
        ["acks", path, name, writers] => acks(Path::new(path), name, writers.parse()?).await,
        ["log", path, bytes] => log(Path::new(path), bytes.parse()?).await,
        ["look", path] => look(Path::new(path)),
        _ => Err("usage: see the first lines of examples/load.rs".into()),
    }
}

fn id(name: &str, writer: u64, number: u64) -> StreamId {
    let name = name.bytes().fold(0_u64, |name, byte| name.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let number = u128::from(name) << 64 | u128::from(writer) << 40 | u128::from(number);
    StreamId::from_bytes(number.to_be_bytes())
}

fn call(id: StreamId) -> NewStream {
    NewStream {
        id,
        kind: StreamKind::Call,
        owner: BackendId(1),
        epoch: 1,
        incarnation: 0,
        session: None,
        request_id: Some("1".to_owned()),
        rerun: None,
        open_ttl: HOUR,
        max_events: 100_000,
        max_bytes: 1 << 30,
    }
}

const fn at(stream: StreamId, offset: u64) -> WriteAt {
    WriteAt { stream, epoch: 1, offset }
}

async fn rate(path: &Path, durability: Durability, writers: u64, span: Duration) -> Outcome {
    let mut options = Options::default();
    options.durability = durability;
    let store = SqliteStore::open(path, options)?;
    let start = Instant::now();
    let mut tasks: JoinSet<Outcome<(u64, Duration)>> = JoinSet::new();
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let payload = Bytes::from(vec![b'x'; 300]);
            let (mut count, mut slowest) = (0, Duration::ZERO);
            for number in 0.. {
                let id = id("rate", writer, number);
                store.create(call(id)).await?;
                for offset in 1..=100 {
                    let asked = Instant::now();
                    let event = Event { payload: payload.clone(), class: EventClass::Kept };
                    store.append(at(id, offset), event).await?;
                    slowest = slowest.max(asked.elapsed_since());
                    count += 1;
                    if start.elapsed_since() > span {
                        return Ok((count, slowest));
                    }
                }
                store.seal(at(id, 101), Some(payload.clone()), HOUR).await?;
            }
            Ok((count, slowest))
        });
    }
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while let Some(done) = tasks.join_next().await {
        let (appends, worst) = done??;
        count += appends;
        slowest = slowest.max(worst);
    }
    let seconds = start.elapsed_since().as_secs_f64();
    let figure =
        |name| store.figures().iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value);
    let commits = figure("store_commits").max(1);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let (appends, batch) = (count as f64 / seconds, figure("store_changes") as f64 / commits as f64);
    let commit = figure("store_commit_micros") / commits;
    writeln!(
        io::stdout(),
        "{durability:?}, {writers} writers: {appends:.0} appends/s, {batch:.1} changes a commit, {commit} us a commit, \
         slowest append {slowest:?}"
    )?;
    Ok(())
}

trait Elapsed {
    fn elapsed_since(self) -> Duration;
}

impl Elapsed for Instant {
    fn elapsed_since(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }
}

/// How it is said.
fn line(ack: &Ack) -> String {
    match ack {
        Ack::Created(id) => format!("created {id:?}"),
        Ack::Appended(id, offset) => format!("appended {id:?} {offset}"),
        Ack::Sealed(id, offset) => format!("sealed {id:?} {offset}"),
        Ack::Letter(id) => format!("letter {id:?}"),
        Ack::Session(id, version) => format!("session {id} {version}"),
    }
}

fn say(ack: &Ack) -> Outcome {
    // One write for a line: a kill leaves whole lines, or a last one without its end.
    let line = line(ack) + "\n";
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()?;
    Ok(())
}

async fn acks(path: &Path, name: &str, writers: u64) -> Outcome {
    let store = SqliteStore::open(path, Options::default())?;
    let mut tasks: JoinSet<Outcome> = JoinSet::new();
    for writer in 0..writers {
        let (store, name) = (store.clone(), name.to_owned());
        tasks.spawn(async move {
            for number in 0.. {
                let id = id(&name, writer, number);
                store.create(call(id)).await?;
                say(&Ack::Created(id))?;
                let session = format!("{id:?}");
                let mut version = store.create_session(&session, record(id), HOUR).await?;
                say(&Ack::Session(session.clone(), version.0))?;
                let last = 2 + (writer + number) % 12;
                for offset in 1..last {
                    let event = Event { payload: payload(id, offset), class: EventClass::Kept };
                    store.append(at(id, offset), event).await?;
                    say(&Ack::Appended(id, offset))?;
                }
                if store.put_letter(id, "key", payload(id, 0), HOUR).await? {
                    say(&Ack::Letter(id))?;
                }
                version = store.update_session(&session, version, record(id)).await?;
                say(&Ack::Session(session, version.0))?;
                if number % 3 != 0 {
                    store.seal(at(id, last), Some(payload(id, last)), HOUR).await?;
                    say(&Ack::Sealed(id, last))?;
                }
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn record(standalone: StreamId) -> SessionRecord {
    SessionRecord {
        principal: Some("somebody".to_owned()),
        revision: Revision::NEWEST_LEGACY,
        initialize: Raw::empty_object(),
        initialized: true,
        log_level: None,
        subscriptions: BTreeSet::new(),
        standalone,
        notes: bowline_store::Notes::new(),
    }
}

fn look(path: &Path) -> Outcome {
    let conn = rusqlite::Connection::open(path)?;
    conn.query_row("SELECT count(*) FROM streams", [], |_| Ok(()))?;
    Ok(())
}

async fn log(path: &Path, bytes: u64) -> Outcome {
    let mut options = Options::default();
    options.durability = Durability::Os;
    let store = SqliteStore::open(path, options)?;
    let stream = id("log", 0, 0);
    store.create(call(stream)).await?;
    let reader = rusqlite::Connection::open(path)?;
    reader.execute_batch("BEGIN")?;
    reader.query_row("SELECT count(*) FROM streams", [], |_| Ok(()))?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let mut offset = 0;
    while std::fs::metadata(&log)?.len() < bytes {
        offset += 1;
        let payload = Bytes::from(vec![b'x'; 100 << 10]);
        store.append(at(stream, offset), Event { payload, class: EventClass::Kept }).await?;
    }
    say(&Ack::Appended(stream, offset))?;
    std::future::pending::<()>().await;
    Ok(())
}
