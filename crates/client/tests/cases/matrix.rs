//! Every row of the matrix of client behaviour that was measured with other clients: what a server may do to a poll, and that
//! the call ends well, or promptly, with so many requests.

use crate::kit::*;
use bowline_testkit::scripted::{Scripted, Step, on};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

fn primed() -> Step {
    on("POST", "tools/call").stream().raw("id: p\nretry: 2\ndata:\n\n").close()
}

fn done() -> Step {
    on("GET", "").stream().raw(format!("id: end\ndata: {}\n\n", RESULT.replace("$ID", "2"))).close()
}

async fn play(
    polls: Vec<Step>,
) -> (Result<bowline_client::ToolOutput, bowline_client::CallError>, Duration, usize) {
    let server = Scripted::start(with_session([primed()].into_iter().chain(polls))).await;
    let client = connect(&server).await;
    let (result, time) = timed(call(&client)).await;
    assert_eq!(server.count("POST", "tools/call"), 1, "sent once");
    (result, time, server.count("GET", ""))
}

/// 500 polls, each with a new id.
#[tokio::test]
async fn a_new_id_on_each_poll_is_followed_for_ever() {
    let polls = 500;
    let served = AtomicUsize::new(0);
    let is_last = move |_: &bowline_testkit::scripted::Seen| served.fetch_add(1, Ordering::Relaxed) >= polls;
    let steps = vec![
        done().when(is_last),
        on("GET", "")
            .when(|seen| seen.header("last-event-id").len() % 2 == 1)
            .always()
            .stream()
            .raw("id: bb\nretry: 1\ndata:\n\n")
            .close(),
        on("GET", "").always().stream().raw("id: p\nretry: 1\ndata:\n\n").close(),
    ];
    let (result, _, gets) = play(steps).await;
    assert_eq!(text(result), "done");
    assert_eq!(gets, polls + 1);
}

#[tokio::test]
async fn the_same_id_on_twenty_polls_is_followed() {
    let steps = vec![on("GET", "").times(20).stream().raw("id: p\nretry: 2\ndata:\n\n").close(), done()];
    let (result, _, gets) = play(steps).await;
    assert_eq!(text(result), "done");
    assert_eq!(gets, 21);
}

#[tokio::test]
async fn polls_without_an_id_are_followed() {
    let steps = vec![on("GET", "").times(3).stream().raw("retry: 2\n\n: nothing\n\n").close(), done()];
    let (result, _, gets) = play(steps).await;
    assert_eq!(text(result), "done");
    assert_eq!(gets, 4);
}

#[tokio::test]
async fn empty_answers_come_to_an_end() {
    let (result, time, gets) = play(vec![on("GET", "").always().stream().close()]).await;
    assert!(is_unknown(&result), "{result:?}");
    assert_eq!(gets, 10);
    assert!(time < Duration::from_secs(15), "{time:?}");
}

#[tokio::test]
async fn refusals_end_the_call_at_once() {
    for status in [400, 410, 405, 401] {
        let (result, time, gets) = play(vec![on("GET", "").answer(status, "", "")]).await;
        assert!(matches!(result, Err(ref error) if error.may_have_run()), "{status}: {result:?}");
        assert!(time < AT_ONCE, "{status}: {time:?}");
        assert_eq!(gets, 1, "{status}");
    }
}

#[tokio::test]
async fn a_404_ends_the_call_at_once() {
    // The renewal of the session that follows is refused here: that is not the call's matter.
    let (result, time, gets) = play(vec![on("GET", "").answer(404, "", "")]).await;
    assert!(is_unknown(&result), "{result:?}");
    assert!(time < AT_ONCE, "{time:?}");
    assert_eq!(gets, 1);
}

#[tokio::test]
async fn outages_of_one_and_of_three_polls_are_survived() {
    for times in [1, 3] {
        for step in [on("GET", "").answer(503, "", ""), on("GET", "").reset()] {
            let (result, _, gets) = play(vec![step.times(times), done()]).await;
            assert_eq!(text(result), "done");
            assert_eq!(gets, times + 1);
        }
    }
}

#[tokio::test]
async fn an_error_on_the_poll_is_the_answer() {
    let error = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"expired"}}"#;
    let (result, time, gets) = play(vec![on("GET", "").stream().raw(event("x", error)).close()]).await;
    assert!(
        matches!(result, Err(bowline_client::CallError::Protocol(ref error)) if error.message == "expired"),
        "{result:?}"
    );
    assert!(time < AT_ONCE, "{time:?}");
    assert_eq!(gets, 1);
}

#[tokio::test]
async fn a_response_that_comes_twice_is_taken_once() {
    let twice = event("x", &RESULT.replace("$ID", "2")).repeat(2);
    let (result, _, gets) = play(vec![on("GET", "").stream().raw(twice).close()]).await;
    assert_eq!(text(result), "done");
    assert_eq!(gets, 1);
}

#[tokio::test]
async fn nothing_left_ends_the_call() {
    let (result, time, gets) = play(vec![on("GET", "").answer(204, "", "")]).await;
    assert!(is_unknown(&result), "{result:?}");
    assert!(time < AT_ONCE, "{time:?}");
    assert_eq!(gets, 1);
}
