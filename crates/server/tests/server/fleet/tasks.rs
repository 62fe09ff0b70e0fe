//! Tasks over a shared store: any backend answers for them, and one that dies leaves none behind.

use super::{Backend, link::Way, pause};
use crate::modern_script::{ModernClient, next_round};
use bowline_server::{CancelReason, Options, Takeover};
use bowline_store::MemoryStore;
use serde_json::json;
use std::{sync::atomic::Ordering, time::Duration};

impl Backend {
    fn task_client(&self) -> ModernClient {
        let mut client = self.server.task_client();
        client.client.principal = Some("alice");
        client
    }
}

/// Backends that run tasks again, each of which has lived long enough to judge others.
async fn rerunning<const N: usize>() -> (MemoryStore, [Backend; N]) {
    let store = MemoryStore::default();
    let mut options = Options::default();
    options.takeover = Takeover::Rerun;
    let all = std::array::from_fn(|_| Backend::modern_options(&store, options.clone()));
    pause(15.0).await;
    (store, all)
}

fn calls(backend: &Backend) -> usize {
    backend.server.script.calls.load(Ordering::SeqCst)
}

fn two() -> (MemoryStore, Backend, Backend) {
    let store = MemoryStore::default();
    let (a, b) = (Backend::modern(&store), Backend::modern(&store));
    (store, a, b)
}

#[tokio::test(start_paused = true)]
async fn any_backend_gives_it_out_and_passes_answers_on() {
    let (_, a, b) = two();
    pause(1.0).await;
    let (mut here, mut there) = (a.task_client(), b.task_client());
    let id = here.task("task_ask", json!({})).await;
    pause(0.01).await;
    let asking = there.get_task(&id).await;
    assert_eq!(asking["status"], "input_required");
    there.update_task(&id, json!({ "q1": { "roots": [1] }, "other": {} })).await;
    pause(0.01).await;
    let asking = there.get_task(&id).await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q2"]);
    // The same answer twice is one, from whichever backend.
    there.update_task(&id, json!({ "q1": { "roots": ["again"] }, "q2": { "roots": [2] } })).await;
    here.update_task(&id, json!({ "q2": { "roots": [2] } })).await;
    pause(0.01).await;
    there.update_task(&id, json!({ "q3": { "roots": [3] } })).await;
    pause(0.01).await;
    let done = there.get_task(&id).await;
    assert_eq!(done["result"]["answers"], json!([{ "roots": [1] }, { "roots": [2] }, { "roots": [3] }]));
    assert_eq!(here.get_task(&id).await, done);
    let (_, error) = b.server.task_client().about("tasks/get", json!({ "taskId": id })).await;
    assert_eq!(error["code"], -32602, "somebody else's on every backend");
}

#[tokio::test(start_paused = true)]
async fn where_it_runs_an_answer_shows_as_soon_as_it_is_acknowledged() {
    let (_, a, _) = two();
    pause(1.0).await;
    let mut here = a.task_client();
    let id = here.task("task_ask", json!({})).await;
    pause(0.01).await;
    here.update_task(&id, json!({ "q1": {} })).await;
    let asking = here.get_task(&id).await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q2"]);
}

#[tokio::test(start_paused = true)]
async fn any_backend_cancels_it() {
    let (_, a, b) = two();
    pause(1.0).await;
    let id = a.task_client().task("task_stubborn", json!({})).await;
    let mut there = b.task_client();
    there.cancel_task(&id).await;
    pause(0.01).await;
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::Client]);
    assert_eq!(there.get_task(&id).await["status"], "cancelled");
    there.cancel_task(&id).await;
}

#[tokio::test(start_paused = true)]
async fn who_listens_elsewhere_is_told() {
    let (_, a, b) = two();
    pause(1.0).await;
    let id = a.task_client().task("task_sleep", json!({ "seconds": 10 })).await;
    let mut there = b.task_client();
    let mut answer =
        there.call("subscriptions/listen", json!({ "notifications": { "taskIds": [id] } })).await;
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|last| last != "completed") {
        if let Some(told) = answer.event().await.unwrap().data
            && told["method"] == "notifications/tasks"
        {
            statuses.push(told["params"]["status"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(statuses, ["working", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn one_of_a_dead_backend_has_failed_within_20_seconds_and_that_can_be_read_for_as_long_as_it_said() {
    let (store, a, b) = two();
    pause(15.0).await;
    let mut here = a.task_client();
    let asking = here.task("task_ask", json!({})).await;
    let working = here.task("task_stubborn", json!({})).await;
    a.link.set(Way::Cut);
    pause(20.0).await;
    assert_eq!(store.stats().streams_open, 0);
    let mut there = b.task_client();
    for wait in [0.0, 600.0, 3_600.0] {
        pause(wait).await;
        for id in [&asking, &working] {
            let failed = there.get_task(id).await;
            assert_eq!(failed["status"], "failed", "{failed}");
            assert_eq!(failed["error"]["data"], json!({ "reason": "owner_lost", "outcome": "unknown" }));
            assert!(failed.get("inputRequests").is_none(), "{failed}");
        }
    }
    // The one that was only cut off has given up too.
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::OwnerLost]);
    a.link.set(Way::Open);
    pause(10.0).await;
    assert_eq!(there.get_task(&working).await["status"], "failed", "there is one end");
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_one_of_a_dead_backend_ends_it() {
    let (_, a, b) = two();
    pause(15.0).await;
    let id = a.task_client().task("task_stubborn", json!({})).await;
    a.link.set(Way::Cut);
    pause(10.5).await;
    let failed = b.task_client().get_task(&id).await;
    assert_eq!(failed["error"]["data"]["reason"], "owner_lost", "{failed}");
}

#[tokio::test(start_paused = true)]
async fn no_handle_goes_out_without_a_log() {
    let (store, a, _) = two();
    pause(1.0).await;
    for way in [Way::Cut, Way::Silent] {
        a.link.set(way);
        let mut answer = a.task_client().tool("task_sleep", json!({ "seconds": 4 })).await;
        assert!(answer.is_stream(), "{way:?}");
        let messages = answer.messages().await;
        assert_eq!(messages.last().unwrap()["result"]["slept"], 4.0, "{way:?}: {messages:?}");
    }
    a.link.set(Way::Open);
    pause(30.0).await;
    assert_eq!(store.stats().streams_open, 0, "what was not used is not left behind");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_not_a_task_that_there_is_not() {
    let (_, a, b) = two();
    pause(1.0).await;
    let id = a.task_client().task("task_ask", json!({})).await;
    pause(0.01).await;
    for way in [Way::Cut, Way::Silent] {
        b.link.set(way);
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({ "taskId": id, "inputResponses": { "q1": {} } });
            let mut there = b.task_client();
            let answer = tokio::time::timeout(Duration::from_secs(1), there.call(method, params)).await;
            let answer = answer.expect("within a second");
            assert_eq!(answer.status, 503, "{way:?} {method}");
            assert!(answer.headers.contains_key("retry-after"));
        }
    }
    b.link.set(Way::Open);
    assert_eq!(b.task_client().get_task(&id).await["inputRequests"].as_object().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_may_run_twice_is_run_again_under_the_same_id() {
    let (_, [a, b]) = rerunning().await;
    let mut here = a.task_client();
    let id = here.task("task_sleep", json!({ "seconds": 30, "repeatable": true })).await;
    let made = here.get_task(&id).await["createdAt"].clone();
    a.link.set(Way::Cut);
    pause(20.0).await;
    let mut there = b.task_client();
    let working = there.get_task(&id).await;
    assert_eq!((&working["status"], &working["createdAt"]), (&json!("working"), &made), "{working}");
    assert!(working["statusMessage"].as_str().unwrap().contains("run 2"), "{working}");
    assert_eq!((calls(&b), b.server.endpoint.metrics().calls_rerun.get()), (1, 1));
    pause(31.0).await;
    let done = there.get_task(&id).await;
    assert_eq!((&done["status"], &done["result"]["slept"]), (&json!("completed"), &json!(30.0)), "{done}");
    assert_eq!(done["createdAt"], made);
    // The one that was only cut off has been stopped, and changes nothing.
    a.link.set(Way::Open);
    pause(10.0).await;
    assert_eq!(here.get_task(&id).await, done);
    pause(3_000.0).await;
    assert_eq!(there.get_task(&id).await["status"], "completed", "for as long as was said");
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_fails_as_before_and_so_does_one_that_came_with_answers() {
    let (_, [a, b]) = rerunning().await;
    let mut here = a.task_client();
    let plain = here.task("task_sleep", json!({ "seconds": 60 })).await;
    let (_, asked) = here.outcome("task_rounds", json!({ "repeatable": true })).await;
    let mut again = next_round(&asked, json!({ "first": { "roots": [1] } }));
    again["repeatable"] = json!(true);
    let (_, answered) = here.outcome("task_rounds", again).await;
    let answered = answered["taskId"].as_str().expect("a task").to_owned();
    a.link.set(Way::Cut);
    pause(20.0).await;
    for id in [&plain, &answered] {
        let failed = b.task_client().get_task(id).await;
        assert_eq!(failed["error"]["data"]["reason"], "owner_lost", "{failed}");
    }
    assert_eq!((calls(&b), b.server.endpoint.metrics().calls_rerun.get()), (0, 0));
}

/// An answer to a question of the first run, which is on its way when that dies, is none to one of the second.
#[tokio::test(start_paused = true)]
async fn one_that_had_asked_asks_anew() {
    let (_, [a, b]) = rerunning().await;
    let id = a.task_client().task("task_ask", json!({ "repeatable": true })).await;
    pause(0.01).await;
    a.link.set(Way::Cut);
    pause(1.0).await;
    let mut there = b.task_client();
    there.update_task(&id, json!({ "q1": { "roots": ["too late"] } })).await;
    pause(20.0).await;
    let asking = there.get_task(&id).await;
    let keys = |task: &serde_json::Value| -> Vec<String> {
        task["inputRequests"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!((&asking["status"], keys(&asking).len()), (&json!("input_required"), 2), "{asking}");
    assert!(keys(&asking).iter().all(|key| key != "q1" && key != "q2"), "{asking}");
    for turn in [2, 1] {
        let asking = there.get_task(&id).await;
        let answers: serde_json::Map<_, _> =
            keys(&asking).into_iter().map(|key| (key, json!({ "roots": [turn] }))).collect();
        there.update_task(&id, answers.into()).await;
        pause(0.01).await;
    }
    let done = there.get_task(&id).await;
    let expected = json!([{ "roots": [2] }, { "roots": [2] }, { "roots": [1] }]);
    assert_eq!(done["result"]["answers"], expected, "{done}");
}

#[tokio::test(start_paused = true)]
async fn one_that_its_client_cancelled_meanwhile_is_not_run() {
    let (_, [a, b]) = rerunning().await;
    let id = a.task_client().task("task_sleep", json!({ "seconds": 60, "repeatable": true })).await;
    a.link.set(Way::Cut);
    pause(1.0).await;
    let mut there = b.task_client();
    there.cancel_task(&id).await;
    pause(20.0).await;
    assert_eq!(there.get_task(&id).await["status"], "cancelled");
    assert_eq!(calls(&b), 0);
}

/// What is said to it while it is run again reaches it, from whatever backend.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_one_that_is_run_again() {
    let (_, [a, b, c]) = rerunning().await;
    let id = a.task_client().task("task_stubborn", json!({ "repeatable": true })).await;
    a.link.set(Way::Cut);
    pause(20.0).await;
    let reasons = || [&b, &c].map(|backend| backend.server.script.cancelled.lock().clone()).concat();
    for backend in [&b, &c] {
        assert_eq!(backend.task_client().get_task(&id).await["status"], "working");
    }
    b.task_client().cancel_task(&id).await;
    c.task_client().cancel_task(&id).await;
    pause(6.0).await;
    assert_eq!(reasons(), [CancelReason::Client]);
    assert_eq!(c.task_client().get_task(&id).await["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn one_that_kills_its_backends_fails_in_the_end() {
    let (_, [a, b, c]) = rerunning().await;
    let id = a.task_client().task("task_sleep", json!({ "seconds": 600, "repeatable": true })).await;
    a.link.set(Way::Cut);
    pause(20.0).await;
    let (ran, left) = if calls(&b) == 1 { (&b, &c) } else { (&c, &b) };
    assert_eq!((calls(ran), calls(left)), (1, 0));
    ran.link.set(Way::Cut);
    pause(20.0).await;
    let failed = left.task_client().get_task(&id).await;
    assert_eq!(failed["error"]["data"], json!({ "reason": "owner_lost", "outcome": "unknown" }), "{failed}");
    assert_eq!(calls(left), 0);
}
