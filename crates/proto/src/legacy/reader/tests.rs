use super::*;

const PRIMED: ReaderConfig = ReaderConfig {
    ids: true,
    primed: true,
    keep_alive: Some(15_000),
    max_connection: Some(25_000),
    recheck: 0,
    retry: RetryPolicy {
        base: Duration::from_secs(2),
        max: Duration::from_secs(30),
        explicit: Some(Duration::from_millis(77)),
        expected_outage: Duration::from_secs(4),
    },
    standalone: false,
};
const PLAIN: ReaderConfig = ReaderConfig { primed: false, ..PRIMED };
const BATCH: ReaderConfig = ReaderConfig { ids: false, ..PLAIN };
const START: Start = Start { offset: 4, poll: 9, generation: 3, stream_started: Millis(0), random: 1 };

fn open(config: ReaderConfig) -> Reader {
    Reader::open(config, START, Millis(0))
}

/// A page after offset 4 of a stream that ends, for now, at `tail`.
fn page(events: &[&'static str], tail: u64) -> PageFacts {
    let events = events.iter().map(|text| Bytes::from_static(text.as_bytes())).collect();
    PageFacts { events, tail, sealed: false, generation: 3, asking: false }
}

fn sealed(facts: PageFacts) -> PageFacts {
    PageFacts { sealed: true, ..facts }
}

/// The frames that are due, in short.
fn frames(reader: &mut Reader) -> Vec<String> {
    let id = |id: Position| format!("{}.{}", id.offset, id.poll);
    std::iter::from_fn(|| reader.poll_frame())
        .map(|frame| match frame {
            Frame::Priming { id: at, retry_ms } => format!("priming {} retry {retry_ms}", id(at)),
            Frame::Message { id: Some(at), payload } => format!("{} {payload:?}", id(at)),
            Frame::Message { id: None, payload } => format!("{payload:?}"),
            Frame::KeepAlive => "comment".to_owned(),
            Frame::Parting { id: at, retry_ms } => format!("parting {} retry {retry_ms}", id(at)),
            Frame::RetryOnly { retry_ms } => format!("retry {retry_ms}"),
        })
        .collect()
}

#[test]
fn priming_comes_first_and_its_id_is_not_the_one_that_was_presented() {
    let mut reader = open(PRIMED);
    reader.on_page(Millis(1), sealed(page(&["a", "b"], 6)));
    assert_eq!(frames(&mut reader), ["priming 4.10 retry 77", "5.10 b\"a\"", "6.10 b\"b\""]);
    assert_eq!((reader.end(), reader.position()), (Some(End::Sealed), 6));
    assert_eq!(reader.deadline(), None);
    assert!(!reader.wants_page());
}

#[test]
fn without_priming_there_is_nothing_before_the_first_message_and_batches_have_no_ids() {
    for (config, message) in [(PLAIN, "5.10 b\"a\""), (BATCH, "b\"a\"")] {
        let mut reader = open(config);
        assert!(frames(&mut reader).is_empty());
        reader.on_page(Millis(1), page(&["a"], 5));
        assert_eq!(frames(&mut reader), [message]);
        assert_eq!(reader.end(), None);
    }
}

#[test]
fn priming_needs_ids() {
    let mut reader = open(ReaderConfig { ids: false, ..PRIMED });
    reader.on_close_requested(Millis(0), Close::Handler);
    reader.on_page(Millis(1), page(&["a"], 5));
    assert_eq!(frames(&mut reader), ["b\"a\""]);
    reader.on_timeout(Millis(30_000));
    assert_eq!((frames(&mut reader), reader.end()), (vec!["comment".to_owned()], None));
}

#[test]
fn a_stream_that_was_sealed_without_a_message_ends_too() {
    let mut reader = open(PLAIN);
    reader.on_page(Millis(1), sealed(page(&[], 4)));
    assert!(frames(&mut reader).is_empty());
    assert_eq!(reader.end(), Some(End::Sealed));
}

#[test]
fn one_page_is_read_at_a_time_and_the_next_at_once_where_there_is_more() {
    let mut reader = open(PLAIN);
    assert_eq!(reader.poll_read(), Some(4));
    assert_eq!(reader.poll_read(), None, "one read at a time");
    reader.on_page(Millis(1), sealed(page(&["a"], 6)));
    assert_eq!(reader.poll_read(), None, "the page was not written yet");
    assert_eq!(frames(&mut reader), ["5.10 b\"a\""]);
    assert_eq!(reader.end(), None, "the last message is still to come");
    assert_eq!(reader.poll_read(), Some(5));
    reader.on_page(Millis(1), sealed(page(&["b"], 6)));
    assert_eq!(frames(&mut reader), ["6.10 b\"b\""]);
    assert_eq!(reader.end(), Some(End::Sealed));
}

#[test]
fn a_wake_up_during_a_read_is_not_lost_and_a_store_that_errs_is_not_asked_for_ever() {
    let mut reader = open(PLAIN);
    let _ = reader.poll_read();
    reader.on_wake();
    reader.on_page(Millis(1), page(&[], 4));
    assert_eq!(reader.poll_read(), Some(4));
    reader.on_page(Millis(1), page(&[], 9));
    assert_eq!(reader.poll_read(), None, "an empty page although there is more");
    reader.on_wake();
    assert_eq!(reader.poll_read(), Some(4));
    reader.on_read_failed(Millis(2));
    assert_eq!(reader.poll_read(), None);
}

#[test]
fn the_log_is_read_again_after_a_while_without_a_wake_up() {
    let mut reader = open(ReaderConfig { recheck: 3_000, ..PLAIN });
    let _ = reader.poll_read();
    assert_eq!(reader.deadline(), Some(Millis(15_000)), "no recheck while a read is under way");
    reader.on_page(Millis(100), page(&[], 4));
    assert_eq!(reader.deadline(), Some(Millis(3_100)));
    reader.on_timeout(Millis(3_100));
    assert_eq!(reader.poll_read(), Some(4));
}

#[test]
fn the_hold_ends_with_a_parting_under_another_fresh_id() {
    let mut reader = open(ReaderConfig { keep_alive: None, ..PRIMED });
    reader.on_page(Millis(1), page(&["a"], 5));
    assert_eq!(reader.deadline(), Some(Millis(25_000)));
    reader.on_timeout(Millis(24_999));
    assert_eq!(frames(&mut reader).len(), 2);
    assert_eq!(reader.end(), None);
    reader.on_timeout(Millis(25_000));
    assert_eq!(frames(&mut reader), ["parting 5.11 retry 77"]);
    assert_eq!(reader.end(), Some(End::Parked));
}

#[test]
fn what_was_read_is_written_before_the_parting_and_the_response_needs_none() {
    let mut reader = open(PRIMED);
    reader.on_page(Millis(1), page(&["a"], 9));
    reader.on_close_requested(Millis(2), Close::Budget);
    assert_eq!(frames(&mut reader), ["priming 4.10 retry 77", "5.10 b\"a\"", "parting 5.11 retry 77"]);

    let mut reader = open(PRIMED);
    reader.on_page(Millis(1), sealed(page(&["a"], 5)));
    reader.on_close_requested(Millis(2), Close::Budget);
    assert_eq!(frames(&mut reader), ["priming 4.10 retry 77", "5.10 b\"a\""]);
    assert_eq!(reader.end(), Some(End::Sealed));
}

#[test]
fn a_poll_during_a_drain_still_gets_what_is_there() {
    let mut reader = open(PRIMED);
    reader.on_close_requested(Millis(0), Close::Drain);
    assert_eq!(frames(&mut reader), ["priming 4.10 retry 77"]);
    assert_eq!(reader.end(), None);
    assert_eq!(reader.poll_read(), Some(4));
    reader.on_page(Millis(1), page(&["a"], 9));
    assert_eq!(frames(&mut reader), ["5.10 b\"a\"", "parting 5.11 retry 77"]);
    assert_eq!(reader.end(), Some(End::Drained));
}

#[test]
fn who_takes_notice_of_a_wish_to_close() {
    let standalone = |config| ReaderConfig { standalone: true, ..config };
    let parting = ("parting 4.11 retry 77", Some(End::Parked));
    let drained = ("parting 4.11 retry 77", Some(End::Drained));
    let cases = [
        (PRIMED, Close::Handler, parting),
        (PRIMED, Close::Budget, parting),
        (PRIMED, Close::Drain, drained),
        (PLAIN, Close::Handler, ("", None)),
        (PLAIN, Close::Budget, ("", None)),
        (PLAIN, Close::Drain, ("", None)),
        (BATCH, Close::Drain, ("", None)),
        (standalone(PRIMED), Close::Drain, drained),
        (standalone(PLAIN), Close::Drain, ("retry 77", Some(End::Drained))),
        (standalone(PLAIN), Close::Budget, ("", None)),
        (PLAIN, Close::StoreAway, ("retry 77", Some(End::StoreAway))),
        (PRIMED, Close::StoreAway, ("parting 4.11 retry 77", Some(End::StoreAway))),
    ];
    for (config, why, (frame, end)) in cases {
        let mut reader = open(config);
        reader.on_page(Millis(0), page(&[], 4));
        let _ = reader.poll_frame();
        reader.on_close_requested(Millis(1), why);
        let expected: &[&str] = if frame.is_empty() { &[] } else { &[frame] };
        assert_eq!(
            (&frames(&mut reader)[..], reader.end()),
            (&expected.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..], end),
            "{config:?} {why:?}"
        );
    }
}

#[test]
fn a_store_that_is_away_ends_a_poll_at_once_under_a_fresh_id_and_a_longer_wait() {
    let mut reader = open(ReaderConfig { retry: RetryPolicy::default(), ..PRIMED });
    let _ = reader.poll_read();
    reader.on_close_requested(Millis(0), Close::StoreAway);
    let Some(Frame::Priming { retry_ms: usual, .. }) = reader.poll_frame() else { panic!("no priming") };
    let Some(Frame::Parting { id, retry_ms }) = reader.poll_frame() else { panic!("no parting") };
    assert_eq!(id, Position { offset: 4, poll: 11 });
    assert!((2_000..=2_400).contains(&usual) && (3_200..=4_800).contains(&retry_ms), "{usual} {retry_ms}");
    assert_eq!(reader.end(), Some(End::StoreAway));
}

#[test]
fn a_newer_reader_of_a_call_ends_this_one_without_a_word() {
    let mut reader = open(PRIMED);
    assert_eq!(frames(&mut reader).len(), 1);
    reader.on_page(Millis(1), PageFacts { generation: 4, ..sealed(page(&["a"], 5)) });
    assert!(frames(&mut reader).is_empty());
    assert_eq!((reader.end(), reader.position()), (Some(End::Displaced), 4));
}

#[test]
fn a_newer_reader_of_a_session_tells_this_one_to_wait_ten_seconds() {
    for config in [PRIMED, PLAIN] {
        let mut reader = open(ReaderConfig { standalone: true, ..config });
        let _ = reader.poll_frame();
        reader.on_page(Millis(1), PageFacts { generation: 4, ..page(&["a"], 5) });
        reader.on_close_requested(Millis(1), Close::Drain);
        assert_eq!(frames(&mut reader), ["retry 10000"]);
        assert_eq!((reader.end(), reader.position()), (Some(End::Displaced), 4));
    }
}

#[test]
fn comments_count_from_the_last_write() {
    let mut reader = open(PLAIN);
    reader.on_page(Millis(10_000), page(&["a"], 5));
    assert_eq!(frames(&mut reader), ["5.10 b\"a\""]);
    assert_eq!(reader.deadline(), Some(Millis(25_000)));
    reader.on_timeout(Millis(15_000));
    assert!(frames(&mut reader).is_empty());
    reader.on_timeout(Millis(25_000));
    assert_eq!(frames(&mut reader), ["comment"]);
    assert_eq!(reader.deadline(), Some(Millis(40_000)));
    // A client that takes nothing is owed one comment, not one for each pause.
    reader.on_timeout(Millis(40_000));
    reader.on_timeout(Millis(55_000));
    assert_eq!(frames(&mut reader), ["comment"]);
}

#[test]
fn the_wait_grows_with_the_age_of_a_call_but_not_of_a_session_and_is_short_for_a_question() {
    let retry = |standalone, asking| {
        let config = ReaderConfig { standalone, retry: RetryPolicy::default(), ..PRIMED };
        let mut reader = Reader::open(config, START, Millis(600_000));
        let _ = reader.poll_frame();
        reader.on_page(Millis(600_000), PageFacts { asking, ..page(&[], 4) });
        reader.on_close_requested(Millis(600_000), Close::Budget);
        let Some(Frame::Parting { retry_ms, .. }) = reader.poll_frame() else { panic!("no parting") };
        retry_ms
    };
    assert!((24_000..=36_000).contains(&retry(false, false)));
    assert_eq!(retry(false, true), 2_000);
    assert!((2_000..=2_400).contains(&retry(true, false)));
}

#[test]
fn load_lengthens_the_wait() {
    let mut reader = open(ReaderConfig { retry: RetryPolicy::default(), ..PRIMED });
    reader.set_load(500);
    let Some(Frame::Priming { retry_ms, .. }) = reader.poll_frame() else { panic!("no priming") };
    assert!((8_000..=12_000).contains(&retry_ms), "{retry_ms}");
}

#[test]
fn a_reader_of_a_session_whose_events_are_gone_is_told_to_look_again() {
    let config = ReaderConfig { standalone: true, ..PRIMED };
    let mut reader = open(config);
    let _ = reader.poll_read();
    reader.on_resync(Millis(1), vec![Bytes::from("tools"), Bytes::from("prompts")], 90);
    assert_eq!(frames(&mut reader), ["priming 4.10 retry 77", "b\"tools\"", "90.10 b\"prompts\""]);
    assert_eq!(reader.poll_read(), Some(90));

    let mut reader = open(config);
    let _ = reader.poll_read();
    reader.on_resync(Millis(1), Vec::new(), 90);
    assert_eq!(frames(&mut reader), ["priming 90.10 retry 77"]);
}

#[test]
fn when_the_store_is_away_a_call_can_finish_on_its_connection_without_ids() {
    let mut reader = open(PRIMED);
    assert_eq!(frames(&mut reader).len(), 1);
    reader.stop_ids();
    reader.on_timeout(Millis(25_000));
    reader.on_page(Millis(26_000), sealed(page(&["a"], 5)));
    assert_eq!(frames(&mut reader), ["b\"a\""]);
    assert_eq!(reader.end(), Some(End::Sealed));
}
