//! The kit can fail: stores with one fault each are caught, by the check that names the fault.

mod store;

use bowline_store::{MemoryStore, Store};
use bowline_store_kit::{Clock, Harness, PausedClock, checks, model, run_check};
use std::sync::Arc;
use store::{Fault, Faulty};

struct WithFault(Fault);

impl Harness for WithFault {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Faulty { store: MemoryStore::default(), fault: self.0, made: parking_lot::Mutex::default() })
    }

    fn clock(&self) -> &dyn Clock {
        &PausedClock
    }
}

/// Every fault with a check that has to catch it.
const CAUGHT_BY: &[(Fault, &str)] = &[
    (Fault::SecondSealWins, "exactly_one_seal_wins"),
    (Fault::MadeSealedStaysOpen, "a_stream_is_made_with_its_seal"),
    (Fault::AppendTwice, "a_retried_append_changes_nothing"),
    (Fault::NoFence, "a_lower_epoch_is_fenced"),
    (Fault::AnyEpochIsARetry, "an_event_of_an_earlier_epoch_is_no_retry"),
    (Fault::HoleAfterEviction, "a_full_standalone_stream_drops_its_oldest"),
    (Fault::GoneReadsEmpty, "an_open_stream_expires"),
    (Fault::LostReadsEmpty, "a_position_after_the_tail_is_lost"),
    (Fault::TailOfThePage, "a_read_is_a_run"),
    (Fault::EmptyPages, "a_read_is_a_run"),
    (Fault::NoTrim, "trimmed_events_are_evicted"),
    (Fault::SealedLivesOn, "a_sealed_stream_is_kept_from_its_seal_on"),
    (Fault::GapsAreFilled, "offsets_are_contiguous_from_one"),
    (Fault::NoConflict, "one_of_many_updates_wins"),
    (Fault::TombstoneResurrected, "a_tombstone_lets_nothing_come_back"),
    (Fault::NoTombstone, "an_ended_session_leaves_a_tombstone"),
    (Fault::LoadTouches, "an_unused_session_expires"),
    (Fault::LettersTwice, "a_letter_is_there_once"),
    (Fault::LettersBackwards, "letters_come_in_order"),
    (Fault::LettersOnce, "a_letter_is_there_once"),
    (Fault::LeaseForEver, "a_lease_is_in_force_for_its_time"),
    (Fault::BreaksAreForgotten, "a_break_between_renewals_is_told"),
    (Fault::DrainingIsAlive, "a_draining_backend_says_so"),
    (Fault::AnyGeneration, "an_older_reader_delivers_nothing"),
    (Fault::NoWakes, "changes_wake"),
    (Fault::ChangesDoNotWake, "a_changed_session_wakes"),
    (Fault::SettledBackendsStay, "backends_are_listed"),
    (Fault::DeadBackendsVanish, "backends_are_listed"),
    (Fault::SealedIsOpen, "open_streams_are_found_by_their_owner"),
    (Fault::LimitIsIgnored, "open_streams_are_found_by_their_owner"),
    (Fault::AnySwapWins, "keys_are_replaced_by_who_knows_them"),
    (Fault::LosersKeepTheirKeys, "one_of_many_sets_of_keys_wins"),
    (Fault::AnybodyTakesOver, "one_of_many_take_overs_wins"),
    (Fault::SealedIsTakenOver, "what_is_over_is_not_taken_over"),
    (Fault::IncarnationsAreForgotten, "a_stream_that_is_made_again_is_another_one"),
    (Fault::LateSubscription, "a_reader_that_subscribes_first_misses_nothing"),
];

/// What no sequence of the model shows: it takes a waiter, several backends, or what all who use a store share.
const BEYOND_THE_MODEL: &[Fault] = &[
    Fault::NoWakes,
    Fault::LateSubscription,
    Fault::BreaksAreForgotten,
    Fault::ChangesDoNotWake,
    Fault::SettledBackendsStay,
    Fault::DeadBackendsVanish,
    Fault::SealedIsOpen,
    Fault::LimitIsIgnored,
    Fault::AnySwapWins,
    Fault::LosersKeepTheirKeys,
    Fault::AnybodyTakesOver,
    Fault::SealedIsTakenOver,
];

#[test]
fn each_fault_is_caught_by_its_check() {
    let mut missed = Vec::new();
    for (fault, name) in CAUGHT_BY {
        let check = checks::ALL.iter().find(|check| check.name == *name).expect("the check exists");
        match run_check(&WithFault(*fault), check) {
            Ok(()) => missed.push(format!("{fault:?} by {name}")),
            Err(violation) => assert_eq!(violation.check, *name),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
fn the_model_catches_them_too_and_shrinks() {
    let mut missed = Vec::new();
    for (fault, _) in CAUGHT_BY.iter().filter(|(fault, _)| !BEYOND_THE_MODEL.contains(fault)) {
        match model::run(&WithFault(*fault), &model::Config::default()) {
            Ok(()) => missed.push(format!("{fault:?}")),
            Err(violation) => {
                // The step that failed is the last one of the sequence, so its number is the length.
                let steps = violation.what.split_once("step ").and_then(|(_, rest)| rest.split_once(','));
                let steps: usize = steps.expect("a step is named").0.parse().expect("by its number");
                assert!(steps <= 8, "{fault:?} was not shrunk: {violation}");
            }
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
fn the_wrapper_alone_conforms() {
    bowline_store_kit::assert_conforms(&WithFault(Fault::Nothing));
}

#[test]
fn the_model_does_without_expiry() {
    let config = model::Config { cases: 64, expiry: false, ..model::Config::default() };
    model::run(&WithFault(Fault::Nothing), &config).expect("the wrapper alone conforms");
    let caught =
        model::run(&WithFault(Fault::AppendTwice), &config).expect_err("an append that is not idempotent");
    assert!(!caught.what.contains("Advance"), "{caught}");
}
