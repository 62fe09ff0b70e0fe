//! What holds for any JSON.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

const METHODS: [&str; 11] = [
    "tools/call",
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "initialize",
    "completion/complete",
    "sampling/createMessage",
    "roots/list",
];

const REQUESTS: [&str; 7] = [
    "initialize",
    "tools/call",
    "completion/complete",
    "sampling/createMessage",
    "elicitation/create",
    "notifications/progress",
    "notifications/cancelled",
];

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "content",
            "type",
            "text",
            "data",
            "tools",
            "title",
            "icons",
            "_meta",
            "annotations",
            "messages",
            "resource",
            "structuredContent",
            "properties",
            "requestedSchema",
            "oneOf",
            "const",
            "default",
            "capabilities",
            "serverInfo",
            "message",
            "code",
            "elicitation",
            "url",
            "input",
            "toolUseId",
        ])
        .prop_map(str::to_owned),
        // The same, behind an escape.
        Just("t\\u0079pe".to_owned()),
        Just("\\u0063ontent".to_owned()),
        "[a-c]{1,2}",
    ]
}

fn strings() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "text",
            "image",
            "audio",
            "resource",
            "resource_link",
            "tool_use",
            "tool_result",
            "video",
            "array",
            "boolean",
            "required",
            "QUJD",
            "\\u0061udio",
            "\\n",
            "",
        ])
        .prop_map(str::to_owned),
        "[a-z ]{0,6}",
    ]
}

/// Any JSON as text: odd digits, odd spaces, escapes, names that stand twice.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        proptest::sample::select(vec!["null", "true", "1.50", "1e3", "-0", "12345678901234567890123"])
            .prop_map(str::to_owned),
        strings().prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|inner| format!("[{}]", inner.join(" ,"))),
            proptest::collection::vec((names(), inner), 0..5).prop_map(|members| {
                let members: Vec<_> =
                    members.into_iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
                format!("{{ {} }}", members.join(","))
            }),
        ]
    })
}

/// A content block: of any kind, with any members, or any JSON at all.
fn block() -> impl Strategy<Value = String> {
    let typed =
        (strings(), proptest::collection::vec((names(), json()), 0..3)).prop_map(|(kind, members)| {
            let members: String =
                members.into_iter().map(|(name, value)| format!("\"{name}\":{value},")).collect();
            format!(r#"{{{members}"type":"{kind}"}}"#)
        });
    prop_oneof![3 => typed, 1 => json()]
}

fn blocks() -> impl Strategy<Value = String> {
    let array = proptest::collection::vec(block(), 0..4).prop_map(|blocks| format!("[{}]", blocks.join(",")));
    prop_oneof![3 => array, 1 => block()]
}

/// A message of some shape: with content, or any JSON at all.
fn message() -> impl Strategy<Value = String> {
    prop_oneof![
        json(),
        (blocks(), json()).prop_map(|(blocks, x)| format!(r#"{{"content":{blocks},"structuredContent":{x}}}"#)),
        (json(), json(), blocks()).prop_map(|(a, b, blocks)| format!(
            r#"{{"x":{a},"messages":[{b},{{"role":"user","content":{blocks}}}]}}"#
        )),
        (names(), json()).prop_map(|(name, value)| format!(
            r#"{{"tools":[{value},{{"name":"t","{name}":{value}}}],"requestedSchema":{{"properties":{{"a":{value}}}}}}}"#
        )),
    ]
}

fn revisions() -> impl Strategy<Value = Revision> {
    proptest::sample::select(ALL.to_vec())
}

/// The kinds of content that `revision` has, written down once more and by hand.
fn kinds(revision: Revision, sampling: bool) -> &'static [&'static str] {
    match (revision, sampling) {
        (Revision::V2024_11_05, false) => &["text", "image", "resource"],
        (Revision::V2025_03_26, false) => &["text", "image", "resource", "audio"],
        (_, false) => &["text", "image", "resource", "audio", "resource_link"],
        (Revision::V2024_11_05, true) => &["text", "image"],
        (Revision::V2025_03_26 | Revision::V2025_06_18, true) => &["text", "image", "audio"],
        (_, true) => &["text", "image", "audio", "tool_use", "tool_result"],
    }
}

fn check_content(content: Option<&Value>, allowed: &[&str]) {
    let blocks = match content {
        Some(Value::Array(blocks)) => &**blocks,
        Some(block) => std::slice::from_ref(block),
        None => &[],
    };
    for block in blocks.iter().filter(|block| block.is_object()) {
        let kind = block.get("type").and_then(Value::as_str);
        assert!(kind.is_some_and(|kind| allowed.contains(&kind)), "{kind:?} in {block}");
    }
}

fn value(raw: &Raw) -> Value {
    raw.to().unwrap()
}

proptest! {
    #[test]
    fn for_the_newest_legacy_revision_everything_is_the_same_text(text in message()) {
        for method in METHODS {
            prop_assert_eq!(project_result(Revision::NEWEST_LEGACY, method, raw(&text)), raw(&text));
        }
        for method in REQUESTS {
            let same = project_request(Revision::NEWEST_LEGACY, method, Some(raw(&text))).unwrap().unwrap();
            prop_assert_eq!(same, raw(&text));
        }
        prop_assert_eq!(project_error(Revision::NEWEST_LEGACY, raw(&text)), raw(&text));
    }

    #[test]
    fn twice_is_once(revision in revisions(), text in message()) {
        for method in METHODS {
            let once = project_result(revision, method, raw(&text));
            prop_assert_eq!(project_result(revision, method, once.clone()), once, "{}", method);
        }
        for method in REQUESTS {
            if let Ok(once) = project_request(revision, method, Some(raw(&text))) {
                prop_assert_eq!(project_request(revision, method, once.clone()), Ok(once), "{}", method);
            }
        }
        let once = project_error(revision, raw(&text));
        prop_assert_eq!(project_error(revision, once.clone()), once);
        let once = strip_stateless(raw(&text));
        prop_assert_eq!(strip_stateless(once.clone()), once);
    }

    #[test]
    fn what_comes_out_is_json(revision in revisions(), text in message()) {
        for method in METHODS {
            prop_assert!(Raw::parse(project_result(revision, method, raw(&text)).as_str().to_owned()).is_ok());
        }
        for method in REQUESTS {
            if let Ok(Some(params)) = project_request(revision, method, Some(raw(&text))) {
                prop_assert!(Raw::parse(params.as_str().to_owned()).is_ok());
            }
        }
    }

    #[test]
    fn no_kind_of_content_that_the_receiver_lacks_comes_through(
        revision in proptest::sample::select(vec![V24, V25_03, V25_06]), text in message(),
    ) {
        let call = value(&project_result(revision, "tools/call", raw(&text)));
        check_content(call.get("content"), kinds(revision, false));
        let sampled = value(&project_result(revision, "sampling/createMessage", raw(&text)));
        check_content(sampled.get("content"), kinds(revision, true));
        let messages = |message: &Value, sampling: bool| {
            for message in message.get("messages").and_then(Value::as_array).into_iter().flatten() {
                check_content(message.get("content"), kinds(revision, sampling));
            }
        };
        messages(&value(&project_result(revision, "prompts/get", raw(&text))), false);
        if let Ok(Some(params)) = project_request(revision, "sampling/createMessage", Some(raw(&text))) {
            messages(&value(&params), true);
        }
    }

    #[test]
    fn what_is_its_authors_own_survives_to_the_byte(revision in revisions(), own in json()) {
        let schema = format!(r#"{{"tools":[{{"name":"t","inputSchema":{own},"icons":[]}}],"_meta":{own}}}"#);
        let out = result(revision, "tools/list", &schema);
        let kept = [format!(r#""inputSchema":{own}"#), format!(r#""_meta":{own}"#)];
        prop_assert!(kept.iter().all(|kept| out.contains(kept)), "{}", out);
        let call = format!(r#"{{"x":{own},"content":[{{"type":"video"}},{{"type":"text","x":{own},"text":"t"}}]}}"#);
        let out = result(revision, "tools/call", &call);
        prop_assert!(out.starts_with(&format!(r#"{{"x":{own},"#)), "{}", out);
        let block = format!(r#",{{"type":"text","x":{own},"text":"t"}}]}}"#);
        prop_assert!(out.ends_with(&block), "{}", out);
    }

    #[test]
    fn an_older_receiver_gets_no_more_than_a_newer_one(text in message()) {
        // The chain: what is fit for an older revision is fit for a newer one.
        for (older, newer) in [(V24, V25_03), (V25_03, V25_06), (V24, V25_06)] {
            for method in METHODS {
                let fit = project_result(older, method, raw(&text));
                prop_assert_eq!(project_result(newer, method, fit.clone()), fit.clone(), "{}", method);
                let by_way_of = project_result(older, method, project_result(newer, method, raw(&text)));
                prop_assert_eq!(by_way_of.member("tools"), fit.member("tools"), "{}", method);
            }
        }
    }
}

#[test]
fn deep_nesting_is_no_danger() {
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(1_000), close.repeat(1_000));
    for inner in [
        nested("[", "]"),
        nested(r#"{"content":"#, "}"),
        nested(r#"{"type":"tool_result","content":["#, "]}"),
    ] {
        let text =
            Raw::from_trusted(format!(r#"{{"content":{inner},"messages":[{{"content":{inner}}}]}}"#).into());
        for revision in ALL {
            for method in METHODS {
                drop(project_result(revision, method, text.clone()));
            }
            for method in REQUESTS {
                drop(project_request(revision, method, Some(text.clone())));
            }
        }
    }
}
