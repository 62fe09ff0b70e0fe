use super::*;
use crate::jsonrpc::{Message, Reply, parse_message};

const CONFIG: WriterConfig =
    WriterConfig { max_queue_events: 3, max_queue_bytes: 1_000, max_event_bytes: 20 };

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn created() -> Writer {
    let mut writer = Writer::new(CONFIG, 1);
    writer.open();
    assert_eq!(writer.next_op(), Some(Op::Create));
    assert_eq!(writer.on_outcome(Outcome::Done), Directive::Continue);
    writer
}

fn append(offset: u64, payload: &'static str, droppable: bool) -> Op {
    Op::Append { offset, payload: bytes(payload), droppable }
}

/// The id and `data.reason` of an error response.
fn reason(payload: Bytes) -> (RequestId, String) {
    let Ok(Message::Response(response)) = parse_message(payload) else { panic!("no response") };
    let Reply::Error(error) = response.reply else { panic!("no error") };
    (response.id, error.member("data").unwrap().member("reason").unwrap().string().unwrap())
}

#[test]
fn nothing_happens_before_something_is_said_and_nothing_before_the_stream_is_there() {
    let mut writer = Writer::new(CONFIG, 1);
    assert_eq!(writer.next_op(), None);
    assert!(writer.idle());
    assert_eq!(writer.push(bytes("a"), false, None), Pushed::Queued);
    assert_eq!(writer.next_op(), Some(Op::Create));
    assert_eq!(writer.next_op(), None);
    assert!(!writer.created() && !writer.idle());
    assert_eq!(writer.on_outcome(Outcome::Done), Directive::Continue);
    assert!(writer.created());
    assert_eq!(writer.next_op(), Some(append(1, "a", false)));
    assert_eq!(writer.next_op(), None);
}

#[test]
fn the_seal_comes_after_everything_else_and_only_the_first_counts() {
    let mut writer = created();
    let id = RequestId::from(1);
    assert_eq!(writer.push(bytes("a"), true, None), Pushed::Queued);
    assert_eq!(writer.seal(Some((&id, bytes("r")))), Pushed::Queued);
    assert_eq!(writer.seal(None), Pushed::AfterSeal);
    assert_eq!(writer.push(bytes("b"), false, None), Pushed::AfterSeal);
    assert_eq!(writer.next_op(), Some(append(1, "a", true)));
    let _ = writer.on_outcome(Outcome::Done);
    assert_eq!(writer.next_op(), Some(Op::Seal { offset: 2, last: Some(bytes("r")) }));
    assert!(!writer.sealed());
    let _ = writer.on_outcome(Outcome::Done);
    assert!(writer.sealed() && writer.idle());
    assert_eq!(writer.next_op(), None);
}

#[test]
fn a_cancelled_call_is_sealed_without_a_message_even_if_it_never_said_a_word() {
    let mut writer = Writer::new(CONFIG, 1);
    assert_eq!(writer.seal(None), Pushed::Queued);
    assert_eq!(writer.next_op(), Some(Op::Create));
    let _ = writer.on_outcome(Outcome::Done);
    assert_eq!(writer.next_op(), Some(Op::Seal { offset: 1, last: None }));
}

#[test]
fn an_operation_without_an_answer_comes_again_as_it_was() {
    let mut writer = Writer::new(CONFIG, 1);
    let _ = writer.push(bytes("p1"), true, Some(bytes("t")));
    for _ in 0..2 {
        assert_eq!(writer.next_op(), Some(Op::Create));
        assert_eq!(writer.on_outcome(Outcome::Unavailable), Directive::Retry);
    }
    let _ = writer.next_op();
    assert_eq!(writer.on_outcome(Outcome::Exists), Directive::Continue, "it is the one of the first try");
    assert_eq!(writer.next_op(), Some(append(1, "p1", true)));
    assert_eq!(writer.on_outcome(Outcome::Unavailable), Directive::Retry);
    let _ = writer.push(bytes("log"), true, None);
    let _ = writer.push(bytes("ask"), false, None);
    assert_eq!(writer.push(bytes("p2"), true, Some(bytes("t"))), Pushed::Dropped, "p1 may be in the log");
    assert_eq!(writer.next_op(), Some(append(1, "p1", true)));
}

#[test]
fn a_stream_that_was_there_before_is_not_ours() {
    let mut writer = Writer::new(CONFIG, 1);
    writer.open();
    let _ = writer.next_op();
    assert_eq!(writer.on_outcome(Outcome::Exists), Directive::Stop(StopReason::Exists));
}

#[test]
fn a_refused_notification_leaves_no_hole() {
    let mut writer = created();
    let _ = writer.push(bytes("log"), true, None);
    let _ = writer.push(bytes("ask"), false, None);
    assert_eq!(writer.next_op(), Some(append(1, "log", true)));
    assert_eq!(writer.on_outcome(Outcome::Full), Directive::Continue);
    assert_eq!(writer.dropped(), 1);
    assert_eq!(writer.next_op(), Some(append(1, "ask", false)));
    assert_eq!(writer.on_outcome(Outcome::Full), Directive::Stop(StopReason::Full));
    assert_eq!(writer.backlog(), (1, vec![bytes("ask")]));
}

#[test]
fn the_queue_has_a_bound_and_what_must_stay_wins() {
    let mut writer = created();
    assert_eq!(writer.push(bytes("p1"), true, Some(bytes("t"))), Pushed::Queued);
    assert_eq!(writer.push(bytes("log"), true, None), Pushed::Queued);
    assert_eq!(writer.push(bytes("ask1"), false, None), Pushed::Queued);
    assert_eq!(writer.push(bytes("p2"), true, Some(bytes("t"))), Pushed::Coalesced);
    assert_eq!(writer.push(bytes("log2"), true, None), Pushed::Dropped);
    assert_eq!(writer.push(bytes("ask2"), false, None), Pushed::Queued);
    assert_eq!(writer.push(bytes("ask3"), false, None), Pushed::Queued);
    assert_eq!(writer.push(bytes("ask4"), false, None), Pushed::Full);
    assert_eq!((writer.dropped(), writer.coalesced()), (3, 1));
    assert_eq!(writer.backlog(), (1, vec![bytes("ask1"), bytes("ask2"), bytes("ask3")]));
}

#[test]
fn what_is_too_large_fails_for_its_sender_and_a_response_becomes_an_error() {
    let large = bytes("123456789012345678901");
    let mut writer = created();
    assert_eq!(writer.push(large.clone(), true, None), Pushed::Dropped);
    assert_eq!(writer.push(large.clone(), false, None), Pushed::TooLarge);
    assert_eq!(writer.dropped(), 1);
    let id = RequestId::from("x");
    assert_eq!(writer.seal(Some((&id, large))), Pushed::TooLarge);
    let Some(Op::Seal { offset: 1, last: Some(last) }) = writer.next_op() else { panic!("no seal") };
    assert_eq!(reason(last), (id, "too_large".to_owned()));
}

#[test]
fn a_response_without_room_becomes_an_error_once() {
    let mut writer = created();
    let id = RequestId::from(3);
    let _ = writer.seal(Some((&id, bytes("r"))));
    let _ = writer.next_op();
    assert_eq!(writer.on_outcome(Outcome::Full), Directive::Continue);
    let Some(Op::Seal { offset: 1, last: Some(last) }) = writer.next_op() else { panic!("no seal") };
    assert_eq!(reason(last), (id, "too_large".to_owned()));
    assert_eq!(writer.on_outcome(Outcome::Full), Directive::Stop(StopReason::Full));
}

#[test]
fn whoever_takes_over_finds_the_end_that_the_one_before_left() {
    let mut writer = Writer::take_over(CONFIG, 2, 5);
    assert!(writer.created());
    let _ = writer.seal(None);
    assert_eq!(writer.next_op(), Some(Op::Seal { offset: 6, last: None }));
    assert_eq!(writer.on_outcome(Outcome::OutOfOrder { tail: 7 }), Directive::Continue);
    assert_eq!(writer.next_op(), Some(Op::Seal { offset: 8, last: None }));
    assert_eq!(
        writer.on_outcome(Outcome::OutOfOrder { tail: 3 }),
        Directive::Stop(StopReason::Lost { tail: 3 })
    );
}

#[test]
fn a_log_that_forgot_what_it_confirmed_stops_the_writer() {
    let mut writer = created();
    let _ = writer.push(bytes("a"), false, None);
    let _ = writer.next_op();
    let _ = writer.on_outcome(Outcome::Done);
    let _ = writer.push(bytes("b"), false, None);
    let _ = writer.next_op();
    let lost = StopReason::Lost { tail: 0 };
    assert_eq!(writer.on_outcome(Outcome::OutOfOrder { tail: 0 }), Directive::Stop(lost));
    assert_eq!(writer.push(bytes("c"), false, None), Pushed::Stopped);
    assert_eq!(writer.seal(None), Pushed::Stopped);
    assert_eq!(writer.next_op(), None);
    assert_eq!(writer.on_outcome(Outcome::Done), Directive::Stop(lost));
}

#[test]
fn a_verdict_of_the_log_is_final() {
    for (outcome, reason) in [
        (Outcome::Fenced, StopReason::Fenced),
        (Outcome::Sealed, StopReason::Sealed),
        (Outcome::Gone, StopReason::Gone),
    ] {
        let mut writer = created();
        let _ = writer.push(bytes("a"), true, None);
        let _ = writer.next_op();
        assert_eq!(writer.on_outcome(outcome), Directive::Stop(reason));
        assert_eq!(writer.next_op(), None);
    }
}

#[test]
fn an_outcome_of_nothing_changes_nothing() {
    let mut writer = created();
    let _ = writer.push(bytes("a"), true, None);
    assert_eq!(writer.on_outcome(Outcome::Done), Directive::Continue);
    assert_eq!(writer.next_op(), Some(append(1, "a", true)));
}

#[test]
fn a_stream_that_was_taken_over_is_taken_back_with_what_was_not_written() {
    let mut writer = Writer::new(WriterConfig::default(), 1);
    for text in ["a", "b", "c"] {
        assert_eq!(writer.push(Bytes::from_static(text.as_bytes()), true, None), Pushed::Queued);
    }
    let mut written = Vec::new();
    for outcome in [Outcome::Done, Outcome::Done, Outcome::Fenced] {
        written.extend(writer.next_op());
        let directive = writer.on_outcome(outcome);
        assert_eq!(directive == Directive::Stop(StopReason::Fenced), outcome == Outcome::Fenced);
    }
    assert!(matches!(&written[2], Op::Append { offset: 2, payload, .. } if payload == "b"));
    assert_eq!(writer.push(Bytes::from_static(b"d"), true, None), Pushed::Stopped);
    writer.take_back(7, 5, false);
    assert!(writer.has_work() && writer.epoch() == 7 && writer.created());
    assert!(matches!(writer.next_op(), Some(Op::Append { offset: 6, payload, .. }) if payload == "b"));
    // The answer got lost, and the other writer was quicker: what was tried is in the log.
    assert_eq!(writer.on_outcome(Outcome::Unavailable), Directive::Retry);
    assert!(writer.next_op().is_some());
    assert_eq!(writer.on_outcome(Outcome::Fenced), Directive::Stop(StopReason::Fenced));
    writer.take_back(9, 8, true);
    assert!(matches!(writer.next_op(), Some(Op::Append { offset: 9, payload, .. }) if payload == "c"));
    assert_eq!(writer.on_outcome(Outcome::Done), Directive::Continue);
    assert!(!writer.has_work());
}

#[test]
fn last_words_are_what_the_log_has_not_got_once_nothing_follows() {
    let mut writer = Writer::new(WriterConfig::default(), 1);
    assert_eq!(writer.push(Bytes::from_static(b"a"), true, None), Pushed::Queued);
    assert_eq!(writer.next_op(), Some(Op::Create));
    assert_eq!(writer.on_outcome(Outcome::Done), Directive::Continue);
    assert_eq!(writer.last_words(), None);
    assert_eq!(writer.seal(Some((&RequestId::Number(1), Bytes::from_static(b"z")))), Pushed::Queued);
    assert_eq!(writer.last_words(), Some((1, vec![Bytes::from_static(b"a"), Bytes::from_static(b"z")])));
    for _ in 0..2 {
        assert!(writer.next_op().is_some());
        assert_eq!(writer.on_outcome(Outcome::Done), Directive::Continue);
    }
    assert_eq!(writer.last_words(), None);
}

#[test]
fn a_writer_that_has_nothing_to_do_takes_few_bytes() {
    assert_eq!(size_of::<Writer>(), 72);
}
