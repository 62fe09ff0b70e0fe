//! What the sequences are made of.

use super::Config;
use proptest::prelude::*;

/// Streams, sessions and backends in a sequence; few, so that operations meet.
pub(super) const STREAMS: usize = 3;
pub(super) const SESSIONS: usize = 2;
pub(super) const BACKENDS: usize = 2;

/// One operation. Offsets are relative to the reference's tail, so that most of them are near what is right.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create { stream: usize, standalone: bool, epoch: u64, max_events: u64, units: u32 },
    CreateSealed { stream: usize, epoch: u64, units: u32 },
    Append { stream: usize, epoch: u64, ahead: i64, kept: bool },
    Seal { stream: usize, epoch: u64, ahead: i64, cancelled: bool, units: u32 },
    Read { stream: usize, behind: i64, events: usize, bytes: usize },
    Attach { stream: usize },
    Delivered { stream: usize, older: u64, behind: i64 },
    Trim { stream: usize, behind: i64 },
    Remove { stream: usize },
    PutLetter { stream: usize, key: u8 },
    Letters { stream: usize, after: u64 },
    DropMailbox { stream: usize },
    CreateSession { session: usize, units: u32 },
    LoadSession { session: usize },
    UpdateSession { session: usize, stale: bool, mark: u8 },
    TouchSession { session: usize, units: u32 },
    DeleteSession { session: usize, units: u32 },
    Renew { backend: usize, draining: bool, units: u32 },
    Release { backend: usize },
    BackendState { backend: usize },
    Advance { units: u32 },
}

pub(super) fn sequences(config: &Config) -> impl Strategy<Value = Vec<Operation>> + use<> {
    prop::collection::vec(operation(config.expiry), 1..=config.operations)
}

/// Lives are odd numbers of units, and time passes by even ones, so that nothing is ever looked at in the very moment in
/// which it ends.
fn life(expiry: bool) -> impl Strategy<Value = u32> {
    let short = u32::from(expiry);
    prop_oneof![short => Just(3_u32), short => Just(7), 4 => Just(10_001)]
}

fn operation(expiry: bool) -> impl Strategy<Value = Operation> {
    let life = || life(expiry);
    let stream = || 0..STREAMS;
    // Two writers, and the odd third.
    let epoch = || prop_oneof![6 => Just(1_u64), 4 => Just(2), 1 => Just(3)];
    let ahead = || prop_oneof![10 => Just(1_i64), 2 => Just(0), 1 => -2..0_i64, 1 => 2..4_i64];
    let streams = prop_oneof![
           4 => (stream(), any::<bool>(), 1..=2_u64, prop_oneof![Just(3_u64), Just(1_000)], life()).prop_map(
               |(stream, standalone, epoch, max_events, units)| Operation::Create {
                   stream, standalone, epoch, max_events, units,
               }),
           1 => (stream(), 1..=2_u64, life())
               .prop_map(|(stream, epoch, units)| Operation::CreateSealed { stream, epoch, units }),
           14 => (stream(), epoch(), ahead(), any::<bool>())
               .prop_map(|(stream, epoch, ahead, kept)| Operation::Append { stream, epoch, ahead, kept }),
           2 => (stream(), epoch(), ahead(), any::<bool>(), life()).prop_map(
               |(stream, epoch, ahead, cancelled, units)| Operation::Seal { stream, epoch, ahead, cancelled, units }),
           8 => (stream(), -1..6_i64, 1..4_usize, prop_oneof![Just(0_usize), Just(20), Just(1_000)])
    .prop_map(|(stream, behind, events, bytes)| Operation::Read { stream, behind, events, bytes }),
           5 => stream().prop_map(|stream| Operation::Attach { stream }),
           4 => (stream(), 0..2_u64, 0..3_i64)
               .prop_map(|(stream, older, behind)| Operation::Delivered { stream, older, behind }),
           2 => (stream(), -1..4_i64).prop_map(|(stream, behind)| Operation::Trim { stream, behind }),
           1 => stream().prop_map(|stream| Operation::Remove { stream }),
       ];
    let mailboxes = prop_oneof![
        4 => (stream(), 0..4_u8).prop_map(|(stream, key)| Operation::PutLetter { stream, key }),
        3 => (stream(), 0..4_u64).prop_map(|(stream, after)| Operation::Letters { stream, after }),
        1 => stream().prop_map(|stream| Operation::DropMailbox { stream }),
    ];
    let session = || 0..SESSIONS;
    let sessions = prop_oneof![
        3 => (session(), life()).prop_map(|(session, units)| Operation::CreateSession { session, units }),
        4 => session().prop_map(|session| Operation::LoadSession { session }),
        4 => (session(), prop::bool::weighted(0.3), any::<u8>())
            .prop_map(|(session, stale, mark)| Operation::UpdateSession { session, stale, mark }),
        2 => (session(), life()).prop_map(|(session, units)| Operation::TouchSession { session, units }),
        1 => (session(), life()).prop_map(|(session, units)| Operation::DeleteSession { session, units }),
    ];
    let backend = || 0..BACKENDS;
    let backends = prop_oneof![
        (backend(), any::<bool>(), life()).prop_map(|(backend, draining, units)| Operation::Renew {
            backend,
            draining,
            units
        }),
        backend().prop_map(|backend| Operation::Release { backend }),
        backend().prop_map(|backend| Operation::BackendState { backend }),
    ];
    prop_oneof![
        20 => streams,
        4 => mailboxes,
        6 => sessions,
        2 => backends,
        3 * u32::from(expiry) => prop_oneof![Just(2_u32), Just(4)].prop_map(|units| Operation::Advance { units }),
    ]
}
