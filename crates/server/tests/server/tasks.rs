//! SEMANTICS 4: calls of modern clients that become tasks.

use crate::{
    client::Server,
    modern_script::{META, ModernClient},
};
use bowline_server::{CancelReason, Options};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

impl Server {
    /// A modern client that can have tasks.
    pub(crate) fn task_client(&self) -> ModernClient {
        let mut client = self.modern_client();
        client.capabilities = json!({ "roots": {}, "extensions": { EXTENSION: {} } });
        client
    }
}

impl ModernClient {
    /// The id of the task that a call becomes.
    pub(crate) async fn task(&mut self, name: &str, params: Value) -> String {
        let (status, result) = self.outcome(name, params).await;
        assert_eq!((status, &result["resultType"]), (200, &json!("task")), "{result}");
        result["taskId"].as_str().unwrap().to_owned()
    }

    /// What is said to a request about a task: its status, and the result or the error.
    pub(crate) async fn about(&mut self, method: &str, params: Value) -> (u16, Value) {
        let answer = self.call(method, params).await;
        let status = answer.status.as_u16();
        let body = answer.json().await;
        let said = if body["error"].is_null() { &body["result"] } else { &body["error"] };
        (status, said.clone())
    }

    pub(crate) async fn get_task(&mut self, id: &str) -> Value {
        let (status, task) = self.about("tasks/get", json!({ "taskId": id })).await;
        assert_eq!(status, 200, "{task}");
        task
    }

    pub(crate) async fn update_task(&mut self, id: &str, answers: Value) {
        let (status, acknowledged) =
            self.about("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
        assert_eq!(status, 200, "{acknowledged}");
        assert_is_acknowledgement(&acknowledged);
    }

    pub(crate) async fn cancel_task(&mut self, id: &str) {
        let (status, acknowledged) = self.about("tasks/cancel", json!({ "taskId": id })).await;
        assert_eq!(status, 200, "{acknowledged}");
        assert_is_acknowledgement(&acknowledged);
    }
}

fn assert_is_acknowledgement(result: &Value) {
    let mut names: Vec<_> = result.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["_meta", "resultType"], "{result}");
    assert_eq!(result["resultType"], "complete");
}

fn options(change: impl FnOnce(&mut Options)) -> Server {
    let mut options = Options::default();
    change(&mut options);
    Server::modern_options(options)
}

async fn pause(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_the_hold_becomes_a_task_and_its_result_can_be_fetched() {
    let server = Server::modern();
    let mut client = server.task_client();
    let began = Instant::now();
    let answer = client.tool("task_sleep", json!({ "seconds": 10 })).await;
    assert_eq!(((Instant::now() - began).as_secs(), answer.status.as_u16()), (1, 200));
    let created = answer.json().await["result"].clone();
    let mut names: Vec<_> = created.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["_meta", "createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"]
    );
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert_eq!(created["ttlMs"], 7_200_000);
    // The wait of a poll: 2 s to begin with, 20 % more at most.
    assert!((2_000..=2_400).contains(&created["pollIntervalMs"].as_u64().unwrap()), "{created}");

    let id = created["taskId"].as_str().unwrap();
    let working = client.get_task(id).await;
    assert_eq!((&working["status"], &working["resultType"]), (&json!("working"), &json!("complete")));
    for name in ["taskId", "createdAt", "ttlMs"] {
        assert_eq!(working[name], created[name], "{name}");
    }
    pause(9.5).await;
    let done = client.get_task(id).await;
    assert_eq!((&done["status"], &done["result"]["slept"]), (&json!("completed"), &json!(10.0)), "{done}");
    assert_eq!((&done["result"]["resultType"], &done["pollIntervalMs"]), (&json!("complete"), &Value::Null));
    assert!(done["lastUpdatedAt"].as_str() > done["createdAt"].as_str(), "{done}");
    assert_eq!(client.get_task(id).await, done, "again and again");
    assert_eq!(server.endpoint.metrics().tasks_created.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_quick_or_may_not_be_a_task_is_answered_on_its_connection() {
    let server = Server::modern();
    let (_, result) = server.task_client().outcome("task_sleep", json!({ "seconds": 0.5 })).await;
    assert_eq!((&result["resultType"], &result["slept"]), (&json!("complete"), &json!(0.5)));
    // The tool allows none; the client can have none; the method has none.
    let mut answer = server.task_client().tool("slow", json!({})).await;
    assert_eq!(answer.messages().await.last().unwrap()["result"]["slow"], true);
    let mut answer = server.modern_client().tool("task_sleep", json!({ "seconds": 5 })).await;
    assert_eq!(answer.messages().await.last().unwrap()["result"]["slept"], 5.0);
    let mut answer = server.task_client().call("count", json!({ "name": "task_sleep", "then": 5 })).await;
    assert_eq!(answer.messages().await.last().unwrap()["result"]["counted"], 0);
    assert_eq!(server.endpoint.metrics().tasks_created.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_requires_tasks_becomes_one_at_once_and_refuses_other_clients() {
    let server = Server::modern();
    let began = Instant::now();
    let mut client = server.task_client();
    let id = client.task("must_sleep", json!({ "seconds": 0.5 })).await;
    assert_eq!((Instant::now() - began), Duration::ZERO);
    pause(1.0).await;
    assert_eq!(client.get_task(&id).await["status"], "completed");
    let (status, error) = server.modern_client().outcome("must_sleep", json!({})).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32021)));
    assert_eq!(error["data"], json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } }));
    assert_eq!(server.script.calls.load(Ordering::SeqCst), 1, "the other one was not run");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_tasks_says_so_by_the_extension_alone() {
    let server = Server::modern();
    let answer = server.modern_client().call("server/discover", json!({})).await.json().await;
    let capabilities = &answer["result"]["capabilities"];
    assert_eq!(
        (&capabilities["extensions"], &capabilities["tasks"]),
        (&json!({ EXTENSION: {} }), &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_it_has_a_handle_cancels_and_afterwards_does_not() {
    let server = Server::modern();
    let mut client = server.task_client();
    let leaves = async { client.tool("task_stubborn", json!({})).await.status };
    assert!(tokio::time::timeout(Duration::from_millis(500), leaves).await.is_err());
    pause(0.001).await;
    assert_eq!(std::mem::take(&mut *server.script.cancelled.lock()), [CancelReason::Disconnected]);

    let mut client = server.task_client();
    let id = client.task("task_stubborn", json!({})).await;
    drop(client);
    // Longer than a call of which nobody asks goes on.
    pause(1_800.0).await;
    assert!(server.script.cancelled.lock().is_empty());
    assert_eq!(server.task_client().get_task(&id).await["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn it_can_be_cancelled_and_that_again() {
    let server = Server::modern();
    let mut client = server.task_client();
    let id = client.task("task_stubborn", json!({})).await;
    client.cancel_task(&id).await;
    pause(0.001).await;
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::Client]);
    let cancelled = client.get_task(&id).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled.get("result").is_none() && cancelled.get("error").is_none(), "{cancelled}");
    client.cancel_task(&id).await;
    client.update_task(&id, json!({ "q1": {} })).await;
    assert_eq!(client.get_task(&id).await, cancelled);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_protocol_fails_it() {
    let server = Server::modern();
    let mut client = server.task_client();
    let id = client.task("task_fail", json!({ "seconds": 2 })).await;
    pause(2.0).await;
    let failed = client.get_task(&id).await;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!(-7)));
    assert_eq!((&failed["statusMessage"], failed.get("result")), (&json!("It did not work"), None));
}

#[tokio::test(start_paused = true)]
async fn it_asks_by_its_state_and_is_answered_in_parts() {
    let server = Server::modern();
    let mut client = server.task_client();
    let began = Instant::now();
    let id = client.task("task_ask", json!({})).await;
    assert_eq!((Instant::now() - began), Duration::ZERO, "it wished to be one");
    pause(0.01).await;
    let asking = client.get_task(&id).await;
    let roots = json!({ "method": "roots/list", "params": {} });
    assert_eq!(
        (&asking["status"], &asking["inputRequests"]),
        (&json!("input_required"), &json!({ "q1": roots, "q2": roots }))
    );
    // What was not asked, and what is no answer, changes nothing.
    client.update_task(&id, json!({ "unknown": {}, "q9": {}, "q1": 7 })).await;
    assert_eq!(client.get_task(&id).await["inputRequests"], asking["inputRequests"]);
    client.update_task(&id, json!({ "q2": { "roots": [2] } })).await;
    let asking = client.get_task(&id).await;
    assert_eq!(
        (&asking["status"], &asking["inputRequests"]),
        (&json!("input_required"), &json!({ "q1": roots }))
    );
    client.update_task(&id, json!({ "q1": { "roots": [1] }, "q2": { "roots": ["late"] } })).await;
    pause(0.01).await;
    let asking = client.get_task(&id).await;
    assert_eq!(asking["inputRequests"], json!({ "q3": roots }), "a key is never used again");
    client.update_task(&id, json!({ "q3": { "roots": [3] } })).await;
    pause(0.01).await;
    let done = client.get_task(&id).await;
    let expected = json!([{ "roots": [1] }, { "roots": [2] }, { "roots": [3] }]);
    assert_eq!((&done["result"]["answers"], &done["result"]["task"]), (&expected, &json!(true)));
    assert!(done.get("inputRequests").is_none() && done.get("requestState").is_none(), "{done}");
}

#[tokio::test(start_paused = true)]
async fn what_it_asked_before_it_was_one_is_part_of_it() {
    let server = Server::modern();
    let mut client = server.task_client();
    let (_, asked) = client.outcome("task_ask_first", json!({})).await;
    assert_eq!((&asked["resultType"], asked.get("taskId")), (&json!("input_required"), None));
    // As long as its client is not there, there is nobody to be given a handle.
    pause(30.0).await;
    let began = Instant::now();
    let next = crate::modern_script::next_round(&asked, json!({ "q1": { "roots": [] } }));
    let id = client.task("task_ask_first", next).await;
    assert_eq!((Instant::now() - began).as_secs(), 1);
    pause(5.0).await;
    assert_eq!(client.get_task(&id).await["result"]["answers"], json!([{ "roots": [] }]));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_in_time_is_taken_back() {
    let server = options(|options| options.ask_timeout = Duration::from_secs(60));
    let mut client = server.task_client();
    let id = client.task("task_ask", json!({})).await;
    pause(61.0).await;
    // The third is asked after the first two.
    let asking = client.get_task(&id).await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q3"]);
    pause(60.0).await;
    assert_eq!(client.get_task(&id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn only_who_can_have_tasks_and_only_whose_it_is_may_ask_for_one() {
    let server = Server::modern();
    let mut alice = server.task_client();
    alice.client.principal = Some("alice");
    let id = alice.task("must_sleep", json!({ "seconds": 60 })).await;
    assert!(id.len() >= 22, "128 random bits and more");

    let methods = ["tasks/get", "tasks/update", "tasks/cancel"];
    let mut undeclared = server.modern_client();
    undeclared.client.principal = Some("alice");
    for method in methods {
        let (status, error) = undeclared.about(method, json!({ "taskId": id, "inputResponses": {} })).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{method}");
        assert_eq!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION], json!({}));
    }
    let (mut nobody, mut bob) = (server.task_client(), server.task_client());
    bob.client.principal = Some("bob");
    let mut texts = std::collections::HashSet::new();
    for method in methods {
        for client in [&mut nobody, &mut bob] {
            let (status, error) = client.about(method, json!({ "taskId": id, "inputResponses": {} })).await;
            assert_eq!((status, &error["code"]), (200, &json!(-32602)), "{method}");
            texts.insert(error["message"].to_string());
        }
        for params in
            [json!({ "taskId": "unknown", "inputResponses": {} }), json!({ "taskId": 7 }), json!({})]
        {
            let (status, error) = alice.about(method, params.clone()).await;
            assert_eq!((status, &error["code"]), (200, &json!(-32602)), "{method} {params}");
        }
    }
    assert_eq!(texts.len(), 1, "nothing is told of tasks of others: {texts:?}");
    assert_eq!(alice.get_task(&id).await["status"], "working");
    for method in ["tasks/list", "tasks/result"] {
        let (status, error) = alice.about(method, json!({ "taskId": id })).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn mcp_name_is_the_id_of_the_task() {
    let server = Server::modern();
    let mut client = server.task_client();
    let id = client.task("must_sleep", json!({ "seconds": 60 })).await;
    let request = client.request("tasks/get", json!({ "taskId": id }));
    for (name, status) in [(Some(&*id), 200), (Some("another"), 400), (None, 400)] {
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get")];
        headers.extend(name.map(|name| ("mcp-name", name)));
        let answer = client.client.send(http::Method::POST, &headers, request.to_string().into()).await;
        assert_eq!(answer.status, status, "{name:?}");
        if status == 400 {
            assert_eq!(answer.json().await["error"]["code"], -32020);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_kept_for_as_long_as_it_said_and_no_longer() {
    let server = options(|options| options.task_ttl = Duration::from_secs(600));
    let mut client = server.task_client();
    let id = client.task("task_sleep", json!({ "seconds": 10 })).await;
    assert_eq!(client.get_task(&id).await["ttlMs"], 600_000);
    pause(590.0).await;
    assert_eq!(client.get_task(&id).await["status"], "completed");
    pause(20.0).await;
    let (status, error) = client.about("tasks/get", json!({ "taskId": id })).await;
    assert_eq!((status, &error["code"]), (200, &json!(-32602)));
    // One that runs for longer is there for a while after its end.
    let id = client.task("task_sleep", json!({ "seconds": 3_000 })).await;
    pause(3_060.0).await;
    let done = client.get_task(&id).await;
    assert_eq!(
        (&done["status"], done["ttlMs"].as_u64().unwrap() / 1_000),
        (&json!("completed"), 3_119),
        "{done}"
    );
    pause(120.0).await;
    assert_eq!(client.about("tasks/get", json!({ "taskId": id })).await.1["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn its_limit_is_that_of_a_call() {
    let server = options(|options| options.call_timeout = Duration::from_secs(100));
    let mut client = server.task_client();
    let id = client.task("task_stubborn", json!({})).await;
    pause(101.0).await;
    let failed = client.get_task(&id).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["data"]["reason"]),
        (&json!("failed"), &json!("timeout"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_answered_on_its_connection() {
    let server = options(|options| options.max_tasks = 1);
    let mut client = server.task_client();
    let id = client.task("task_sleep", json!({ "seconds": 30 })).await;
    let mut answer = client.tool("task_sleep", json!({ "seconds": 5 })).await;
    assert!(answer.is_stream());
    assert_eq!(answer.messages().await.last().unwrap()["result"]["slept"], 5.0);
    assert_eq!(server.endpoint.metrics().tasks_refused.get(), 1);
    // A place is free again when its task is over.
    client.cancel_task(&id).await;
    pause(0.001).await;
    client.task("task_sleep", json!({ "seconds": 30 })).await;

    // One principal leaves places for the others.
    let server = options(|options| options.max_calls_per_session = 1);
    let principals = [Some("alice"), Some("bob"), None, None];
    for principal in principals {
        let mut client = server.task_client();
        client.client.principal = principal;
        client.task("task_sleep", json!({ "seconds": 30 })).await;
    }
    let mut alice = server.task_client();
    alice.client.principal = Some("alice");
    assert!(alice.tool("task_sleep", json!({ "seconds": 5 })).await.is_stream());
}

#[tokio::test(start_paused = true)]
async fn what_it_says_of_its_progress_is_its_status() {
    let server = Server::modern();
    let mut client = server.task_client();
    let id = client.task("task_progress", json!({})).await;
    assert_eq!(client.get_task(&id).await.get("statusMessage"), None);
    let mut updated = Vec::new();
    for n in 1..=2 {
        pause(if n == 1 { 1.5 } else { 2.0 }).await;
        let task = client.get_task(&id).await;
        assert_eq!(
            (&task["status"], &task["statusMessage"]),
            (&json!("working"), &json!(format!("step {n}")))
        );
        updated.push(task["lastUpdatedAt"].to_string());
    }
    assert!(updated[0] < updated[1], "{updated:?}");
    pause(2.0).await;
    let done = client.get_task(&id).await;
    // Log messages of a task go nowhere.
    assert_eq!(done["result"]["said"], json!([true, false, true, false, true, false]));
    assert_eq!(done.get("statusMessage"), None);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_opened_for_progress_ends_with_the_handle() {
    let server = options(|options| options.json_hold = Duration::from_secs(3));
    let mut client = server.task_client();
    let mut answer = client.tool("task_progress", json!({ "_meta": { "progressToken": "t" } })).await;
    assert!(answer.is_stream());
    let messages = answer.messages().await;
    assert_eq!(messages[0]["params"]["message"], "step 1");
    let created = &messages[1]["result"];
    assert_eq!((messages.len(), &created["resultType"]), (2, &json!("task")));
    pause(4.0).await;
    assert_eq!(client.get_task(created["taskId"].as_str().unwrap()).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_it_for_its_client() {
    let server = Server::modern();
    let mut client = server.task_client();
    let id = client.task("task_stubborn", json!({})).await;
    server.endpoint.drain(Duration::from_secs(5)).await;
    pause(0.01).await;
    let failed = client.get_task(&id).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["data"]["reason"]),
        (&json!("failed"), &json!("draining"))
    );
    assert_eq!(failed["error"]["data"]["outcome"], "unknown");
}

fn subscription(message: &Value) -> &Value {
    &message["params"]["_meta"][format!("{META}/subscriptionId")]
}

#[tokio::test(start_paused = true)]
async fn who_listens_is_told_of_every_state_with_all_that_a_get_would_say() {
    let server = Server::modern();
    let mut client = server.task_client();
    let id = client.task("task_ask", json!({})).await;
    let other = client.task("task_stubborn", json!({})).await;
    pause(0.01).await;
    let wanted = json!({ "notifications": { "taskIds": [id, "unknown"] } });
    let request = client.request("subscriptions/listen", wanted.clone());
    let mut answer = client.send(&request).await;
    let next = async |answer: &mut crate::client::Answer| {
        loop {
            if let Some(message) = answer.event().await.unwrap().data {
                assert_eq!(subscription(&message), &request["id"]);
                return message;
            }
        }
    };
    let first = next(&mut answer).await;
    assert_eq!(first["params"]["notifications"], json!({ "taskIds": [id] }), "only what there is");
    // As it is, then as it becomes.
    let mut told = next(&mut answer).await;
    assert_eq!(told["method"], "notifications/tasks");
    let mut asking = client.get_task(&id).await;
    for one in [&mut told["params"], &mut asking] {
        for member in ["_meta", "resultType", "pollIntervalMs"] {
            one.as_object_mut().unwrap().remove(member);
        }
    }
    assert_eq!(told["params"], asking);
    client.cancel_task(&other).await;
    client.update_task(&id, json!({ "q1": {}, "q2": {} })).await;
    pause(0.01).await;
    let told = next(&mut answer).await;
    assert_eq!(told["params"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q3"]);
    client.update_task(&id, json!({ "q3": {} })).await;
    let mut last = next(&mut answer).await;
    if last["params"]["status"] == "working" {
        last = next(&mut answer).await;
    }
    assert_eq!(
        (&last["params"]["status"], &last["params"]["result"]["task"]),
        (&json!("completed"), &json!(true))
    );
    assert_eq!(last["params"]["taskId"], json!(id));

    let mut undeclared = server.modern_client();
    let (status, error) = undeclared.about("subscriptions/listen", wanted).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32021)));
}
