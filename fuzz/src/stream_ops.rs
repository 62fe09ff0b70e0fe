//! Any life of one stream: what its handler says and when, what the store does, how its connections end. Each event once
//! and in order, requests of ours never dropped, the response last, an end for everybody.
//!
//! The world and its checks are those of the unit tests of `bowline-proto`; here they are steered by coverage.

#[path = "../../crates/proto/src/legacy/harness/check.rs"]
mod check;
#[path = "../../crates/proto/src/legacy/harness/client.rs"]
mod client;
#[path = "../../crates/proto/src/legacy/harness/log.rs"]
mod log;
#[path = "../../crates/proto/src/legacy/harness/wire.rs"]
mod wire;
#[path = "../../crates/proto/src/legacy/harness/world.rs"]
mod world;

use arbitrary::{Result, Unstructured};
use world::{Knobs, Say};

pub fn run(data: &[u8]) {
    if let Ok(knobs) = knobs(&mut Unstructured::new(data)) {
        check::check(&knobs);
    }
}

fn knobs(u: &mut Unstructured<'_>) -> Result<Knobs> {
    let sometime = |u: &mut Unstructured<'_>| {
        Ok(match u.int_in_range(0..=2)? {
            0 => None,
            1 => Some(u.int_in_range(0..=500)?),
            _ => Some(u.int_in_range(0..=100_000)?),
        })
    };
    Ok(Knobs {
        seed: u.arbitrary::<u64>()?.max(1),
        primed: u.ratio(3, 4)?,
        lost_wakes: u.int_in_range(0..=100)?,
        failed_writes: u.int_in_range(0..=50)?,
        failed_reads: u.int_in_range(0..=50)?,
        take_over_at: sometime(u)?,
        drain_at: sometime(u)?,
        max_connection: *u.choose(&[None, Some(0), Some(1), Some(700), Some(25_000)])?,
        log_max_events: u.int_in_range(0..=30)?,
        page: u.int_in_range(1..=9)?,
        cuts: (0..u.int_in_range(0..=8)?).map(|_| u.int_in_range(0..=30_000)).collect::<Result<_>>()?,
        script: (0..u.int_in_range(1..=40)?).map(|_| say(u)).collect::<Result<_>>()?,
    })
}

fn say(u: &mut Unstructured<'_>) -> Result<(u64, Say)> {
    let pause = match u.int_in_range(0..=3)? {
        0 | 1 => 0,
        2 => u.int_in_range(0..=200)?,
        _ => u.int_in_range(0..=200_000)?,
    };
    Ok((pause, *u.choose(&[Say::Progress, Say::Log, Say::Ask, Say::CloseConnection])?))
}
