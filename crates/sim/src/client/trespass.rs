//! A client that tries what is not its own: another one's session, another one's place in a stream.

use super::{Send, Session, send};
use crate::{
    trace::{Purpose, What},
    world::World,
};
use std::{sync::Arc, time::Duration};

/// Tries everything a few times.
pub(crate) async fn try_all(world: Arc<World>, own: Arc<Session>) {
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let others: Vec<(String, String)> = {
            let seen = world.seen.lock();
            let others = seen.iter().enumerate().filter(|(client, _)| *client != own.client);
            others.filter_map(|(_, seen)| seen.clone()).collect()
        };
        for (session, cursor) in others {
            attempt(&world, &own, "another one's session and cursor", &session, Some(&cursor)).await;
            attempt(&world, &own, "another one's session", &session, None).await;
            attempt(&world, &own, "another one's cursor", &own.id, Some(&cursor)).await;
        }
    }
}

async fn attempt(world: &Arc<World>, own: &Session, what: &'static str, session: &str, cursor: Option<&str>) {
    let request = Send {
        method: "GET",
        session: Some(session),
        revision: own.model.revision(),
        cursor,
        body: None,
        deleted: None,
        own: false,
    };
    let Some(mut answer) = send(world, own.client, Purpose::Other, request).await else { return };
    let status = answer.status;
    // A stream is not read to its end: that it is one says it all.
    let leaked =
        answer.is_stream() || (status == 200 && !answer.body().await.is_ok_and(|body| body.is_empty()));
    world.trace.note(What::Trespass { what, status, leaked });
}
