use super::*;
use proptest::prelude::*;

const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;

fn call() -> CallStream {
    CallStream::new(ReconnectPolicy::default(), RequestId::from(7))
}

/// A call whose POST was answered with a stream.
fn streaming() -> CallStream {
    let mut stream = call();
    stream.on_status(Millis(0), 200, None, 0);
    stream
}

fn actions(stream: &mut CallStream) -> Vec<String> {
    std::iter::from_fn(|| stream.poll())
        .map(|action| match action {
            Action::Deliver { text, .. } => str::from_utf8(&text).unwrap().to_owned(),
            Action::Reconnect { at, last_event_id } => format!("GET {last_event_id} at {}", at.0),
            Action::Fail(error) => format!("{:?} may_have_run={}", error.kind, error.may_have_run),
            Action::Done => "done".to_owned(),
        })
        .collect()
}

#[test]
fn the_response_ends_the_call_and_nothing_comes_after_it() {
    let mut stream = streaming();
    stream.on_event(Some("a"), Some(PROGRESS), None);
    stream.on_event(Some("b"), Some(RESPONSE), None);
    stream.on_event(Some("c"), Some(RESPONSE), None);
    stream.on_end(Millis(5), StreamEnd::Graceful, 0);
    assert_eq!(actions(&mut stream), [PROGRESS, RESPONSE, "done"]);
    assert!(stream.is_over());
}

#[test]
fn an_error_with_the_calls_id_is_its_response_and_other_ids_are_not() {
    let mut stream = streaming();
    let other = r#"{"jsonrpc":"2.0","id":"7","result":{}}"#;
    let asked = r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"gone"}}"#;
    for text in [other, asked, error] {
        stream.on_event(None, Some(text), None);
    }
    assert_eq!(actions(&mut stream), [other, asked, error, "done"]);
}

#[test]
fn a_batch_is_delivered_one_by_one() {
    let mut stream = streaming();
    stream.on_event(None, Some(&format!("[{PROGRESS},{RESPONSE}]")), None);
    assert_eq!(actions(&mut stream), [PROGRESS, RESPONSE, "done"]);
}

#[test]
fn a_primed_stream_is_resumed_after_its_retry_however_it_ended() {
    for end in [StreamEnd::Graceful, StreamEnd::Error] {
        let mut stream = streaming();
        stream.on_event(Some("p1"), Some(""), Some(2_500));
        stream.on_end(Millis(1_000), end, 900);
        assert_eq!(actions(&mut stream), ["GET p1 at 3500"]);
    }
}

#[test]
fn an_empty_resume_forgets_neither_the_cursor_nor_the_retry() {
    let mut stream = streaming();
    stream.on_event(Some("p1"), None, Some(2_500));
    stream.on_end(Millis(0), StreamEnd::Graceful, 0);
    stream.on_status(Millis(2_500), 200, None, 0);
    stream.on_event(Some(""), Some(""), None);
    stream.on_end(Millis(3_000), StreamEnd::Graceful, 0);
    assert_eq!(actions(&mut stream), ["GET p1 at 2500", "GET p1 at 5500"]);
}

#[test]
fn without_an_id_the_call_fails_and_says_that_it_may_have_run() {
    let mut stream = streaming();
    stream.on_event(None, Some(PROGRESS), None);
    stream.on_end(Millis(0), StreamEnd::Error, 0);
    assert_eq!(actions(&mut stream), [PROGRESS, "NotResumable may_have_run=true"]);
}

#[test]
fn polls_with_fresh_ids_go_on_for_ever_and_polls_without_do_not() {
    let mut stream = streaming();
    stream.on_event(Some("p"), None, Some(1_000));
    for poll in 0..500 {
        stream.on_end(Millis(0), StreamEnd::Graceful, 0);
        stream.on_status(Millis(0), 200, None, 0);
        stream.on_event(Some(&format!("p{poll}")), None, None);
    }
    assert_eq!(actions(&mut stream).len(), 500);
    for _ in 0..20 {
        stream.on_end(Millis(0), StreamEnd::Graceful, 0);
        stream.on_status(Millis(0), 200, None, 0);
        stream.on_event(Some("p499"), None, None);
    }
    assert_eq!(actions(&mut stream).len(), 20, "the server is there and says: wait");
    for _ in 0..200 {
        stream.on_end(Millis(0), StreamEnd::Graceful, 0);
        stream.on_status(Millis(0), 200, None, 0);
        stream.on_event(Some("p499"), None, None);
    }
    assert_eq!(actions(&mut stream).last().unwrap(), "GaveUp { attempts: 100 } may_have_run=true");
}

#[test]
fn empty_resumes_get_rarer_and_come_to_an_end() {
    for random in [0, u64::MAX] {
        let mut stream = streaming();
        stream.on_event(Some("p"), None, None);
        let (mut now, mut gets) = (Millis(0), Vec::new());
        loop {
            stream.on_end(now, StreamEnd::Graceful, random);
            let Some(Action::Reconnect { at, .. }) = stream.poll() else { break };
            now = at;
            gets.push(at.0);
            stream.on_status(now, 200, None, 0);
        }
        assert_eq!(gets.len(), 10);
        assert!(gets.iter().filter(|at| **at < gets[0] + 30_000).count() <= 5, "{gets:?}");
    }
}

#[test]
fn without_attempts_nothing_is_resumed() {
    let policy = ReconnectPolicy { max_attempts: 0, ..ReconnectPolicy::default() };
    let mut stream = CallStream::new(policy, RequestId::from(7));
    stream.on_status(Millis(0), 200, None, 0);
    stream.on_event(Some("p"), None, None);
    stream.on_end(Millis(0), StreamEnd::Graceful, 0);
    assert_eq!(actions(&mut stream), ["NotResumable may_have_run=true"]);
}

#[test]
fn ids_mean_nothing_on_a_stream_that_cannot_be_resumed() {
    let mut stream = CallStream::unresumable(ReconnectPolicy::default(), RequestId::from(7));
    stream.on_status(Millis(0), 200, None, 0);
    stream.on_event(Some("p"), Some(PROGRESS), None);
    stream.on_end(Millis(0), StreamEnd::Graceful, 0);
    assert_eq!(actions(&mut stream), [PROGRESS, "NotResumable may_have_run=true"]);
}

#[test]
fn a_stream_of_another_process_is_resumed_at_once() {
    let mut stream =
        CallStream::resuming(ReconnectPolicy::default(), RequestId::from(7), Millis(3), "e".into());
    assert_eq!(actions(&mut stream), ["GET e at 3"]);
    stream.on_status(Millis(4), 200, None, 0);
    stream.on_event(Some("f"), Some(RESPONSE), None);
    assert_eq!(actions(&mut stream), [RESPONSE, "done"]);
}

#[test]
fn a_repeat_of_the_presented_event_is_not_delivered_again() {
    let mut stream = streaming();
    stream.on_event(Some("e1"), Some(PROGRESS), None);
    stream.on_end(Millis(0), StreamEnd::Error, 0);
    stream.on_status(Millis(9), 200, None, 0);
    stream.on_event(Some("e1"), Some(PROGRESS), None);
    stream.on_event(Some("e2"), Some(RESPONSE), None);
    assert_eq!(actions(&mut stream), [PROGRESS, "GET e1 at 100", RESPONSE, "done"]);
}

#[test]
fn a_response_is_taken_even_under_an_id_that_was_used_before() {
    let mut stream = streaming();
    stream.on_event(Some("same"), Some(PROGRESS), None);
    stream.on_end(Millis(0), StreamEnd::Error, 0);
    stream.on_status(Millis(9), 200, None, 0);
    stream.on_event(Some("same"), Some(RESPONSE), None);
    assert_eq!(actions(&mut stream), [PROGRESS, "GET same at 100", RESPONSE, "done"]);
}

#[test]
fn what_a_status_means_for_a_resume() {
    let cases = [
        (204, "NothingLeft may_have_run=true"),
        (404, "SessionGone may_have_run=true"),
        (400, "Refused { status: 400 } may_have_run=true"),
        (401, "Refused { status: 401 } may_have_run=true"),
        (405, "Refused { status: 405 } may_have_run=true"),
        (409, "GET p at 2000"),
        (429, "GET p at 2000"),
        (502, "GET p at 2000"),
        (503, "GET p at 2000"),
    ];
    for (status, action) in cases {
        let mut stream = streaming();
        stream.on_event(Some("p"), None, None);
        stream.on_end(Millis(0), StreamEnd::Graceful, 0);
        actions(&mut stream);
        stream.on_status(Millis(1_000), status, None, 0);
        assert_eq!(actions(&mut stream), [action], "{status}");
    }
}

#[test]
fn retry_after_is_kept_to() {
    let mut stream = streaming();
    stream.on_event(Some("p"), None, Some(1_000));
    stream.on_end(Millis(0), StreamEnd::Graceful, 0);
    stream.on_status(Millis(1_000), 503, Some(8_000), 0);
    assert_eq!(actions(&mut stream), ["GET p at 1000", "GET p at 9000"]);
}

#[test]
fn what_a_status_means_for_the_post() {
    let cases = [
        (404, "SessionGone may_have_run=false"),
        (400, "Refused { status: 400 } may_have_run=false"),
        (429, "Refused { status: 429 } may_have_run=false"),
        (408, "Refused { status: 408 } may_have_run=true"),
        (502, "Refused { status: 502 } may_have_run=true"),
    ];
    for (status, action) in cases {
        let mut stream = call();
        stream.on_status(Millis(0), status, None, 0);
        assert_eq!(actions(&mut stream), [action], "{status}");
    }
    let mut stream = call();
    stream.on_unreachable();
    assert_eq!(actions(&mut stream), ["Unreachable may_have_run=false"]);
    let mut stream = call();
    stream.on_end(Millis(0), StreamEnd::Error, 0);
    assert_eq!(actions(&mut stream), ["NotResumable may_have_run=true"]);
}

#[test]
fn what_is_no_message_is_told_and_the_stream_goes_on() {
    let mut stream = streaming();
    stream.on_event(Some("a"), Some("{"), None);
    let Some(Action::Deliver { message: Err(_), .. }) = stream.poll() else { panic!("not told") };
    stream.on_event(Some("b"), Some(RESPONSE), None);
    assert_eq!(actions(&mut stream), [RESPONSE, "done"]);
}

#[test]
fn an_error_reads_as_a_sentence_that_says_what_to_do() {
    let error = ClientError { kind: ClientErrorKind::SessionGone, may_have_run: false };
    let text = error.to_string();
    assert_eq!(text, "the server no longer knows the session (404); the request did not run");
}

#[derive(Clone, Debug)]
enum Input {
    Status(u16, Option<u64>),
    Event(Option<u8>, Option<&'static str>, Option<u64>),
    End(StreamEnd),
}

fn input() -> impl Strategy<Value = Input> {
    let retry = prop::option::of(prop_oneof![Just(0u64), Just(u64::MAX), 0u64..5_000]);
    let data = prop_oneof![
        1 => Just(None),
        1 => Just(Some("")),
        1 => Just(Some("{")),
        4 => Just(Some(PROGRESS)),
        1 => Just(Some(RESPONSE)),
    ];
    prop_oneof![
        3 => (prop_oneof![4 => Just(200u16), 1 => Just(503), 1 => 100u16..600], retry.clone())
            .prop_map(|(status, after)| Input::Status(status, after)),
        5 => (prop::option::of(0u8..4), data, retry).prop_map(|(id, data, retry)| Input::Event(id, data, retry)),
        3 => prop_oneof![Just(StreamEnd::Graceful), Just(StreamEnd::Error)].prop_map(Input::End),
    ]
}

proptest! {
    /// Whatever a server does, in any order, a call never spins, never hangs, never goes back in its cursor and never gets
    /// its response twice. Time stands still but for the waits, which is the worst case for spinning.
    #[test]
    fn no_server_makes_a_call_spin_hang_or_answer_twice(
        inputs in prop::collection::vec((input(), any::<u64>()), 1..200),
    ) {
        let mut stream = call();
        let (mut now, mut requests) = (Millis(0), Vec::new());
        let (mut cursor, mut responses, mut verdicts) = (None, 0, 0);
        let mut waiting_for_status = true;
        for (input, random) in inputs {
            match input {
                Input::Status(status, after) => {
                    waiting_for_status &= stream.is_over();
                    stream.on_status(now, status, after, random);
                }
                Input::Event(id, data, retry) => {
                    let id = id.map(|id| id.to_string());
                    if !waiting_for_status && !stream.is_over() {
                        cursor = id.clone().or(cursor);
                    }
                    stream.on_event(id.as_deref(), data, retry);
                }
                Input::End(end) => stream.on_end(now, end, random),
            }
            while let Some(action) = stream.poll() {
                prop_assert_eq!(verdicts, 0, "something comes after the end");
                match action {
                    Action::Deliver { text, .. } => responses += u32::from(text == RESPONSE),
                    Action::Reconnect { at, last_event_id } => {
                        prop_assert_eq!(Some(&last_event_id), cursor.as_ref());
                        prop_assert!(at >= now.after(100) && at <= now.after(600_000));
                        now = at;
                        requests.push(now);
                        waiting_for_status = true;
                    }
                    Action::Fail(_) | Action::Done => verdicts += 1,
                }
            }
            prop_assert_eq!(verdicts == 1, stream.is_over(), "an end that nobody is told of");
        }
        prop_assert!(responses <= 1);
        let per_minute = |from: &Millis| {
            requests.iter().filter(|at| **at >= *from && at.since(*from) < 60_000).count()
        };
        prop_assert!(requests.iter().map(per_minute).max().unwrap_or(0) <= 600);

        // A server that is away from now on ends the call for its caller in bounded time.
        for _ in 0..12 {
            if stream.is_over() { break; }
            stream.on_end(now, StreamEnd::Error, 0);
        }
        prop_assert!(stream.is_over());
    }
}
