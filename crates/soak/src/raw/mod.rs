//! Clients on bare sockets that do all that the protocol lets a client do: they poll as they are told (SEP-1699), answer
//! questions, cancel, delete, leave, and let sessions expire.

mod call;
mod session;

use crate::{
    chance::Chance,
    journal::{Ask, Intent, Journal, Plan, now},
    options::Tempo,
};
use parking_lot::Mutex;
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// What all raw clients have in common.
#[derive(Debug)]
pub struct Common {
    /// How fast everything goes.
    pub tempo: Tempo,
    /// Where they write.
    pub journal: Journal,
    /// When they stop, in milliseconds since 1970.
    pub until: u64,
    /// Sessions and cursors that somebody else may try to use: (token's owner, session, cursor).
    pub found: Mutex<Vec<(String, String, Option<String>)>>,
}

/// Who a client is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// The network in front of the program that is its own.
    pub address: SocketAddr,
    /// Its token, and the name that the program knows it by.
    pub token: String,
    /// The name of the token.
    pub principal: String,
}

/// What comes in a call: its plan, what the client means to do, and after how long.
pub(crate) fn plan(chance: &mut Chance, tempo: &Tempo, left: u64) -> (Plan, Intent, Duration) {
    let ms = match chance.below(10) {
        0..3 => 0,
        3..5 => chance.between(0, tempo.longest_call / 40),
        _ => chance.scaled(tempo.longest_call / 60, tempo.longest_call),
    };
    let ms = ms.min(left);
    let intent = match chance.below(100) {
        0..6 => Intent::Cancel,
        6..9 => Intent::Delete,
        9..13 => Intent::Leave,
        _ => Intent::Finish,
    };
    let plan = Plan {
        ms,
        progress: if chance.percent(50) { chance.between(1, 2 + ms / 300) } else { 0 },
        size: if chance.percent(12) { chance.scaled(4_096, 700_000) } else { chance.between(1, 2_000) },
        ask: match chance.below(10) {
            0 => Ask::Elicit,
            1 => Ask::Sample,
            _ => Ask::None,
        },
        log: chance.percent(15),
    };
    (plan, intent, chance.ms(0, ms + 200))
}

/// Works until the time is over.
pub async fn work(common: Arc<Common>, identity: Identity, mut chance: Chance) {
    // Not all at the same moment.
    tokio::time::sleep(chance.ms(0, common.tempo.longest_pause)).await;
    let mut number = 0;
    while now() < common.until {
        number += 1;
        let name = format!("{}/0.{number}", identity.name);
        session::one(&common, &identity, &name, &mut chance).await;
        tokio::time::sleep(chance.ms(0, common.tempo.longest_pause / 4)).await;
    }
}
