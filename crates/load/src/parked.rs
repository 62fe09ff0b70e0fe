//! Calls whose client was sent away, and the client that comes back.

use crate::{
    LoadError, Outcome, Plan, Session, Target, Template, all,
    http::{Connection, Head},
    turns::{Share, Turns},
};
use bowline_proto::sse::{Decoder, Limits};
use std::fmt;
use std::time::Duration;

/// A call that runs while nobody is connected to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Parked {
    /// Which of the sessions it belongs to, by its place among them.
    pub session: usize,
    /// The last event id that its client has.
    pub last_event_id: String,
}

impl fmt::Debug for Parked {
    /// Without the event id, which is a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parked").field("session", &self.session).finish_non_exhaustive()
    }
}

/// What a connection to a stream showed.
#[derive(Debug, Default)]
struct Shown {
    last_event_id: Option<String>,
    events: u64,
    /// Whether the response was among them.
    over: bool,
}

/// Reads a stream until it ends, or until `hold` after an event id came: then the connection is of no more use.
async fn read_stream(connection: &mut Connection, hold: Duration) -> Result<Shown, LoadError> {
    let mut shown = Shown::default();
    let mut decoder = Decoder::new(Limits::default());
    loop {
        let piece = if shown.last_event_id.is_some() {
            match tokio::time::timeout(hold, connection.piece()).await {
                Ok(piece) => piece?,
                Err(_) => return Ok(shown),
            }
        } else {
            connection.piece().await?
        };
        let Some(piece) = piece else { return Ok(shown) };
        let mut input = &piece[..];
        while let Some(event) = decoder
            .next_event(&mut input)
            .map_err(|_| LoadError::Malformed("an event of its stream is too large"))?
        {
            if event.message().is_some() {
                shown.events += 1;
            }
            shown.over |= event.message().is_some_and(is_response);
            if event.sets_id {
                shown.last_event_id = event.id.as_deref().map(str::to_owned);
            }
        }
    }
}

/// Whether a message is a response, by its look: a request or a notification names a method.
fn is_response(message: &str) -> bool {
    !message.contains("\"method\"")
}

fn expect_stream(head: &Head, doing: &'static str) -> Result<(), LoadError> {
    if head.status == 200 && head.events {
        Ok(())
    } else {
        Err(LoadError::refused(doing, head.status, b"not a stream of events"))
    }
}

/// Starts `count` calls and leaves each as soon as its stream ends or nothing came for `hold` after an event id. Sessions get them in turn.
///
/// # Errors
/// The first call that was refused, or whose stream showed no event id.
pub async fn park(
    target: &Target,
    sessions: &[Session],
    template: &Template,
    count: usize,
    connections: usize,
    hold: Duration,
) -> Result<Vec<Parked>, LoadError> {
    let workers = connections.clamp(1, count.max(1));
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..workers {
        let (target, template) = (target.clone(), template.clone());
        let sessions: Vec<Session> = sessions.to_vec();
        tasks.spawn(async move {
            let mut parked = Vec::new();
            let mut connection = Connection::open(&target).await?;
            for n in (worker..count).step_by(workers) {
                connection.make_ready(&target).await?;
                let session = n % sessions.len().max(1);
                let client = sessions.get(session).cloned().unwrap_or_else(Session::none);
                // Ids must differ within a session: the worker's own, counted up.
                let mut request = client.post(&target, &template);
                connection.send(request.stamp(worker, n as u64)).await?;
                expect_stream(&connection.head().await?, "a call that is to be parked")?;
                let shown = read_stream(&mut connection, hold).await?;
                match shown.last_event_id {
                    Some(last_event_id) if !shown.over => parked.push(Parked { session, last_event_id }),
                    _ => {
                        return Err(LoadError::Malformed(
                            "the stream of a call that is to be parked had no event id, or its response",
                        ));
                    }
                }
            }
            Ok(parked)
        });
    }
    let mut parked = Vec::with_capacity(count);
    while let Some(ended) = tasks.join_next().await {
        parked.extend(ended.map_err(|error| LoadError::Worker(error.to_string()))??);
    }
    Ok(parked)
}

/// Polls for parked calls, each worker for its share of them in turn: GET with `Last-Event-ID`, read until the stream ends or nothing came
/// for `hold` after an event id. A call whose response came is not polled for again.
pub async fn polls(
    target: &Target,
    plan: Plan,
    sessions: &[Session],
    parked: &[Parked],
    hold: Duration,
) -> Outcome {
    let workers = plan.connections.clamp(1, parked.len().max(1));
    let share = Share::of(plan, workers);
    all((0..workers).map(|worker| {
        let target = target.clone();
        let mut mine: Vec<(Session, String)> = parked
            .iter()
            .skip(worker)
            .step_by(workers)
            .map(|call| {
                let session = sessions.get(call.session).cloned().unwrap_or_else(Session::none);
                (session, call.last_event_id.clone())
            })
            .collect();
        async move {
            let mut connection = Connection::open(&target).await?;
            let (mut turns, mut next) = (Turns::begin(share), 0);
            while turns.go_on() && !mine.is_empty() {
                next %= mine.len();
                let (session, last_event_id) = &mut mine[next];
                let polled = async {
                    connection.make_ready(&target).await?;
                    let lines = format!("{}Last-Event-ID: {last_event_id}\r\n", session.lines());
                    connection.send(&target.request("GET", &lines, "")).await?;
                    expect_stream(&connection.head().await?, "a poll")?;
                    read_stream(&mut connection, hold).await
                };
                let Some(shown) = turns.end(polled.await) else {
                    next += 1;
                    continue;
                };
                turns.add_events(shown.events);
                if let Some(id) = shown.last_event_id {
                    *last_event_id = id;
                }
                if shown.over {
                    mine.swap_remove(next);
                } else {
                    next += 1;
                }
            }
            Ok(turns.over())
        }
    }))
    .await
}
