//! Streams that are open and only read.

use crate::{LoadError, Session, Target, Template, http::Connection};
use bowline_proto::sse::{Decoder, Limits};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::task::JoinSet;

/// Streams that are open; they are closed when this is dropped.
#[derive(Debug)]
pub struct Opened {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    messages: AtomicU64,
    ended: AtomicU64,
}

impl Opened {
    /// How many were opened.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// How many messages came on all of them so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.counts.messages.load(Relaxed)
    }

    /// How many of them have ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.counts.ended.load(Relaxed)
    }
}

/// Opens one stream in each session, each on its own connection: the session's own (a GET) where there is no `template`, else that of a
/// call. Returns when the heads of all answers are there.
///
/// # Errors
/// The first that was refused, or is answered with something else than a stream.
pub async fn streams(
    target: &Target,
    sessions: &[Session],
    template: Option<&Template>,
) -> Result<Opened, LoadError> {
    let counts = Arc::new(Counts::default());
    let mut tasks = JoinSet::new();
    for (worker, session) in sessions.iter().enumerate() {
        let request = match template {
            Some(template) => session.post(target, template).stamp(worker, 0).to_vec(),
            None => target.request("GET", &session.lines(), ""),
        };
        let mut connection = Connection::open(target).await?;
        connection.send(&request).await?;
        let head = connection.head().await?;
        if head.status != 200 || !head.events {
            let mut body = Vec::new();
            let _ = connection.rest(&mut body, 4096).await;
            return Err(LoadError::refused("opening a stream", head.status, &body));
        }
        let counts = counts.clone();
        tasks.spawn(async move {
            let mut decoder = Decoder::new(Limits::default());
            while let Ok(Some(piece)) = connection.piece().await {
                let mut input = &piece[..];
                while let Ok(Some(event)) = decoder.next_event(&mut input) {
                    if event.message().is_some() {
                        counts.messages.fetch_add(1, Relaxed);
                    }
                }
            }
            counts.ended.fetch_add(1, Relaxed);
        });
    }
    Ok(Opened { tasks, counts })
}
