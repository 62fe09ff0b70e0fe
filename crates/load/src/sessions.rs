//! Sessions, opened and ended, or left open.

use crate::{
    LoadError, Outcome, Plan, Session, Target, all,
    http::Connection,
    mcp::{end_session_on, handshake_on},
    turns::{Share, Turns},
};
use tokio::sync::mpsc;

/// Opens sessions and ends them at once: `initialize`, `notifications/initialized`, DELETE count as one.
pub async fn sessions(target: &Target, plan: Plan) -> Outcome {
    let workers = plan.connections.max(1);
    let share = Share::of(plan, workers);
    all((0..workers).map(|_| {
        let target = target.clone();
        async move {
            let mut connection = Connection::open(&target).await?;
            let mut turns = Turns::begin(share);
            while turns.go_on() {
                let lived = async {
                    connection.make_ready(&target).await?;
                    let session = handshake_on(&mut connection, &target).await?;
                    end_session_on(&mut connection, &target, &session).await
                };
                turns.end(lived.await);
            }
            Ok(turns.over())
        }
    }))
    .await
}

/// Opens `count` sessions over `connections` connections, which are closed afterwards, and leaves them open.
///
/// # Errors
/// The first refusal.
pub async fn open_sessions(
    target: &Target,
    count: usize,
    connections: usize,
) -> Result<Vec<Session>, LoadError> {
    let connections = connections.clamp(1, count.max(1));
    let (sender, mut opened) = mpsc::channel(connections);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..connections {
        let share = count / connections + usize::from(worker < count % connections);
        let (target, sender) = (target.clone(), sender.clone());
        tasks.spawn(async move {
            let mut connection = Connection::open(&target).await?;
            for _ in 0..share {
                connection.make_ready(&target).await?;
                let session = handshake_on(&mut connection, &target).await?;
                if sender.send(session).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
    }
    drop(sender);
    let mut sessions = Vec::new();
    while let Some(session) = opened.recv().await {
        sessions.push(session);
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| LoadError::Worker(error.to_string()))??;
    }
    Ok(sessions)
}
