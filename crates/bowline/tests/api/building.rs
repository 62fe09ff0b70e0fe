//! An author's mistakes are errors when the server is built.

use bowline::{
    BuildError, Call, NoInput, Reference, Resource, ResourceTemplate, Server, ServerBuilder, Tool, Typed,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn mistake(make: impl FnOnce(ServerBuilder) -> ServerBuilder) -> BuildError {
    make(Server::builder("s", "1")).build().unwrap_err()
}

fn with_tool(server: ServerBuilder, name: &str) -> ServerBuilder {
    server.tool(name, "d", |_: Call, _: NoInput| async {})
}

#[test]
fn names_are_checked_and_unique() {
    assert_eq!(
        mistake(|server| with_tool(with_tool(server, "a"), "a")),
        BuildError::Duplicate { kind: "tool", name: "a".into() }
    );
    for bad in ["", "a b", "ä", &"x".repeat(129)] {
        assert_eq!(mistake(|server| with_tool(server, bad)), BuildError::ToolName(bad.into()));
    }
    with_tool(Server::builder("s", "1"), &"aZ0_.-".repeat(21)).build().unwrap();
    let resource =
        |server: ServerBuilder, uri: &str| server.resource(Resource::new(uri, "n"), |_: Call| async { "" });
    assert_eq!(
        mistake(|server| resource(resource(server, "x:y"), "x:y")),
        BuildError::Duplicate { kind: "resource", name: "x:y".into() }
    );
    assert_eq!(mistake(|server| resource(server, "")), BuildError::Empty("resource"));
    let prompt = |server: ServerBuilder| server.prompt("p", "d", |_: Call, _: NoInput| async { "" });
    assert_eq!(
        mistake(|server| prompt(prompt(server))),
        BuildError::Duplicate { kind: "prompt", name: "p".into() }
    );
}

#[test]
fn schemas_and_templates_are_checked() {
    let schema = |text: &'static str| {
        mistake(|server| server.add_tool(Tool::new("t").input_schema(text), |_: Call, _: Value| async {}))
    };
    assert!(matches!(schema("{"), BuildError::Schema { which: "input", .. }));
    assert!(matches!(schema(r#"{"type":"array"}"#), BuildError::Schema { which: "input", .. }));
    // A type that is no object has no such schema.
    let error = mistake(|server| server.tool("t", "d", |_: Call, _: String| async {}));
    assert!(error.to_string().contains("object"), "{error}");
    let error = mistake(|server| {
        server.add_tool(
            Tool::new("t").output_schema(json!({ "type": "string" })),
            |_: Call, _: NoInput| async {},
        )
    });
    assert!(matches!(error, BuildError::Schema { which: "output", .. }), "{error}");
    let error = mistake(|server| {
        server.resource_template(
            ResourceTemplate::new("x:{a", "n"),
            |_: Call, _: BTreeMap<String, String>| async { "" },
        )
    });
    assert!(matches!(error, BuildError::Template { .. }), "{error}");
}

#[cfg(feature = "validate")]
#[test]
fn a_schema_that_is_none_is_told() {
    let text = r#"{"type":"object","properties":{"a":{"type":"nonsense"}}}"#;
    let error =
        mistake(|server| server.add_tool(Tool::new("t").input_schema(text), |_: Call, _: Value| async {}));
    assert!(error.to_string().contains("nonsense"), "{error}");
}

#[test]
fn completions_are_of_something() {
    let none = |_: Call, _: Typed| async { Vec::<String>::new() };
    let error = mistake(|server| server.completion(Reference::prompt("p"), "a", none));
    assert!(matches!(error, BuildError::Completion { .. }), "{error}");
    let template = |server: ServerBuilder| {
        server.resource_template(
            ResourceTemplate::new("x:{a}", "n"),
            |_: Call, _: BTreeMap<String, String>| async { "" },
        )
    };
    let error = mistake(|server| template(server).completion(Reference::resource("x:{a}"), "b", none));
    assert!(matches!(error, BuildError::Completion { .. }), "{error}");
    let error = mistake(|server| {
        let reference = || Reference::resource("x:{a}");
        template(server).completion(reference(), "a", none).completion(reference(), "a", none)
    });
    assert!(matches!(error, BuildError::Duplicate { kind: "completion", .. }), "{error}");
}

#[test]
fn state_comes_before_what_uses_it() {
    let late = with_tool(Server::builder("s", "1"), "a").with_state(7);
    assert_eq!(late.build().unwrap_err(), BuildError::StateAfterHandlers);
}
