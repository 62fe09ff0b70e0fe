//! Requests of both sides, and notifications.

use super::*;

/// The parameters as they arrive, or why they do not.
fn request(revision: Revision, method: &str, params: &str) -> String {
    match project_request(revision, method, Some(raw(params))) {
        Ok(params) => params.unwrap().as_str().to_owned(),
        Err(unsupported) => unsupported.what,
    }
}

#[track_caller]
fn requests(method: &str, before: &str, after: [&str; 4]) {
    rows(|revision, text| request(revision, method, text), before, after);
}

#[track_caller]
fn sampled(before: &str, after: [&str; 4]) {
    let full = |inner: &str| format!(r#"{{"messages":[{inner}],"maxTokens":100}}"#);
    let after = after.map(full);
    requests("sampling/createMessage", &full(before), after.each_ref().map(|text| &**text));
}

#[track_caller]
fn asked(before: &str, after: [&str; 3]) {
    let full = |inner: &str| {
        format!(
            r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{"p":{inner}}},"required":["p"]}}}}"#
        )
    };
    let [v25_03, v25_06, v25_11] =
        after.map(|text| if text.starts_with('{') { full(text) } else { text.into() });
    requests("elicitation/create", &full(before), [&v25_03, &v25_03, &v25_06, &v25_11]);
}

const NO_ELICITATION: &str = "elicitation/create";

#[test]
fn content_of_sampling_becomes_text_where_it_is_not_known() {
    let audio = r#"{"role":"user","content":{"type":"audio","data":"QQ==","mimeType":"a/b"}}"#;
    let text = r#"{"role":"user","content":{"type":"text","text":"[audio: a/b, 1 byte]"}}"#;
    sampled(audio, [text, audio, audio, audio]);
    let used = r#"{"role":"assistant","content":{"type":"tool_use","id":"1","name":"f","input":{"q":1.50}},"_meta":{}}"#;
    let text = r#"{"role":"assistant","content":{"type":"text","text":"[tool use 1: f {\"q\":1.50}]"}}"#;
    sampled(used, [text, text, text, used]);
    let result = r#"{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"x"},{"type":"image","data":"QQ==","mimeType":"image/png"},{"type":"tool_result"}]}}"#;
    let text = r#"{"role":"user","content":{"type":"text","text":"[tool result 1] x [image: image/png, 1 byte] {\"type\":\"tool_result\"}"}}"#;
    sampled(result, [text, text, text, result]);
    let failed = r#"{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":{"a":1.0},"isError":true}}"#;
    let text = r#"{"role":"user","content":{"type":"text","text":"[tool error 1] {\"a\":1.0}"}}"#;
    sampled(failed, [text, text, text, failed]);
}

#[test]
fn several_blocks_become_several_messages() {
    let several = r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#;
    let split = r#"{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}"#;
    sampled(several, [split, split, split, several]);
    let none = r#"{"role":"user","content":[]}"#;
    let text = r#"{"role":"user","content":{"type":"text","text":""}}"#;
    sampled(none, [text, text, text, none]);
}

#[test]
fn sampling_with_tools_is_refused_where_the_answer_would_be_another() {
    let sampling = |extra: &str| format!(r#"{{"messages":[],"maxTokens":100{extra}}}"#);
    let refused = |extra: &str, why: &str| {
        requests("sampling/createMessage", &sampling(extra), [why, why, why, &sampling(extra)]);
    };
    refused(r#","tools":[{"name":"t"}]"#, "sampling/createMessage with tools");
    refused(r#","toolChoice":{"mode":"required"}"#, "sampling/createMessage with tools that have to be used");
    let plain = sampling("");
    for extra in [r#","tools":[],"toolChoice":{"mode":"auto"}"#, r#","task":{"ttl":1}"#] {
        requests("sampling/createMessage", &sampling(extra), [&plain, &plain, &plain, &sampling(extra)]);
    }
}

#[test]
fn forms_have_what_the_client_knows() {
    for plain in [
        r#"{"type":"boolean","default":true}"#,
        r#"{"type":"string","enum":["a"],"enumNames":["A"]}"#,
        r#"{"type":"integer","minimum":1.0,"title":"T"}"#,
    ] {
        asked(plain, [NO_ELICITATION, plain, plain]);
    }
    let default = r#"{"type":"string","default":"x","format":"date"}"#;
    asked(default, [NO_ELICITATION, r#"{"type":"string","format":"date"}"#, default]);
    let titled =
        r#"{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b"},{"const":1}],"default":"a"}"#;
    asked(titled, [NO_ELICITATION, r#"{"type":"string","enum":["a","b"],"enumNames":["A","b"]}"#, titled]);
    let several = r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#;
    asked(several, [NO_ELICITATION, "elicitation/create with a choice of several values", several]);
}

#[test]
fn elicitation_by_url_needs_2025_11_25() {
    let url = r#"{"mode":"url","message":"m","elicitationId":"1","url":"https://e.example"}"#;
    let why = "elicitation/create with the mode \"url\"";
    requests("elicitation/create", url, [NO_ELICITATION, NO_ELICITATION, why, url]);
    let form = r#"{"mode":"form","task":{},"message":"m","requestedSchema":{"$schema":"s","type":"object","properties":{}}}"#;
    let old = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
    requests("elicitation/create", form, [NO_ELICITATION, NO_ELICITATION, old, form]);
}

#[test]
fn requests_without_parameters_pass_or_do_not_exist() {
    for revision in ALL {
        assert_eq!(project_request(revision, "roots/list", None), Ok(None));
        assert_eq!(project_request(revision, "ping", None), Ok(None));
        assert_eq!(project_request(revision, "x/y", Some(raw("{ }"))), Ok(Some(raw("{ }"))));
        for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
            assert_eq!(project_request(revision, method, None).is_ok(), revision == V25_11);
        }
    }
}

#[test]
fn a_refusal_says_what_and_for_whom() {
    let refused = project_request(V25_03, "elicitation/create", None).unwrap_err();
    assert_eq!(refused.to_string(), "elicitation/create cannot be asked of a peer that speaks 2025-03-26");
    assert_eq!(refused.to_error().data.unwrap().as_str(), r#"{"reason":"unsupported_by_revision"}"#);
}

#[test]
fn what_a_client_says_is_projected_for_an_older_upstream() {
    let hello = |capabilities: &str, info: &str| {
        format!(
            r#"{{"protocolVersion":"x","capabilities":{{"roots":{{"listChanged":true}}{capabilities}}},"clientInfo":{{"name":"c","version":"1"{info}}}}}"#
        )
    };
    let full = hello(
        r#","sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}}"#,
        r#","title":"C","icons":[],"description":"d","websiteUrl":"w""#,
    );
    let old = hello(r#","sampling":{}"#, "");
    let v25_06 = hello(r#","sampling":{},"elicitation":{}"#, r#","title":"C""#);
    requests("initialize", &full, [&old, &old, &v25_06, &full]);
    let urls_alone = hello(r#","elicitation":{"url":{}}"#, "");
    let none = hello("", "");
    requests("initialize", &urls_alone, [&none, &none, &none, &urls_alone]);

    let call = r#"{"name":"t","arguments":{"task":1.0},"task":{"ttl":1}}"#;
    let old = r#"{"name":"t","arguments":{"task":1.0}}"#;
    requests("tools/call", call, [old, old, old, call]);
    let complete = r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":"v"},"context":{"arguments":{}}}"#;
    let old = r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}"#;
    requests("completion/complete", complete, [old, old, complete, complete]);
}

fn notified(revision: Revision, method: &str, params: Option<&str>) -> Option<Option<String>> {
    let notification = Notification::new(method.to_owned(), params.map(raw));
    let out = project_notification(revision, notification)?;
    assert_eq!(out.method, method);
    Some(out.params.map(|params| params.as_str().to_owned()))
}

#[test]
fn notifications_are_dropped_where_they_mean_nothing() {
    for revision in ALL {
        let newest = revision == V25_11;
        let heard = |method, params| notified(revision, method, params).is_some();
        assert_eq!(heard("notifications/elicitation/complete", Some(r#"{"elicitationId":"1"}"#)), newest);
        assert_eq!(heard("notifications/tasks/status", Some("{}")), newest);
        assert_eq!(heard("notifications/cancelled", Some(r#"{"reason":"r"}"#)), newest);
        assert_eq!(heard("notifications/cancelled", None), newest);
        for (method, params) in [
            ("notifications/cancelled", Some(r#"{"requestId":1,"reason":"r"}"#)),
            ("notifications/message", Some(r#"{"level":"info","data":{"type":"audio","title":1.0}}"#)),
            ("notifications/tools/list_changed", None),
            ("notifications/x", Some("{ }")),
        ] {
            assert_eq!(notified(revision, method, params), Some(params.map(str::to_owned)));
        }
    }
}

#[test]
fn progress_has_a_message_from_2025_03_26() {
    let full = r#"{"progressToken":1,"progress":0.50,"message":"half"}"#;
    let old = r#"{"progressToken":1,"progress":0.50}"#;
    let progress =
        |revision, text: &str| notified(revision, "notifications/progress", Some(text)).unwrap().unwrap();
    rows(progress, full, [old, full, full, full]);
    rows(progress, r#"{ "progress": 1 }"#, [r#"{ "progress": 1 }"#; 4]);
}
