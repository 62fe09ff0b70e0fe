use super::*;
use crate::modern::input::missing_capability;

fn raw(value: &Value) -> Raw {
    Raw::from_value(value).unwrap()
}

fn value(raw: &Raw) -> Value {
    raw.to().unwrap()
}

#[test]
fn what_becomes_of_a_call() {
    let (with, without) = (raw(&required()), raw(&json!({ "extensions": { EXTENSION: true } })));
    for (method, support, capabilities, expected) in [
        ("tools/call", TaskSupport::Never, &with, Course::Stays),
        ("tools/call", TaskSupport::Never, &without, Course::Stays),
        ("tools/call", TaskSupport::Optional, &with, Course::WhenSlow),
        ("tools/call", TaskSupport::Optional, &without, Course::Stays),
        ("tools/call", TaskSupport::Required, &with, Course::AtOnce),
        ("tools/call", TaskSupport::Required, &without, Course::Refused),
        ("prompts/get", TaskSupport::Required, &with, Course::Stays),
        ("resources/read", TaskSupport::Optional, &with, Course::Stays),
    ] {
        assert_eq!(course(method, support, capabilities), expected, "{method} {support:?}");
    }
    for (capabilities, expected) in [
        (json!({}), false),
        (json!({ "tasks": {} }), false),
        (json!({ "extensions": {} }), false),
        (json!({ "extensions": { EXTENSION: {} } }), true),
    ] {
        assert_eq!(declared(&raw(&capabilities)), expected, "{capabilities}");
    }
}

#[test]
fn what_is_needed_and_announced() {
    let error = missing_capability(&required());
    assert_eq!(error.code, -32021);
    assert_eq!(value(error.data.as_ref().unwrap()), json!({ "requiredCapabilities": required() }));
    for (capabilities, expected) in [
        (json!({ "tools": {} }), json!({ "tools": {}, "extensions": { EXTENSION: {} } })),
        (json!({ "extensions": { "x": {} } }), json!({ "extensions": { "x": {}, EXTENSION: {} } })),
    ] {
        assert_eq!(value(&announced(&raw(&capabilities))), expected);
    }
}

/// The member of the wire form that only one state has.
type Own = Option<(&'static str, Value)>;

/// All states, with what they are on the wire.
fn states() -> Vec<(TaskState, &'static str, Own)> {
    let (result, error) = (json!({ "content": [], "isError": true }), json!({ "code": -7, "message": "no" }));
    let question = InputRequest { key: "q1".into(), method: "roots/list".into(), params: None };
    let asked = json!({ "q1": { "method": "roots/list", "params": {} } });
    vec![
        (TaskState::Working, "working", None),
        (TaskState::asking(&[]), "working", None),
        (TaskState::asking(&[question]), "input_required", Some(("inputRequests", asked))),
        (TaskState::Completed(raw(&result)), "completed", Some(("result", result))),
        (TaskState::Failed(raw(&error)), "failed", Some(("error", error))),
        (TaskState::Cancelled, "cancelled", None),
    ]
}

#[test]
fn every_state_is_told_flat_and_whole() {
    for (state, status, own) in states() {
        let task = Task { updated: 1_500, message: Some("m".into()), state, ..Task::new(1_000, 60_000) };
        let terminal = task.state.is_terminal();
        let mut expected = json!({
            "taskId": "t", "status": status, "statusMessage": if status == "failed" { "no" } else { "m" },
            "createdAt": "1970-01-01T00:00:01.000Z", "lastUpdatedAt": "1970-01-01T00:00:01.500Z", "ttlMs": 60_000,
        });
        if !terminal {
            expected["pollIntervalMs"] = json!(7);
        }
        let mut created = expected.clone();
        created["resultType"] = json!("task");
        assert_eq!(value(&task.to_created("t", 7)), created);
        if let Some((name, own)) = own {
            expected[name] = own;
        }
        assert_eq!(value(&task.to_result("t", 7)), expected);
        let notification = task.to_notification("t", 7);
        assert_eq!((&*notification.method, value(&notification.params.unwrap())), (NOTIFICATION, expected));
        // A poll interval is never 0.
        assert_eq!(value(&task.to_result("t", 0)).get("pollIntervalMs"), (!terminal).then_some(&json!(1)));
    }
}

#[test]
fn a_log_says_what_its_newest_event_says() {
    let begun = Task::new(1, 2);
    assert_eq!(Task::of_log(begun.clone(), &[], false), begun);
    for (state, ..) in states() {
        let task = Task { updated: 5, message: Some("m".into()), state, ..Task::new(1, 2) };
        let sealed = task.state.is_terminal();
        let events = [Task::new(1, 2).to_event(), task.to_event()];
        assert_eq!(Task::of_log(begun.clone(), &events, sealed), task);
        assert_eq!(Task::of_log(begun.clone(), &events[1..], sealed), task, "older events may be gone");
    }
}

#[test]
fn a_log_that_ends_without_a_state_of_its_own_is_over_all_the_same() {
    let begun = Task::new(1, 2);
    let asking = TaskState::InputRequired(raw(&json!({ "q1": {} })));
    let asking = Task { updated: 5, state: asking, ..begun.clone() };
    let lost = ErrorObject::outcome_unknown("owner_lost", "gone").to_response(None);
    let failed = Task::of_log(begun.clone(), &[asking.to_event(), lost], true);
    assert_eq!((failed.updated, failed.state.as_str()), (5, "failed"));
    assert_eq!(value(&failed.to_result("t", 1))["error"]["data"]["outcome"], "unknown");
    // Without a last message the call was cancelled; what cannot be read changes nothing.
    let nothing = Bytes::from_static(b"no JSON");
    let cancelled = Task::of_log(begun, &[asking.to_event(), nothing], true);
    assert_eq!((cancelled.updated, cancelled.state), (5, TaskState::Cancelled));
}

#[test]
fn parameters_are_read() {
    let of = |method: &str, params: Value| TaskParams::of(method, Some(&raw(&params)));
    let id = |id: &str| TaskParams { id: id.into(), responses: Vec::new() };
    assert_eq!(of("tasks/get", json!({ "taskId": "t", "inputResponses": 7 })), Ok(id("t")));
    assert_eq!(of("tasks/update", json!({ "taskId": "t", "inputResponses": {} })), Ok(id("t")));
    let some = of("tasks/update", json!({ "taskId": "t", "inputResponses": { "a": {}, "b": 7, "c": null } }))
        .unwrap();
    assert_eq!(some.responses, [("a".to_owned(), Raw::empty_object())]);
    for (method, params) in [
        ("tasks/get", json!({})),
        ("tasks/cancel", json!({ "taskId": 7 })),
        ("tasks/update", json!({ "taskId": "t" })),
        ("tasks/update", json!({ "taskId": "t", "inputResponses": [] })),
    ] {
        assert!(of(method, params.clone()).is_err(), "{method} {params}");
    }
    assert!(TaskParams::of("tasks/get", None).is_err());
}

#[test]
fn progress_in_words() {
    for (params, expected) in [
        (json!({ "progress": 1, "message": "Copying" }), Some("Copying")),
        (json!({ "progress": 1.5, "total": 3 }), Some("1.5 of 3")),
        (json!({ "progress": 1 }), None),
        (json!({ "progress": "1", "total": 3 }), None),
    ] {
        let progress = Notification::new("notifications/progress", Some(raw(&params)));
        assert_eq!(progress_message(&progress).as_deref(), expected, "{params}");
    }
}

#[test]
fn points_in_time() {
    for (unix, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (1_704_067_199_001, "2023-12-31T23:59:59.001Z"),
        (1_785_196_800_000, "2026-07-28T00:00:00.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ] {
        assert_eq!(timestamp(unix), expected);
    }
}
