//! A scenario for each sentence of the traits.

/// Fails the check unless the answer matches.
macro_rules! expect {
    ($answer:expr, $pattern:pat $(if $guard:expr)?, $($what:tt)+) => {
        match $answer {
            answer => if !matches!(&answer, $pattern $(if $guard)?) {
                return Err(format!(
                    "{}: expected {}, got {answer:?}", format!($($what)+), stringify!($pattern $(if $guard)?)
                ));
            }
        }
    };
}

/// Fails the check unless both are equal.
macro_rules! expect_eq {
    ($answer:expr, $expected:expr, $($what:tt)+) => {
        match (&$answer, &$expected) {
            (answer, expected) => if answer != expected {
                return Err(format!("{}: expected {expected:?}, got {answer:?}", format!($($what)+)));
            }
        }
    };
}

/// The value of an answer; fails the check where it is an error.
macro_rules! value {
    ($answer:expr, $($what:tt)+) => {
        match $answer {
            Ok(value) => value,
            Err(error) => return Err(format!("{}: expected an answer, got {error:?}", format!($($what)+))),
        }
    };
}

mod attachments;
mod backends;
mod keys;
mod mailboxes;
mod retention;
mod seals;
mod sessions;
mod streams;
mod takeovers;
mod wakes;

use crate::{Kit, Violation};
use std::{fmt, pin::Pin};

type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// A scenario, named by what it demands.
#[derive(Clone, Copy)]
pub struct Check {
    /// What it demands.
    pub name: &'static str,
    scenario: for<'a> fn(&'a Kit<'a>) -> Answer<'a>,
}

impl Check {
    /// Runs it.
    ///
    /// # Errors
    /// What the store did otherwise than the traits say.
    pub async fn run(&self, kit: &Kit<'_>) -> Result<(), Violation> {
        (self.scenario)(kit).await.map_err(|what| Violation { check: self.name, what })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! list {
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        /// Every check.
        pub const ALL: &[Check] = &[$($(
            Check { name: stringify!($name), scenario: |kit| Box::pin($module::$name(kit)) },
        )+)+];
    };
}

list! {
    streams {
        a_stream_is_made_once,
        one_of_many_makers_wins,
        offsets_are_contiguous_from_one,
        a_retried_append_changes_nothing,
        a_retry_after_a_trim_is_still_a_retry,
        a_lower_epoch_is_fenced,
        a_higher_epoch_takes_over,
        an_event_of_an_earlier_epoch_is_no_retry,
        racing_writers_leave_no_hole,
        a_read_is_a_run,
        a_position_after_the_tail_is_lost,
        what_was_never_made_is_gone,
        a_stream_that_is_made_again_is_another_one,
        payloads_come_back_byte_for_byte,
    }
    seals {
        a_seal_appends_and_closes,
        the_same_seal_again_succeeds,
        a_stream_is_made_with_its_seal,
        nothing_comes_after_a_seal,
        a_cancelled_stream_keeps_its_tail,
        a_seal_out_of_order_closes_nothing,
        a_seal_at_a_higher_epoch_stops_the_owner,
        exactly_one_seal_wins,
    }
    takeovers {
        a_call_gets_another_owner,
        the_same_take_over_again_succeeds,
        one_of_many_take_overs_wins,
        the_former_owner_is_fenced,
        a_call_without_a_way_to_run_again_keeps_its_owner,
        what_is_over_is_not_taken_over,
        what_is_taken_over_lives_on,
    }
    retention {
        an_open_stream_expires,
        an_open_stream_is_prolonged,
        a_sealed_stream_is_kept_from_its_seal_on,
        a_sealed_stream_is_not_prolonged,
        trimmed_events_are_evicted,
        a_trim_never_moves_the_tail,
        a_full_standalone_stream_drops_its_oldest,
        a_full_call_refuses_only_what_may_be_dropped,
        a_call_is_full_by_bytes_too,
        a_removed_stream_is_gone,
    }
    attachments {
        attachments_are_counted,
        a_delivery_is_reported_to_the_next_reader,
        an_older_reader_delivers_nothing,
    }
    sessions {
        a_session_comes_back_whole,
        a_session_is_made_once,
        an_update_names_its_version,
        one_of_many_updates_wins,
        an_unused_session_expires,
        a_touched_session_lives_on,
        an_ended_session_leaves_a_tombstone,
        a_tombstone_lets_nothing_come_back,
        a_tombstone_ends,
        missing_sessions_are_no_error,
    }
    mailboxes {
        letters_come_in_order,
        a_letter_is_there_once,
        a_box_needs_no_stream,
        a_dropped_box_is_empty,
        a_box_expires,
        letters_of_many_senders_are_all_there,
    }
    backends {
        a_lease_is_in_force_for_its_time,
        a_lease_is_prolonged,
        a_break_between_renewals_is_told,
        a_draining_backend_says_so,
        a_released_lease_is_gone,
        backends_are_listed,
        open_streams_are_found_by_their_owner,
    }
    keys {
        keys_are_replaced_by_who_knows_them,
        one_of_many_sets_of_keys_wins,
    }
    wakes {
        a_reader_that_only_reads_gets_everything,
        a_reader_that_subscribes_first_misses_nothing,
        changes_wake,
        a_changed_session_wakes,
        other_streams_do_not_matter,
    }
}
