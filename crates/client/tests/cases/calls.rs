//! C1, C3, L1, L2: a call runs at most once, and always ends.

use crate::kit::*;
use bowline_client::{CallError, CallOptions, TimeLimit};
use bowline_testkit::scripted::{Act, Scripted, on};
use std::time::Duration;

/// C1, L1 a and b: whatever breaks after the request was written, it is not sent again, and the caller knows at once.
#[tokio::test]
async fn a_call_whose_answer_breaks_off_is_never_sent_again() {
    let breaks = [
        ("reset before a byte of the answer", on("POST", "tools/call").reset()),
        ("closed before a byte of the answer", on("POST", "tools/call").close()),
        ("closed inside the head", on("POST", "tools/call").raw("HTTP/1.1 200 OK\r\ncont").close()),
        ("stream closed at once", on("POST", "tools/call").stream().close()),
        ("comment, then reset", on("POST", "tools/call").stream().raw(": hi\n\n").wait(20).reset()),
        (
            "body shorter than announced",
            on("POST", "tools/call")
                .raw(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"json",
                )
                .close(),
        ),
        ("502 of a proxy", on("POST", "tools/call").answer(502, "", "bad gateway")),
        ("504 of a proxy", on("POST", "tools/call").answer(504, "", "timeout")),
        ("500 without a word", on("POST", "tools/call").answer(500, "", "")),
    ];
    for (what, step) in breaks {
        let server = Scripted::start(with_session([step, call_done()])).await;
        let client = connect(&server).await;
        let (result, time) = timed(call(&client)).await;
        assert!(is_unknown(&result), "{what}: {result:?}");
        assert!(result.unwrap_err().may_have_run());
        assert!(time < AT_ONCE, "{what}: {time:?}");
        assert_eq!(server.count("POST", "tools/call"), 1, "{what}");
        // The next call works.
        assert_eq!(text(call(&client).await), "done", "{what}");
        assert!(server.unexpected().is_empty(), "{what}");
    }
}

/// C1 (ii): what is marked may run twice, and is sent again.
#[tokio::test]
async fn an_idempotent_call_is_sent_again() {
    let server = Scripted::start(with_session([on("POST", "tools/call").reset(), call_done()])).await;
    let client = connect(&server).await;
    let options = CallOptions::new().idempotent();
    let output = client.call_tool_with("t", &serde_json::json!({}), options).await.unwrap();
    assert_eq!(output.text(), "done");
    assert_eq!(server.count("POST", "tools/call"), 2);
}

/// C1 (ii): the list says so.
#[tokio::test]
async fn a_tool_that_the_list_marks_read_only_is_sent_again() {
    let list = r#"{"tools":[{"name":"t","inputSchema":{},"annotations":{"readOnlyHint":true}}]}"#;
    let steps = [on("POST", "tools/list").result(list), on("POST", "tools/call").reset(), call_done()];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    assert_eq!(client.list_tools().await.unwrap()[0].annotations.read_only_hint, Some(true));
    assert_eq!(text(call(&client).await), "done");
}

/// C1 (i): the answer proves that nothing ran.
#[tokio::test]
async fn what_was_refused_before_anybody_looked_is_sent_again() {
    let draining = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"shutting down"}}"#;
    for (status, headers, body) in
        [(503, "", draining), (503, "retry-after: 1\r\n", ""), (429, "retry-after: 1\r\n", "")]
    {
        let refused = on("POST", "tools/call");
        let refused = if body.is_empty() {
            refused.answer(status, headers, "")
        } else {
            refused.json(status, headers, body)
        };
        let server = Scripted::start(with_session([refused, call_done()])).await;
        let client = connect(&server).await;
        let (result, time) = timed(call(&client)).await;
        assert_eq!(text(result), "done");
        assert_eq!(server.count("POST", "tools/call"), 2);
        if !headers.is_empty() {
            assert!(time >= Duration::from_secs(1), "Retry-After is kept to: {time:?}");
        }
    }
}

/// C1: proxies say 503 of calls that run, and servers of calls that they gave up.
#[tokio::test]
async fn what_may_have_run_is_not_sent_again_whatever_the_status() {
    let reset =
        "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
    let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"the store is away","data":{"reason":"store_unavailable","outcome":"unknown"}}}"#;
    let answers = [
        on("POST", "tools/call").answer(503, "content-type: text/plain\r\n", reset),
        on("POST", "tools/call").answer(
            503,
            "content-type: application/json\r\n",
            r#"{"message":"Service Unavailable"}"#,
        ),
        on("POST", "tools/call").answer(503, "", ""),
        on("POST", "tools/call").answer(499, "", ""),
        on("POST", "tools/call").json(503, "retry-after: 1\r\n", unknown),
        on("POST", "tools/call").json(429, "retry-after: 1\r\n", unknown),
    ];
    for answer in answers {
        let server = Scripted::start(with_session([answer, call_done()])).await;
        let client = connect(&server).await;
        assert!(is_unknown(&call(&client).await));
        assert_eq!(server.count("POST", "tools/call"), 1);
    }
}

/// C3: errors that the server decided are final.
#[tokio::test]
async fn a_servers_own_error_is_final_and_a_tools_error_is_a_result() {
    let error =
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no such tool","data":{"x":1}}}"#;
    let failed =
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"isError":true,"content":[{"type":"text","text":"no"}]}}"#;
    let steps = [
        on("POST", "tools/call").json(200, "", error),
        on("POST", "tools/call").json(400, "", error),
        on("POST", "tools/call").json(404, "", error),
        on("POST", "tools/call").json(200, "", failed),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    for _ in 0..3 {
        let Err(CallError::Protocol(error)) = call(&client).await else { panic!("no error of the server") };
        assert_eq!((error.code, &*error.message), (-32602, "no such tool"));
        assert_eq!(error.data.unwrap().as_str(), r#"{"x":1}"#);
    }
    assert!(call(&client).await.unwrap().is_error);
    assert_eq!(server.count("POST", "tools/call"), 4);
    assert_eq!(server.count("POST", "initialize"), 1);
}

/// A server that knows that nobody knows says so, and so do we.
#[tokio::test]
async fn an_outcome_that_the_server_calls_unknown_is_unknown() {
    let lost = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"owner lost","data":{"outcome":"unknown"}}}"#;
    let server = Scripted::start(with_session([on("POST", "tools/call").json(200, "", lost)])).await;
    let client = connect(&server).await;
    assert!(is_unknown(&call(&client).await));
}

/// L1 d: the response ends the call, not the end of the stream.
#[tokio::test]
async fn a_response_is_returned_while_its_stream_stays_open() {
    let data = format!("data: {RESULT}\n\n");
    let steps = [on("POST", "tools/call").stream().raw(data).then(Act::Hold)];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    let (result, time) = timed(call(&client)).await;
    assert_eq!(text(result), "done");
    assert!(time < AT_ONCE, "{time:?}");
}

/// L2: each limit ends the call, names itself, and the server is told.
#[tokio::test]
async fn limits_end_calls_and_are_named() {
    let progress = r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    let lively = (0..40)
        .fold(on("POST", "tools/call").stream(), |step, _| step.raw(format!("{progress}\n\n")).wait(25));
    let cases = [
        (on("POST", "tools/call").then(Act::Hold), Some(300), None, Some(TimeLimit::Total)),
        (on("POST", "tools/call").then(Act::Hold), None, Some(300), Some(TimeLimit::Idle)),
        (
            on("POST", "tools/call").stream().raw(": x\n\n").then(Act::Hold),
            None,
            Some(300),
            Some(TimeLimit::Idle),
        ),
        (lively.clone().then(Act::Hold), Some(500), Some(300), Some(TimeLimit::Total)),
        (lively.raw(format!("data: {RESULT}\n\n")).close(), Some(5_000), Some(300), None),
    ];
    for (step, total, idle, expected) in cases {
        let steps = [step, on("POST", "notifications/cancelled").answer(202, "", "")];
        let server = Scripted::start(with_session(steps)).await;
        let client = connect(&server).await;
        let limit = |ms: Option<u64>| ms.map(Duration::from_millis);
        let options = CallOptions::new().timeout(limit(total)).idle_timeout(limit(idle));
        let (result, time) = timed(client.call_tool_with("t", &serde_json::json!({}), options)).await;
        let Some(expected) = expected else {
            assert_eq!(text(result), "done");
            continue;
        };
        let Err(CallError::Timeout { limit, may_have_run: true, .. }) = result else { panic!("{result:?}") };
        assert_eq!(limit, expected);
        assert!(time < AT_ONCE, "{time:?}");
        let told = || server.of("POST", "notifications/cancelled");
        bowline_testkit::eventually("the cancellation", bowline_testkit::PATIENCE, || !told().is_empty())
            .await;
        let call = &server.of("POST", "tools/call")[0];
        assert_eq!(told()[0].json()["params"]["requestId"].to_string(), call.id);
        assert_eq!(server.count("POST", "tools/call"), 1);
    }
}

/// Waits until the server has got so many calls.
async fn called(server: &Scripted, count: usize) {
    let all = || server.count("POST", "tools/call") == count;
    bowline_testkit::eventually("the call", bowline_testkit::PATIENCE, all).await;
}

/// A program that ends with its call closes the client at once: the server is told first.
#[tokio::test]
async fn who_closes_right_after_giving_a_call_up_has_told_the_server() {
    for _ in 0..20 {
        let steps = [
            on("POST", "tools/call").then(Act::Hold),
            on("POST", "notifications/cancelled").answer(202, "", ""),
        ];
        let server = Scripted::start(with_session(steps)).await;
        let client = connect(&server).await;
        let (options, canceller) = CallOptions::new().cancellable();
        let arguments = serde_json::json!({});
        let (result, ()) = tokio::join!(client.call_tool_with("t", &arguments, options), async {
            called(&server, 1).await;
            canceller.cancel("enough");
        });
        assert!(matches!(result, Err(CallError::Cancelled)), "{result:?}");
        client.close().await;
        assert_eq!(server.count("POST", "notifications/cancelled"), 1);
        assert_eq!(server.count("DELETE", ""), 1);
    }
}

/// Progress extends the whole limit where that is wanted, and is shown.
#[tokio::test]
async fn progress_is_shown_and_may_extend_the_limit() {
    let progress = r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1,"total":2}}"#;
    // The token is the id before that of the request, and the first request after the handshake has the id 2.
    let progress = progress.replace("$TOKEN", "2");
    let lively = (0..20)
        .fold(on("POST", "tools/call").stream(), |step, _| step.raw(format!("{progress}\n\n")).wait(50));
    let server = Scripted::start(with_session([lively.raw(format!("data: {RESULT}\n\n")).close()])).await;
    let client = connect(&server).await;
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&count);
    let options = CallOptions::new()
        .timeout(Some(Duration::from_millis(400)))
        .progress_extends()
        .on_progress(move |progress| {
            assert_eq!(progress.total, Some(2.0));
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
    assert_eq!(text(client.call_tool_with("t", &serde_json::json!({}), options).await), "done");
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 20);
    assert_eq!(server.of("POST", "tools/call")[0].json()["params"]["_meta"]["progressToken"], 2);
}

/// Dropped, or cancelled by its handle: the server is told once, and nothing is sent after that.
#[tokio::test]
async fn a_call_is_cancelled_by_its_handle_or_by_being_dropped() {
    let steps = [
        on("POST", "tools/call").times(2).then(Act::Hold),
        on("POST", "notifications/cancelled").times(2).answer(202, "", ""),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    let (options, canceller) = CallOptions::new().cancellable();
    let arguments = serde_json::json!({});
    let (result, ()) = tokio::join!(client.call_tool_with("t", &arguments, options), async {
        called(&server, 1).await;
        canceller.cancel("enough");
    });
    assert!(matches!(result, Err(CallError::Cancelled)), "{result:?}");
    tokio::select! {
        result = call(&client) => panic!("nobody answers: {result:?}"),
        () = called(&server, 2) => {}
    }
    let cancelled = || server.count("POST", "notifications/cancelled");
    bowline_testkit::eventually("both cancellations", bowline_testkit::PATIENCE, || cancelled() == 2).await;
    assert_eq!(server.count("POST", "tools/call"), 2);
}

/// Calls beyond the limit wait for their turn.
#[tokio::test]
async fn calls_at_the_same_time_are_limited() {
    let server =
        Scripted::start(with_session([on("POST", "tools/call").times(6).wait(60).json(200, "", RESULT)]))
            .await;
    let mut limited = options();
    limited.max_calls = 2;
    let client = connect_with(&server, limited).await;
    let (results, time) = timed(futures_util::future::join_all((0..6).map(|_| call(&client)))).await;
    assert!(results.into_iter().all(|result| text(result) == "done"));
    assert!(time >= Duration::from_millis(170), "two at a time: {time:?}");
}

/// A closed client says so, and asks nothing.
#[tokio::test]
async fn after_close_nothing_is_sent() {
    let steps = [on("POST", "tools/call").then(Act::Hold), on("DELETE", "").answer(204, "", "")];
    let server = Scripted::start(with_session(steps)).await;
    let client = connect(&server).await;
    let (result, ()) = tokio::join!(call(&client), async {
        called(&server, 1).await;
        client.close().await;
    });
    assert!(matches!(result, Err(CallError::OutcomeUnknown { .. })), "it was sent: {result:?}");
    assert!(matches!(call(&client).await, Err(CallError::Closed)));
    assert_eq!(server.count("DELETE", ""), 1);
    assert_eq!(server.of("DELETE", "")[0].header("mcp-session-id"), "s1");
    assert_eq!(server.count("POST", "tools/call"), 1);
}
