//! The MCP Inspector in a real browser: version 1 connected straight to us from another origin, version 2 through its own server.

use crate::common::fixture;
use bowline_testkit::{Inspector, PATIENCE, eventually};
use serde_json::Value;
use std::time::Duration;

/// Whether each answer that the page saw names its origin, and which requests there were.
fn methods(done: &Value) -> Vec<(String, u64, bool)> {
    let requests = done["requests"].as_array().unwrap();
    let seen = requests.iter().map(|request| {
        assert_eq!(request["origin"], done["origin"], "{request}");
        let method = request["method"].as_str().unwrap().to_owned();
        (method, request["status"].as_u64().unwrap(), request["resumed"] == true)
    });
    seen.collect()
}

/// Connects, lists, calls, sees progress while the call runs and is parked again and again, and ends its session.
#[tokio::test]
async fn works_from_an_origin_that_is_allowed() {
    let options = "--allow-origin http://inspector.test --json-hold 50ms --max-connection 1s --retry 300ms";
    let program = fixture().with(options).start().await;
    let inspector = Inspector::at("http://inspector.test").screenshot("inspector.png");
    let run = inspector.run(program.url()).await;
    assert_eq!(run.steps(), ["connected", "listed", "progress", "result", "disconnected", "done"]);
    assert_eq!(run.run.step("result")["progress"], 8, "each one, once");
    let ahead = run.run.step("progress")["ahead"].as_u64().unwrap();
    assert!(ahead > 1000, "the first was shown {ahead} ms before the result, of 3500");
    let requests = methods(run.run.step("done"));
    let polls = requests
        .iter()
        .filter(|(method, status, resumed)| (method.as_str(), *status, *resumed) == ("GET", 200, true));
    assert!(polls.count() >= 2, "a page can present Last-Event-ID: {requests:?}");
    assert!(requests.contains(&("DELETE".into(), 204, false)), "{requests:?}");
    eventually("the end of the session's server", PATIENCE, || program.servers().is_empty()).await;
    let picture = run.screenshot().metadata().unwrap().len();
    assert!(picture > 20_000, "a picture of {picture} bytes shows nothing");
}

#[tokio::test]
async fn works_from_a_page_of_this_machine_without_any_option() {
    let program = fixture().start().await;
    let run = Inspector::local()
        .screenshot("inspector-local.png")
        .call(Duration::from_secs(1), 4)
        .run(program.url())
        .await;
    assert_eq!(run.steps(), ["connected", "listed", "progress", "result", "disconnected", "done"]);
    assert_eq!(run.run.step("result")["progress"], 4);
    assert!(methods(run.run.step("done")).contains(&("DELETE".into(), 204, false)));
}

/// Here the requests are not the browser's, and the session is left to its time to live.
#[tokio::test]
async fn version_2_connects_lists_calls_and_sees_progress() {
    let program = fixture().with("--json-hold 50ms --max-connection 1s --retry 300ms").start().await;
    let run = Inspector::version_2().screenshot("inspector-2.png").run(program.url()).await;
    assert_eq!(run.steps(), ["connected", "listed", "progress", "result", "disconnected", "done"]);
    assert_eq!(run.run.step("result")["progress"], 8, "each one, once");
    let ran = program.received().iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(ran, 1, "polled for, not called again");
}

/// The page may not read why, so the log says it.
#[tokio::test]
async fn is_refused_from_an_origin_that_is_not_allowed() {
    let program = fixture().start().await;
    let inspector = Inspector::at("http://inspector.test").refused().screenshot("inspector-refused.png");
    let run = inspector.run(program.url()).await;
    assert_eq!(run.steps(), ["refused", "done"]);
    let requests = run.run.step("done")["requests"].as_array().unwrap();
    assert!(!requests.is_empty() && requests.iter().all(|request| request["status"] == 0), "{requests:?}");
    assert!(program.servers().is_empty(), "no session was made");
    let said = program.said();
    assert!(said.contains("http://inspector.test") && said.contains("--allow-origin"), "{said}");
}
