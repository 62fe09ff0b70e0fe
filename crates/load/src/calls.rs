//! Calls, one after another on each connection.

use crate::{
    LoadError, MAX_FAILURES_IN_A_ROW, Outcome, Plan, Session, Target, Template, all, http::Connection,
    mcp::Answer,
};
use tokio::time::Instant;

/// Calls `template` on every connection of the plan, as `sessions` in turn (one for all, or one for each connection; none is taken for
/// an endpoint without sessions).
///
/// An answer counts when it is a result; streams are read to their end.
pub async fn calls(target: &Target, plan: Plan, sessions: &[Session], template: &Template) -> Outcome {
    let until = Instant::now() + plan.time;
    let each = plan.most.div_ceil(plan.connections.max(1) as u64);
    all((0..plan.connections.max(1)).map(|worker| {
        let session = sessions.get(worker % sessions.len().max(1)).cloned().unwrap_or_else(Session::none);
        let (target, template) = (target.clone(), template.clone());
        async move {
            let mut request = session.post(&target, &template);
            let mut outcome = Outcome::default();
            let mut answer = Answer::default();
            let mut connection = Connection::open(&target).await?;
            let (began, mut in_a_row) = (Instant::now(), 0);
            let mut now = began;
            while now < until && outcome.done < each {
                let called = one(&target, &mut connection, &mut answer, request.stamp(worker, outcome.done));
                let called = called.await;
                let after = Instant::now();
                match called {
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

async fn one(
    target: &Target,
    connection: &mut Connection,
    answer: &mut Answer,
    request: &[u8],
) -> Result<(), LoadError> {
    if !connection.is_ready() {
        *connection = Connection::open(target).await?;
    }
    answer.read(connection, request).await?;
    answer.check("the call")
}
