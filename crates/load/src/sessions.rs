//! Sessions, opened and ended, or left open.

use crate::{
    LoadError, MAX_FAILURES_IN_A_ROW, Outcome, Plan, Session, Target, all,
    http::Connection,
    mcp::{end_session_on, handshake_on},
};
use tokio::{sync::mpsc, time::Instant};

/// Opens sessions and ends them at once: `initialize`, `notifications/initialized`, DELETE count as one.
pub async fn sessions(target: &Target, plan: Plan) -> Outcome {
    let until = Instant::now() + plan.time;
    let each = plan.most.div_ceil(plan.connections.max(1) as u64);
    all((0..plan.connections.max(1)).map(|_| {
        let target = target.clone();
        async move {
            let mut outcome = Outcome::default();
            let mut connection = Connection::open(&target).await?;
            let (began, mut in_a_row) = (Instant::now(), 0);
            let mut now = began;
            while now < until && outcome.done < each {
                let lived = async {
                    if !connection.is_ready() {
                        connection = Connection::open(&target).await?;
                    }
                    let session = handshake_on(&mut connection, &target).await?;
                    end_session_on(&mut connection, &target, &session).await
                };
                let lived = lived.await;
                let after = Instant::now();
                match lived {
                    Ok(()) => {
                        outcome.done += 1;
                        outcome.latency.add(after - now);
                        in_a_row = 0;
                    }
                    Err(error) => {
                        outcome.fail(&error);
                        in_a_row += 1;
                        if in_a_row == MAX_FAILURES_IN_A_ROW {
                            break;
                        }
                    }
                }
                now = after;
            }
            outcome.time = now - began;
            Ok(outcome)
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
                if !connection.is_ready() {
                    connection = Connection::open(&target).await?;
                }
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
