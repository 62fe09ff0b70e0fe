//! Tasks that a listening client is told of, wherever they run.

use super::{super::listen::Listener, log};
use crate::{core::Core, fleet::BACKSTOP};
use bowline_proto::cursor::TaskId;
use std::{collections::BTreeSet, sync::Arc};
use tokio::task::JoinSet;

/// A task that is listened to: its id as the client has it, and as it is.
pub(in crate::modern) type Followed = (String, TaskId);

/// Those of the tasks that there are, for this principal. While the store is away, those that may be.
pub(in crate::modern) async fn known(
    core: &Arc<Core>,
    principal: Option<&str>,
    ids: &BTreeSet<String>,
) -> Vec<Followed> {
    let mut known = Vec::new();
    let mut away = false;
    for id in ids {
        let Some(task) = log::named(core, principal, id) else { continue };
        // A store that does not answer is not asked for each.
        let found = if away { Err(log::Unread::Away) } else { log::read(core, task).await };
        away |= matches!(found, Err(log::Unread::Away));
        if !matches!(found, Err(log::Unread::Unknown)) {
            known.push((id.clone(), task));
        }
    }
    known
}

/// Tells `listener` how each task is now, and whenever that changes, until it is over or the set is dropped.
pub(in crate::modern) fn follow(
    core: &Arc<Core>,
    tasks: Vec<Followed>,
    listener: &Arc<Listener>,
) -> JoinSet<()> {
    let mut following = JoinSet::new();
    for (id, task) in tasks {
        following.spawn(one(core.clone(), id, task, listener.clone()));
    }
    following
}

async fn one(core: Arc<Core>, id: String, task: TaskId, listener: Arc<Listener>) {
    // Subscribed before anything is read, so that nothing falls in between.
    let mut wakeups = core.store.subscribe(task.stream);
    let mut told = None;
    loop {
        match log::read(&core, task).await {
            Ok(found) => {
                let over = found.state.is_terminal();
                if told.as_ref() != Some(&found) {
                    listener.tell(&found.to_notification(&id, log::poll_interval(&core, &found)));
                    told = Some(found);
                }
                if over {
                    return;
                }
            }
            Err(log::Unread::Unknown) => return,
            Err(log::Unread::Away) => {}
        }
        tokio::select! {
            () = wakeups.changed() => {}
            () = tokio::time::sleep(BACKSTOP) => {}
        }
    }
}
