//! Calls, one after another on each connection.

use crate::{
    LoadError, Outcome, Plan, Session, Target, Template, all,
    http::Connection,
    mcp::Answer,
    turns::{Share, Turns},
};

/// Calls `template` on every connection of the plan, as `sessions` in turn (one for all, or one for each connection; none is taken for
/// an endpoint without sessions).
///
/// An answer counts when it is a result; streams are read to their end.
pub async fn calls(target: &Target, plan: Plan, sessions: &[Session], template: &Template) -> Outcome {
    let workers = plan.connections.max(1);
    let share = Share::of(plan, workers);
    all((0..workers).map(|worker| {
        let session = sessions.get(worker % sessions.len().max(1)).cloned().unwrap_or_else(Session::none);
        let (target, template) = (target.clone(), template.clone());
        async move {
            let mut request = session.post(&target, &template);
            let mut answer = Answer::default();
            let mut connection = Connection::open(&target).await?;
            let mut turns = Turns::begin(share);
            while turns.go_on() {
                let request = request.stamp(worker, turns.done());
                turns.end(one(&target, &mut connection, &mut answer, request).await);
            }
            Ok(turns.over())
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
    connection.make_ready(target).await?;
    answer.read(connection, request).await?;
    answer.check("the call")
}
