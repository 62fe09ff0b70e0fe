//! Results and errors.

use super::*;

#[track_caller]
fn content(before: &str, after: [&str; 4]) {
    within("tools/call", r#"{"content":[@],"isError":false}"#, before, after);
    within("prompts/get", r#"{"messages":[{"role":"user","content":@}]}"#, before, after);
}

#[track_caller]
fn tool(before: &str, after: [&str; 4]) {
    within("tools/list", r#"{"tools":[@],"nextCursor":"c"}"#, before, after);
}

#[test]
fn audio_becomes_text_before_2025_03_26() {
    let audio =
        r#"{"type":"audio","data":"QUJDRA==","mimeType":"audio/wav","annotations":{"audience":["user"]}}"#;
    let text = r#"{"type":"text","text":"[audio: audio/wav, 4 bytes]","annotations":{"audience":["user"]}}"#;
    content(audio, [text, audio, audio, audio]);
}

#[test]
fn resource_links_become_text_before_2025_06_18_and_lose_icons_before_2025_11_25() {
    let link = |icons: &str| {
        format!(
            r#"{{"type":"resource_link","uri":"file:///r.pdf","name":"r.pdf","title":"Report","description":"All of it","mimeType":"application/pdf","size":12345{icons}}}"#
        )
    };
    let text = r#"{"type":"text","text":"[resource link: Report, file:///r.pdf, application/pdf, 12345 bytes] All of it"}"#;
    let with = link(r#","icons":[{"src":"i"}]"#);
    content(&with, [text, text, &link(""), &with]);
    let bare = r#"{"type":"resource_link","uri":"u:1","name":"n"}"#;
    let text = r#"{"type":"text","text":"[resource link: n, u:1]"}"#;
    content(bare, [text, text, bare, bare]);
}

#[test]
fn kinds_that_no_revision_defines_become_text_where_projection_happens_at_all() {
    let video = r#"{"type":"video","data":"QUI=","mimeType":"video/mp4"}"#;
    let text = r#"{"type":"text","text":"[video: video/mp4, 2 bytes]"}"#;
    content(video, [text, text, text, video]);
    // A kind of sampling is no kind of a result.
    let tool_use = r#"{"type":"tool_use","id":"1","name":"f","input":{"x":1.0}}"#;
    let text = r#"{"type":"text","text":"[tool use 1: f {\"x\":1.0}]"}"#;
    content(tool_use, [text, text, text, tool_use]);
    let none = r#"{"text":"x"}"#;
    let text = r#"{"type":"text","text":"x"}"#;
    content(none, [text, text, text, none]);
}

#[test]
fn a_kind_that_hides_behind_an_escape_is_found() {
    let audio = r#"{"t\u0079pe":"\u0061udio","data":"","mimeType":"a/b"}"#;
    let text = r#"{"type":"text","text":"[audio: a/b, 0 bytes]"}"#;
    content(audio, [text, audio, audio, audio]);
}

#[test]
fn content_that_everybody_knows_passes_to_the_byte() {
    for block in [
        r#"{ "type" : "text" , "text":"\u00e9 {\"type\":\"audio\"}", "x": 1.50 }"#,
        r#"{"mimeType":"image/png","type":"image","data":"QUJD"}"#,
        r#"{"type":"resource","resource":{"uri":"u:1","blob":"QUJD","mimeType":"a/b"}}"#,
    ] {
        content(block, [block; 4]);
    }
}

#[test]
fn metadata_of_content_is_removed_before_2025_06_18() {
    let block = |meta: &str, modified: &str| {
        format!(
            r#"{{"type":"resource","resource":{{"uri":"u:1","text":"x"{meta}}},"annotations":{{"priority":0.50{modified}}}{meta}}}"#
        )
    };
    let full = block(r#","_meta":{"a":1}"#, r#","lastModified":"2025-01-12T15:00:58Z""#);
    let old = block("", "");
    content(&full, [&old, &old, &full, &full]);
}

#[test]
fn structured_content_becomes_text_only_where_there_is_nothing_else() {
    let call = |before: &str, old: &str| {
        rows(|revision, text| result(revision, "tools/call", text), before, [old, old, before, before]);
    };
    call(
        r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1.50}}"#,
        r#"{"content":[{"type":"text","text":"x"}]}"#,
    );
    let text = r#"{"content":[{"type":"text","text":"{\"b\":1.50,\"a\":[ 1e3 ]}"}]}"#;
    call(r#"{"content":[],"structuredContent":{"b":1.50,"a":[ 1e3 ]}}"#, text);
    call(r#"{"structuredContent":{"b":1.50,"a":[ 1e3 ]}}"#, text);
    call(r#"{"content":null,"structuredContent":{"b":1.50,"a":[ 1e3 ]}}"#, text);
    call(r#"{"content":[],"structuredContent":null}"#, r#"{"content":[]}"#);
}

#[test]
fn tools_lose_what_came_later() {
    let schema = r#"{"type":"object","properties":{"title":{"type":"string"},"icons":{"default":1.0}}}"#;
    let full = format!(
        r#"{{"name":"t","title":"T","description":"d","inputSchema":{schema},"outputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}},"icons":[{{"src":"i"}}],"execution":{{"taskSupport":"optional"}},"_meta":{{"a":1}},"x-vendor":1.0}}"#
    );
    let v25_06 = format!(
        r#"{{"name":"t","title":"T","description":"d","inputSchema":{schema},"outputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}},"_meta":{{"a":1}},"x-vendor":1.0}}"#
    );
    let v25_03 = format!(
        r#"{{"name":"t","description":"d","inputSchema":{schema},"annotations":{{"readOnlyHint":true,"title":"T"}},"x-vendor":1.0}}"#
    );
    let v24 = format!(r#"{{"name":"t","description":"d","inputSchema":{schema},"x-vendor":1.0}}"#);
    tool(&full, [&v24, &v25_03, &v25_06, &full]);
}

#[test]
fn the_title_of_a_tool_does_not_replace_the_one_among_its_annotations() {
    let both = r#"{"name":"t","title":"A","annotations":{"title":"B"}}"#;
    tool(both, [r#"{"name":"t"}"#, r#"{"name":"t","annotations":{"title":"B"}}"#, both, both]);
    let alone = r#"{"name":"t","title":"A"}"#;
    tool(alone, [r#"{"name":"t"}"#, r#"{"name":"t","annotations":{"title":"A"}}"#, alone, alone]);
    let odd = r#"{"name":"t","title":"A","annotations":7}"#;
    tool(odd, [r#"{"name":"t"}"#, r#"{"name":"t","annotations":7}"#, odd, odd]);
}

#[test]
fn a_list_without_later_fields_passes_to_the_byte() {
    let list = r#"{ "tools" : [ {"name":"t","description":"the \"title\" of","inputSchema":{ "type":"object" }} ] }"#;
    rows(|revision, text| result(revision, "tools/list", text), list, [list; 4]);
}

#[test]
fn only_the_objects_that_change_are_written_again() {
    let list = r#"{"tools":[{ "name" : "a" },{"name":"b","icons":[]}]}"#;
    let old = r#"{"tools":[{ "name" : "a" },{"name":"b"}]}"#;
    rows(|revision, text| result(revision, "tools/list", text), list, [old, old, old, list]);
}

#[test]
fn resources_templates_and_prompts_lose_what_came_later() {
    for (method, list, id) in [
        ("resources/list", "resources", r#""uri":"u:1","size":12"#),
        ("resources/templates/list", "resourceTemplates", r#""uriTemplate":"u:{x}""#),
        ("prompts/list", "prompts", r#""x":1.0"#),
    ] {
        let around = format!(r#"{{"{list}":[@]}}"#);
        let full = format!(r#"{{"name":"n",{id},"title":"T","_meta":{{}},"icons":[]}}"#);
        let v25_06 = format!(r#"{{"name":"n",{id},"title":"T","_meta":{{}}}}"#);
        let old = format!(r#"{{"name":"n",{id},"description":"T"}}"#);
        within(method, &around, &full, [&old, &old, &v25_06, &full]);
        let described = format!(r#"{{"name":"n",{id},"description":"d","title":"T"}}"#);
        let old = format!(r#"{{"name":"n",{id},"description":"d"}}"#);
        within(method, &around, &described, [&old, &old, &described, &described]);
    }
    let dated = r#"{"name":"n","uri":"u:1","annotations":{"lastModified":"x","priority":1.0}}"#;
    let old = r#"{"name":"n","uri":"u:1","annotations":{"priority":1.0}}"#;
    within("resources/list", r#"{"resources":[@]}"#, dated, [old, old, dated, dated]);
    let argument = r#"{"name":"a","title":"A","required":true}"#;
    let old = r#"{"name":"a","required":true,"description":"A"}"#;
    let around = r#"{"prompts":[{"name":"p","arguments":[@]}]}"#;
    within("prompts/list", around, argument, [old, old, argument, argument]);
    let contents = r#"{"uri":"u:1","text":"x","_meta":{}}"#;
    let old = r#"{"uri":"u:1","text":"x"}"#;
    within("resources/read", r#"{"contents":[@],"_meta":{}}"#, contents, [old, old, contents, contents]);
}

#[test]
fn the_handshake_loses_what_came_later() {
    let hello = |capabilities: &str, info: &str| {
        format!(
            r#"{{"protocolVersion":"x","capabilities":{{"tools":{{}},"experimental":{{"tasks":1}}{capabilities}}},"serverInfo":{{"name":"s"{info},"version":"1"}},"instructions":"i"}}"#
        )
    };
    let full = hello(
        r#","completions":{},"tasks":{"list":{}}"#,
        r#","title":"S","icons":[],"description":"d","websiteUrl":"w""#,
    );
    let expected =
        [hello("", ""), hello(r#","completions":{}"#, ""), hello(r#","completions":{}"#, r#","title":"S""#)];
    let [v24, v25_03, v25_06] = &expected;
    rows(|revision, text| result(revision, "initialize", text), &full, [v24, v25_03, v25_06, &full]);
}

#[test]
fn answers_to_our_own_requests_are_projected_too() {
    let sampling = |before: &str, after: [&str; 4]| {
        within("sampling/createMessage", r#"{"role":"assistant","content":@,"model":"m"}"#, before, after);
    };
    let text = r#"{"type":"text","text":"x"}"#;
    sampling(text, [text; 4]);
    sampling(r#"[{"type":"text","text":"x"}]"#, [text, text, text, r#"[{"type":"text","text":"x"}]"#]);
    let several = r#"[{"type":"text","text":"x"},{"type":"image","data":"QQ==","mimeType":"image/png"},{"type":"tool_use","id":"1","name":"f","input":{}}]"#;
    let joined = r#"{"type":"text","text":"x\n[image: image/png, 1 byte]\n[tool use 1: f {}]"}"#;
    sampling(several, [joined, joined, joined, several]);
    let nested = r#"{"type":"text","text":"[[1.0]]"}"#;
    sampling("[[[1.0]]]", [nested, nested, nested, "[[[1.0]]]"]);
    let nothing = r#"{"type":"text","text":""}"#;
    sampling("[]", [nothing, nothing, nothing, "[]"]);
    let audio = r#"{"type":"audio","data":"","mimeType":"a/b"}"#;
    sampling(audio, [r#"{"type":"text","text":"[audio: a/b, 0 bytes]"}"#, audio, audio, audio]);
    // No revision has embedded resources in sampling.
    let resource = r#"{"type":"resource","resource":{"uri":"u:1","text":"x"}}"#;
    sampling(resource, [text, text, text, resource]);

    let root = r#"{"uri":"file:///","_meta":{}}"#;
    let old = r#"{"uri":"file:///"}"#;
    within("roots/list", r#"{"roots":[@]}"#, root, [old, old, root, root]);
}

#[test]
fn results_of_other_methods_pass() {
    let odd = r#"{ "content":[{"type":"audio"}],"title":1,"icons":[] }"#;
    for method in ["completion/complete", "ping", "resources/subscribe", "x/y"] {
        rows(|revision, text| result(revision, method, text), odd, [odd; 4]);
    }
}

#[test]
fn a_demand_to_visit_urls_is_put_into_words() {
    let full = r#"{"code":-32042,"message":"Sign in first","data":{"elicitations":[{"mode":"url","elicitationId":"1","url":"https://e.example/a","message":"To see files"},{"url":"https://e.example/b"}]}}"#;
    let old = r#"{"code":-32042,"message":"Sign in first\nTo see files: https://e.example/a\nOpen: https://e.example/b"}"#;
    let error = |revision, text: &str| project_error(revision, raw(text)).as_str().to_owned();
    rows(error, full, [old, old, old, full]);
    for other in
        [r#"{"code":-32603,"message":"m","data":{"elicitations":[{"url":"u"}]}}"#, r#"{"code":-32042}"#]
    {
        rows(error, other, [other; 4]);
    }
}
