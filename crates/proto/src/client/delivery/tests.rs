use super::*;
use proptest::prelude::*;

fn delivery(repeatable: bool) -> Delivery {
    Delivery::new(DeliveryPolicy {
        reconnect: ReconnectPolicy::default(),
        outage: Duration::from_secs(90),
        repeatable,
    })
}

const fn answer(status: u16, had_session: bool) -> Answer<'static> {
    Answer { status, had_session, retry_after: None, error: None, error_is_ours: false }
}

const fn fail(kind: ClientErrorKind, may_have_run: bool) -> Step {
    Step::Fail(ClientError { kind, may_have_run })
}

fn is_send(step: &Step) -> bool {
    matches!(step, Step::Send { .. })
}

#[test]
fn what_may_have_run_is_not_sent_again() {
    for status in [408, 500, 502, 504] {
        let step = delivery(false).on_answer(Millis(0), answer(status, true), 0);
        assert_eq!(step, fail(ClientErrorKind::Refused { status }, true));
        assert!(is_send(&delivery(true).on_answer(Millis(0), answer(status, true), 0)));
    }
    assert_eq!(delivery(false).on_lost(Millis(0), 0), fail(ClientErrorKind::Lost, true));
    assert!(is_send(&delivery(true).on_lost(Millis(0), 0)));
}

#[test]
fn what_did_not_run_is_sent_again_for_a_while() {
    let asked = Answer { retry_after: Some(0), ..answer(503, true) };
    for not_now in [answer(425, true), answer(429, true), asked] {
        assert!(is_send(&delivery(false).on_answer(Millis(0), not_now, 0)));
    }
    let mut delivery = delivery(false);
    let (mut now, mut sent) = (Millis(0), 0);
    while let Step::Send { at } = delivery.on_unreachable(now, u64::MAX) {
        (now, sent) = (at, sent + 1);
    }
    assert!((6..=12).contains(&sent), "{sent} attempts");
    assert!(now.0 >= 60_000, "a network that is gone for a minute is survived: {}", now.0);
}

/// Proxies give a 503 for requests that are running: only one of the server itself, or one that asks to come back, proves something.
#[test]
fn a_503_proves_nothing_by_itself() {
    let step = delivery(false).on_answer(Millis(0), answer(503, true), 0);
    assert_eq!(step, fail(ClientErrorKind::Refused { status: 503 }, true));
    assert!(is_send(&delivery(true).on_answer(Millis(0), answer(503, true), 0)));
    let error = ErrorObject::new(-32000, "shutting down");
    let of_the_server = Answer { error: Some(&error), ..answer(503, true) };
    assert!(is_send(&delivery(false).on_answer(Millis(0), of_the_server, 0)));
    let of_the_tool = Answer { error_is_ours: true, ..of_the_server };
    assert_eq!(delivery(false).on_answer(Millis(0), of_the_tool, 0), Step::Answered(error.clone()));
    let later = Answer { retry_after: Some(1_000), ..of_the_tool };
    assert!(is_send(&delivery(false).on_answer(Millis(0), later, 0)));
}

#[test]
fn who_says_that_the_outcome_is_unknown_is_believed() {
    let error = ErrorObject::outcome_unknown("store_unavailable", "may have had an effect");
    for status in [404, 409, 429, 500, 503] {
        for error_is_ours in [true, false] {
            let said = Answer {
                error: Some(&error),
                error_is_ours,
                retry_after: Some(1_000),
                ..answer(status, false)
            };
            assert!(!said.is_not_now() && !said.proves_unrun(), "{status}");
            assert_eq!(
                delivery(false).on_answer(Millis(0), said, 0),
                Step::Answered(error.clone()),
                "{status}"
            );
        }
    }
    let said = Answer { error: Some(&error), error_is_ours: true, ..answer(503, false) };
    assert!(is_send(&delivery(true).on_answer(Millis(0), said, 0)), "it may run twice");
}

#[test]
fn what_refuses_proves_that_nothing_ran_and_what_does_not_proves_nothing() {
    for status in [307, 400, 401, 403, 404, 405, 406, 411, 413, 415, 422, 431] {
        let step = delivery(false).on_answer(Millis(0), answer(status, false), 0);
        assert_eq!(step, fail(ClientErrorKind::Refused { status }, false));
    }
    for status in [409, 418, 499, 505, 520, 524, 599] {
        let step = delivery(false).on_answer(Millis(0), answer(status, false), 0);
        assert_eq!(step, fail(ClientErrorKind::Refused { status }, true));
    }
}

/// Some servers map errors to statuses: what names the request and is about what it asked for is no lost session.
#[test]
fn a_servers_own_answer_is_no_lost_session() {
    let error = ErrorObject::new(-32602, "customer not found");
    let session_of_its_own = ErrorObject::new(-32602, "Session not found: browser session 7");
    for (status, error) in [(404, &error), (410, &error), (400, &error), (400, &session_of_its_own)] {
        let said = Answer { error: Some(error), error_is_ours: true, ..answer(status, true) };
        assert_eq!(delivery(false).on_answer(Millis(0), said, 0), Step::Answered(error.clone()), "{status}");
        let of_nobody = Answer { error_is_ours: false, ..said };
        let step = delivery(false).on_answer(Millis(0), of_nobody, 0);
        assert_eq!(step == Step::Renew, status != 400 || error.message.starts_with("Session"), "{status}");
    }
    for code in [-32001, -32600, -32000, -32603] {
        let error = ErrorObject::new(code, "gone");
        let said = Answer { error: Some(&error), error_is_ours: true, ..answer(404, true) };
        assert_eq!(delivery(false).on_answer(Millis(0), said, 0), Step::Renew, "{code}");
    }
}

#[test]
fn what_may_have_run_once_is_never_said_not_to_have() {
    let mut delivery = delivery(true);
    assert!(is_send(&delivery.on_lost(Millis(0), 0)));
    let step = delivery.on_unreachable(Millis(200_000), 0);
    assert_eq!(step, fail(ClientErrorKind::Unreachable, true));
}

#[test]
fn retry_after_is_kept_to() {
    let mut delivery = delivery(false);
    let late = Answer { retry_after: Some(3_000), ..answer(429, false) };
    assert_eq!(delivery.on_answer(Millis(10), late, 0), Step::Send { at: Millis(3_010) });
}

#[test]
fn one_404_renews_and_a_second_one_after_that_is_final() {
    for status in [404, 410] {
        let mut delivery = delivery(false);
        assert_eq!(delivery.on_answer(Millis(0), answer(status, true), 0), Step::Renew);
        assert_eq!(delivery.on_renewed(Millis(5), true, 0), Step::Send { at: Millis(5) });
        let step = delivery.on_answer(Millis(9), answer(status, true), 0);
        assert_eq!(step, fail(ClientErrorKind::Refused { status }, false));
    }
    let step = delivery(false).on_answer(Millis(0), answer(404, false), 0);
    assert_eq!(step, fail(ClientErrorKind::Refused { status: 404 }, false));
}

#[test]
fn a_window_of_plain_404s_is_waited_through_with_the_old_session() {
    let mut delivery = delivery(false);
    let mut now = Millis(0);
    for _ in 0..4 {
        assert_eq!(delivery.on_answer(now, answer(404, true), 0), Step::Renew);
        let Step::Send { at } = delivery.on_renewed(now, false, u64::MAX) else { panic!("gave up") };
        now = at;
    }
    assert_eq!(delivery.on_answer(now, answer(200, true), 0), Step::Read);
}

#[test]
fn a_400_that_speaks_of_the_session_is_suspected_once() {
    let error = ErrorObject::new(-32000, "Bad Request: No valid session ID provided");
    let suspect = Answer { error: Some(&error), ..answer(400, true) };
    let mut delivery = delivery(false);
    assert_eq!(delivery.on_answer(Millis(0), suspect, 0), Step::Renew);
    assert!(is_send(&delivery.on_renewed(Millis(0), true, 0)));
    assert_eq!(delivery.on_answer(Millis(0), suspect, 0), Step::Answered(error.clone()));
}

#[test]
fn what_the_server_said_is_final() {
    let error = ErrorObject::new(-32602, "no such tool");
    for status in [400, 404, 500] {
        let said = Answer { error: Some(&error), error_is_ours: true, ..answer(status, false) };
        assert_eq!(delivery(true).on_answer(Millis(0), said, 0), Step::Answered(error.clone()));
    }
}

proptest! {
    /// Whatever happens: at most one sending of a request that may not run twice can have reached a server that ran it, the
    /// number of sendings in a minute is bounded, and it ends.
    #[test]
    fn never_sent_twice_never_spins_always_ends(
        happenings in prop::collection::vec((0..9_u8, 0..3_000_u64, any::<u64>()), 1..300),
        repeatable in any::<bool>(),
    ) {
        let mut delivery = delivery(repeatable);
        let mut now = Millis(0);
        let mut may_have_run = 0;
        let mut sent = vec![now];
        let mut renewals = 0;
        for (what, later, random) in happenings {
            now = now.after(later);
            let ambiguous = matches!(what, 1..=3 | 5);
            let mut step = match what {
                0 => delivery.on_unreachable(now, random),
                1 => delivery.on_lost(now, random),
                2 => delivery.on_answer(now, answer(502, true), random),
                3 => delivery.on_stream_failed(now, ClientError { kind: ClientErrorKind::NotResumable, may_have_run: true }, random),
                4 => delivery.on_answer(now, answer(404, true), random),
                5 => delivery.on_answer(now, answer(503, true), random),
                6 => delivery.on_answer(now, Answer { retry_after: Some(later), ..answer(429, true) }, random),
                7 => delivery.on_answer(now, answer(410, true), random),
                _ => delivery.on_answer(now, answer(200, true), random),
            };
            may_have_run += u32::from(ambiguous);
            if step == Step::Renew {
                renewals += 1;
                step = delivery.on_renewed(now, random % 3 == 0, random);
            }
            match step {
                Step::Send { at } => {
                    prop_assert!(at >= now);
                    now = at;
                    sent.push(at);
                }
                Step::Read => may_have_run += 1,
                _ => break,
            }
            if matches!(step, Step::Read) {
                break;
            }
        }
        if !repeatable {
            prop_assert!(may_have_run <= 1);
        }
        let busiest = sent.iter().map(|start| sent.iter().filter(|at| at.0 >= start.0 && at.since(*start) < 60_000).count());
        prop_assert!(busiest.max().unwrap_or(0) <= 16, "{sent:?}");
        prop_assert!(renewals <= sent.len());
    }
}
