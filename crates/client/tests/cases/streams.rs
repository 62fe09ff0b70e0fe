//! E*, F5, L1 c, M*: streams of calls.

use crate::kit::*;
use bowline_client::{CallOptions, Client, ResumeToken, Target};
use bowline_testkit::scripted::{Act, Scripted, on};
use std::{sync::Arc, time::Duration};

const RETRY: &str = "retry: 60\n";

/// E1: every way to say an id without saying anything, in one stream, byte by byte; then a drop, and the resume with the last id.
#[tokio::test]
async fn priming_events_of_every_kind_are_taken_note_of_and_not_read() {
    let priming = [
        "id: a1\ndata:\n\n",
        "id: a2\ndata: \n\n",
        "id: a3\nretry: 60\ndata:\n\n",
        "id: a4\n\n",
        "retry: 60\n\n",
        "event: prime\nid: a5\ndata: {\"x\":1}\n\n",
        ": comment\nid: a6\n: comment\ndata\n\n",
        "id: bad\0id\ndata:\n\n",
        "data\n\n",
    ];
    let steps = [
        on("POST", "tools/call").stream().then(Act::Drip(priming.concat().into_bytes())).close(),
        on("GET", "").stream().raw(format!("id: a7\ndata: {}\n\n", RESULT.replace("$ID", "2"))).close(),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(text(call(&client).await), "done");
    let gets = server.of("GET", "");
    assert_eq!(gets.len(), 1);
    assert_eq!(gets[0].header("last-event-id"), "a6");
    assert_eq!(gets[0].header("mcp-session-id"), "s1");
    assert!(gets[0].header("accept").contains("text/event-stream"));
}

/// E6: only digits count, the wait is at least that long after a close and after an error, and POSTs carry no cursor.
#[tokio::test]
async fn retry_is_kept_to_and_nonsense_in_it_is_not() {
    for breaks in [Act::Close, Act::Reset] {
        let steps = [
            on("POST", "tools/call")
                .stream()
                .raw("id: p\nretry: 300\ndata:\n\n")
                .raw("retry: abc\n\nretry: 1x\n\n")
                .wait(20)
                .then(breaks),
            on("GET", "").stream().raw(format!("data: {}\n\n", RESULT.replace("$ID", "2"))).close(),
        ];
        let server = Scripted::start(with_session(steps)).await;
        let client = connect(&server).await;
        let (result, time) = timed(call(&client)).await;
        assert_eq!(text(result), "done");
        assert!(time >= Duration::from_millis(310) && time < AT_ONCE, "{time:?}");
        assert!(server.of("POST", "").iter().all(|seen| seen.header("last-event-id").is_empty()));
    }
}

/// `retry` is per stream: one that asks for a long wait does not delay another.
#[tokio::test]
async fn the_retry_of_one_stream_does_not_delay_another() {
    let slow = |seen: &bowline_testkit::scripted::Seen| seen.body.contains("slow");
    let steps = [
        on("POST", "tools/call").when(slow).stream().raw("id: slow\nretry: 3000\ndata:\n\n").close(),
        on("POST", "tools/call").stream().raw("id: fast\nretry: 20\ndata:\n\n").close(),
        on("GET", "")
            .when(|seen| seen.header("last-event-id") == "fast")
            .stream()
            .raw(format!("data: {}\n\n", RESULT.replace("$ID", "3")))
            .close(),
        on("GET", "").stream().raw(format!("data: {}\n\n", RESULT.replace("$ID", "2"))).close(),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    let arguments = serde_json::json!({});
    let (slow, fast) = tokio::join!(timed(client.call_tool("slow", &arguments)), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        timed(client.call_tool("fast", &arguments)).await
    });
    assert_eq!((text(slow.0), text(fast.0)), ("done".into(), "done".into()));
    assert!(slow.1 >= Duration::from_secs(3), "{:?}", slow.1);
    assert!(fast.1 < Duration::from_millis(2_500), "{:?}", fast.1);
}

/// E7, E8: the cursor outlives connections that bring nothing.
#[tokio::test]
async fn the_cursor_is_kept_through_empty_connections() {
    let steps = [
        on("POST", "tools/call").stream().raw(format!("id: e1\n{RETRY}data:\n\n")).close(),
        on("GET", "").times(3).stream().close(),
        on("GET", "").stream().raw(format!("id: e2\ndata: {}\n\n", RESULT.replace("$ID", "2"))).close(),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(text(call(&client).await), "done");
    let cursors: Vec<_> =
        server.of("GET", "").iter().map(|seen| seen.header("last-event-id").to_owned()).collect();
    assert_eq!(cursors, ["e1"; 4]);
}

/// E9: a stream that has brought its response is not asked for again, nor one whose client is closed.
#[tokio::test]
async fn a_finished_stream_is_not_reopened_and_a_closed_client_does_not_come_back() {
    let whole = format!("id: p\n{RETRY}data:\n\nid: r\ndata: {RESULT}\n\n");
    let steps = [
        on("POST", "tools/call").stream().raw(whole).close(),
        on("POST", "tools/call").stream().raw(format!("id: p\n{RETRY}data:\n\n")).close(),
        on("DELETE", "").answer(204, "", ""),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(text(call(&client).await), "done");
    let (second, ()) = tokio::join!(call(&client), async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        client.close().await;
    });
    assert!(second.is_err());
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(server.count("GET", ""), 0);
}

/// F5: 200 and nothing, for ever: a few attempts, growing gaps, an error; the session is as good as before.
#[tokio::test]
async fn a_cursor_that_leads_nowhere_ends_in_an_error() {
    let steps = [
        on("POST", "tools/call").stream().raw("id: lost\ndata:\n\n").close(),
        on("GET", "").always().stream().close(),
        call_done(),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let mut options = options();
    options.reconnect.max_attempts = 6;
    let client = connect_with(&server, options).await;
    let (result, time) = timed(call(&client)).await;
    assert!(is_unknown(&result), "{result:?}");
    let gets = server.of("GET", "");
    assert_eq!(gets.len(), 6);
    let gap = |n: usize| gets[n + 1].at - gets[n].at;
    assert!(gap(4) > gap(1), "{:?} and {:?} of {time:?}", gap(4), gap(1));
    assert_eq!(text(call(&client).await), "done");
    assert_eq!(server.count("POST", "initialize"), 1);
}

/// G5: no attempts are no attempts.
#[tokio::test]
async fn zero_attempts_are_none() {
    let steps = [on("POST", "tools/call").stream().raw("id: p\ndata:\n\n").close()];
    let server = Scripted::start(with_session(steps)).await;
    let mut options = options();
    options.reconnect.max_attempts = 0;
    let client = connect_with(&server, options).await;
    assert!(is_unknown(&call(&client).await));
    assert_eq!(server.count("GET", ""), 0);
}

/// L1 c: the resume says 404. The call is lost, and soon; the next one has a new session.
#[tokio::test]
async fn a_resume_that_finds_no_session_fails_the_call_and_renews_the_session() {
    let mut steps = with_session([
        on("POST", "tools/call").stream().raw("id: p\nretry: 100\ndata:\n\n").close(),
        on("GET", "").answer(404, "", ""),
    ]);
    steps.extend(handshake("s2"));
    steps.push(
        on("POST", "tools/call").when(|seen| seen.header("mcp-session-id") == "s2").json(200, "", RESULT),
    );
    let server = Scripted::start(steps).await;
    let client = connect(&server).await;
    let (result, time) = timed(call(&client)).await;
    assert!(is_unknown(&result), "{result:?}");
    assert!(time < AT_ONCE, "{time:?}");
    bowline_testkit::eventually("the new session", bowline_testkit::PATIENCE, || {
        server.count("POST", "notifications/initialized") == 2
    })
    .await;
    assert_eq!(text(call(&client).await), "done");
    assert_eq!(server.count("POST", "initialize"), 2);
}

/// M1, M2: one payload, every line end, cut at every place and in single bytes: always the same.
#[tokio::test]
async fn bytes_may_be_cut_anywhere() {
    let payload = "\u{1f600} 世界 \u{2028}\u{2029}\u{85} \\n";
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{payload}"}}]}}}}"#
    );
    let expected = "\u{1f600} 世界 \u{2028}\u{2029}\u{85} \n";
    for end in ["\n", "\r\n", "\r"] {
        let body = format!("\u{feff}: x{end}id: 1{end}event: message{end}data: {message}{end}{end}");
        let cuts = body.len();
        let mut steps =
            vec![on("POST", "tools/call").stream().then(Act::Drip(body.clone().into_bytes())).close()];
        for cut in (1..cuts).step_by(3) {
            let (head, tail) = body.as_bytes().split_at(cut);
            // `$ID` must stay whole for the kit.
            if head.ends_with(b"$") || head.ends_with(b"$I") {
                continue;
            }
            steps.push(on("POST", "tools/call").stream().raw(head).wait(1).raw(tail).close());
        }
        let count = steps.len();
        let server = Scripted::start(with_session(steps)).await;
        let client = connect(&server).await;
        for _ in 0..count {
            assert_eq!(text(call(&client).await), expected, "{end:?}");
        }
        assert_eq!(server.count("POST", "tools/call"), count);
    }
}

/// M1: data over several lines, and an event that its end never came to is none.
#[tokio::test]
async fn data_may_have_several_lines_and_half_an_event_is_none() {
    let lines = RESULT.replace(',', ",\ndata: ");
    let steps = [
        on("POST", "tools/call").stream().raw(format!("data: {lines}\n\n")).close(),
        on("POST", "tools/call").stream().raw(format!("data: {RESULT}\n")).close(),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(text(call(&client).await), "done");
    assert!(is_unknown(&call(&client).await));
}

/// An event larger than allowed ends the call with an error that says so; nothing is asked again.
#[tokio::test]
async fn what_is_too_large_is_an_error_that_says_so() {
    let large = format!("id: x\ndata: {}\n\n", "a".repeat(100_000));
    let steps = [
        on("POST", "tools/call").stream().raw(large).close(),
        on("POST", "tools/call").json(200, "", &"b".repeat(100_000)),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let mut options = options();
    options.sse.max_line_bytes = 10_000;
    options.max_body_bytes = 10_000;
    let client = connect_with(&server, options).await;
    for _ in 0..2 {
        let error = call(&client).await.unwrap_err();
        assert!(error.to_string().contains("10000 bytes"), "{error}");
    }
    assert_eq!(server.count("GET", ""), 0);
}

/// Another process takes the call over with the token, and gets the result; nothing is sent again.
#[tokio::test]
async fn a_call_is_resumed_by_another_process() {
    let steps = [
        on("POST", "tools/call").stream().raw("id: p1\ndata:\n\n").then(Act::Hold),
        on("GET", "").stream().raw(format!("data: {}\n\n", RESULT.replace("$ID", "2"))).close(),
        on("DELETE", "").answer(204, "", ""),
    ];
    let mut all = with_session(steps);
    all.extend(handshake("s2"));
    let server = Scripted::start(all).await;
    let first = connect(&server).await;
    let token = Arc::new(parking_lot::Mutex::new(None::<ResumeToken>));
    let kept = Arc::clone(&token);
    let options = CallOptions::new().on_token(move |token| *kept.lock() = Some(token.clone()));
    let arguments = serde_json::json!({});
    let running = first.call_tool_with("t", &arguments, options);
    tokio::pin!(running);
    let shown =
        bowline_testkit::eventually("the token", bowline_testkit::PATIENCE, || token.lock().is_some());
    tokio::select! {
        _ = &mut running => panic!("the call ended"),
        () = shown => {}
    }
    let written = serde_json::to_string(&*token.lock()).unwrap();
    let token: ResumeToken = serde_json::from_str(&written).unwrap();
    let second = Client::connect(Target::http(&server.url()).unwrap(), crate::kit::options()).await.unwrap();
    let result = second.resume(&token, CallOptions::new()).await.unwrap();
    assert!(result.as_str().contains("done"));
    let get = &server.of("GET", "")[0];
    assert_eq!((get.header("last-event-id"), get.header("mcp-session-id")), ("p1", "s1"));
    assert_eq!(server.count("POST", "tools/call"), 1);
}

/// A stream that goes silent without a word is resumed where it can be.
#[tokio::test]
async fn a_silent_connection_is_left_for_a_new_one() {
    let steps = [
        on("POST", "tools/call").stream().raw("id: p\nretry: 10\ndata:\n\n").then(Act::Hold),
        on("GET", "").stream().raw(format!("data: {}\n\n", RESULT.replace("$ID", "2"))).close(),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let mut options = options();
    options.silence = Duration::from_millis(200);
    let client = connect_with(&server, options).await;
    let (result, time) = timed(call(&client)).await;
    assert_eq!(text(result), "done");
    assert!(time < AT_ONCE, "{time:?}");
}

/// A resume that is redirected away, or asked for credentials that there are not, is what the error speaks of.
#[tokio::test]
async fn a_resume_that_is_redirected_says_where_to() {
    let steps = [
        on("POST", "tools/call").stream().raw("id: p\nretry: 10\ndata:\n\n").close(),
        on("GET", "").answer(307, "location: http://localhost:1/elsewhere\r\n", ""),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    let result = call(&client).await;
    assert!(is_unknown(&result), "{result:?}");
    let message = result.unwrap_err().to_string();
    assert!(message.contains("localhost:1/elsewhere") && !message.contains("401"), "{message}");
    assert!(message.contains("may have run") && !message.contains("did not run"), "{message}");
    assert_eq!(server.of("GET", "").len(), 1);
}

/// A resume that is answered with JSON: the response is taken as it is, anything else ends the call, and neither is asked for again.
#[tokio::test]
async fn a_resume_may_be_answered_with_json() {
    let primed = || on("POST", "tools/call").stream().raw("id: p\nretry: 20\ndata:\n\n").close();
    let refusal = r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no such cursor"}}"#;
    let other = r#"{"jsonrpc":"2.0","id":77,"result":{}}"#;
    for (body, wanted) in [
        (RESULT.replace("$ID", "2"), None),
        (refusal.to_owned(), Some("error -32602: no such cursor")),
        (other.to_owned(), Some("not the response to this request")),
        (String::new(), Some("it is empty")),
        ("{\"jsonrpc\"".to_owned(), Some("not the response to this request")),
    ] {
        let get = on("GET", "").json(200, "", &body).always();
        let server = Scripted::start(with_session([primed(), get])).await;
        let client = connect(&server).await;
        let (outcome, _) = timed(call(&client)).await;
        match wanted {
            None => assert_eq!(text(outcome), "done"),
            Some(said) => {
                assert!(is_unknown(&outcome), "{body}: {outcome:?}");
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains(said), "{body}: {error}");
            }
        }
        assert_eq!(server.count("GET", ""), 1, "{body}");
    }
}

/// JSON that breaks off on the way is asked for again, as often as a stream.
#[tokio::test]
async fn a_json_answer_to_a_resume_that_breaks_off_is_asked_for_again() {
    let whole = RESULT.replace("$ID", "2");
    let broken = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
        whole.len(),
        &whole[..20]
    );
    let steps = [
        on("POST", "tools/call").stream().raw("id: p\nretry: 20\ndata:\n\n").close(),
        on("GET", "").then(Act::Write(broken.into_bytes())).close(),
        on("GET", "").json(200, "", &whole),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(text(call(&client).await), "done");
    assert_eq!(server.count("GET", ""), 2);
}
