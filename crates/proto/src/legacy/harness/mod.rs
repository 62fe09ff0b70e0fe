//! Both halves, a model of the log and a client on virtual time: what the two promise together.

mod check;
mod client;
mod log;
mod wire;
mod world;

use self::check::check;
use self::world::{Knobs, LOST, Say};
use proptest::prelude::*;
use std::collections::VecDeque;

fn calm() -> Knobs {
    Knobs {
        seed: 1,
        primed: true,
        script: vec![(10, Say::Progress), (5_000, Say::Ask), (20, Say::Log)],
        cuts: VecDeque::new(),
        lost_wakes: 0,
        failed_writes: 0,
        failed_reads: 0,
        take_over_at: None,
        drain_at: None,
        max_connection: Some(25_000),
        log_max_events: 1_000,
        page: 8,
    }
}

#[test]
fn a_calm_call_is_one_connection() {
    let world = check(&calm());
    assert_eq!(world.client.requests.len(), 1);
    assert_eq!(world.client.received.len(), 4);
    assert_eq!(world.client.empty_events, 1, "the priming event and nothing else");
}

#[test]
fn a_long_call_is_held_and_parked_in_turns() {
    let world = check(&Knobs { script: vec![(10, Say::Progress), (3_600_000, Say::Ask)], ..calm() });
    // 25 s held and up to 30 s away: an hour takes some 65 to 75 polls, far below what clients tolerate.
    assert!((60..80).contains(&world.client.requests.len()), "{}", world.client.requests.len());
}

#[test]
fn a_client_that_was_not_primed_is_held_for_as_long_as_it_takes() {
    let script = vec![(10, Say::CloseConnection), (3_600_000, Say::Ask)];
    let world = check(&Knobs { primed: false, drain_at: Some(1_000_000), script, ..calm() });
    assert_eq!(world.client.requests.len(), 1);
}

#[test]
fn a_handler_that_closes_the_connection_gives_it_up_at_once() {
    let script = vec![(10, Say::Progress), (100, Say::CloseConnection), (200, Say::Ask), (10, Say::Log)];
    let world = check(&Knobs { script, ..calm() });
    assert_eq!(world.client.requests.len(), 2);
    assert!(world.client.requests[1].0 >= 2_000);
}

#[test]
fn without_any_wake_up_it_is_slower_and_not_wrong() {
    let world = check(&Knobs { lost_wakes: 100, ..calm() });
    assert_eq!(world.client.requests.len(), 1);
    assert!(world.now.0 < 9_000, "{:?}", world.now);
}

#[test]
fn a_dead_owner_ends_the_call_with_an_error() {
    let script = vec![(10, Say::Progress), (3_600_000, Say::Ask)];
    let world = check(&Knobs { take_over_at: Some(40_000), script, ..calm() });
    assert_eq!(world.client.received.last().map(String::as_str), Some(LOST));
    assert!(world.now.0 < 60_000 + 40_000, "{:?}", world.now);
}

fn say() -> impl Strategy<Value = (u64, Say)> {
    let pause = prop_oneof![6 => Just(0u64), 3 => 0u64..200, 2 => 0u64..20_000, 1 => 0u64..200_000];
    let say = prop_oneof![
        5 => Just(Say::Progress),
        3 => Just(Say::Log),
        2 => Just(Say::Ask),
        1 => Just(Say::CloseConnection),
    ];
    (pause, say)
}

fn knobs() -> impl Strategy<Value = Knobs> {
    let percent = || prop_oneof![2 => Just(0u64), 2 => 0u64..50];
    let cut = prop_oneof![0u64..100, 0u64..30_000];
    let sometime = || prop::option::weighted(0.3, prop_oneof![0u64..500, 0u64..100_000]);
    let hold = prop_oneof![Just(None), Just(Some(1)), Just(Some(25_000)), (1u64..5_000).prop_map(Some)];
    (
        (1u64.., prop::bool::weighted(0.75), prop::collection::vec(say(), 1..40)),
        (prop::collection::vec_deque(cut, 0..8), 0u64..=100, percent(), percent()),
        (sometime(), sometime(), hold, 0usize..30, 1usize..10),
    )
        .prop_map(|((seed, primed, script), (cuts, lost_wakes, failed_writes, failed_reads), rest)| {
            let (take_over_at, drain_at, max_connection, log_max_events, page) = rest;
            Knobs {
                seed,
                primed,
                script,
                cuts,
                lost_wakes,
                failed_writes,
                failed_reads,
                take_over_at,
                drain_at,
                max_connection,
                log_max_events,
                page,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn each_event_once_and_in_order_whatever_happens(knobs in knobs()) {
        check(&knobs);
    }
}
