//! M: line ends, and characters in pieces.

use super::scripted;
use crate::common::serve;
use bowline_testkit::text_of;
use serde_json::json;

/// Everything that a reader of lines or of text could cut at the wrong place.
const TEXT: &str =
    "日本語 ✓ \u{1F600}\u{1F468}\u{200D}\u{1F469} a\u{2028}b\u{2029}c\u{85}d\r\ne\nf\rg\\n\"\u{0}\u{FEFF}h";

/// Says the parameters back, unescaped, ended by CR LF, one byte at a time.
const BYTEWISE: &str = r#"
import json, sys, os
for line in sys.stdin.buffer:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bytewise", "version": "1"}}
    else:
        result = message.get("params")
    if "id" in message:
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, ensure_ascii=False)
        for byte in answer.encode() + b"\r\n":
            os.write(1, bytes([byte]))
"#;

#[tokio::test]
async fn m1_characters_and_line_ends_in_pieces_come_whole() {
    for options in ["", "--response sse"] {
        let program = scripted(BYTEWISE).with(options).start().await;
        let session = program.client().await;
        let mut answer = session.ask("x/any", json!({ "text": TEXT })).await;
        assert_eq!(answer.response().await["result"]["text"], TEXT, "{options}");
        // The other way: a request in pieces of one byte.
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "x/any", "params": { "text": TEXT } }).to_string();
        let mut raw = bowline_testkit::Raw::connect(program.address()).await;
        raw.send_bytewise(session.request("POST", &[], &body)).await;
        let mut answer = bowline_testkit::Answer::to(raw, "").await;
        assert_eq!(answer.response().await["result"]["text"], TEXT, "{options}");
    }
}

#[tokio::test]
async fn m2_nothing_on_the_wire_looks_like_a_line_end_that_is_none() {
    let program = scripted(BYTEWISE).with("--response sse").start().await;
    let session = program.client().await;
    let blocks = session.ask("x/any", json!({ "text": TEXT })).await.blocks().await;
    for block in &blocks {
        assert!(!block.text.contains(['\u{2028}', '\u{2029}', '\u{85}', '\r']), "{:?}", block.text);
        assert!(block.unknown.is_empty(), "{block:?}");
    }
    assert_eq!(blocks.last().unwrap().message().unwrap()["result"]["text"], TEXT);
    // Plain JSON too.
    let program = serve("").await;
    let text = program.client().await.call("echo", json!({ "text": TEXT })).await.text().await;
    assert!(!text.contains(['\u{2028}', '\u{2029}', '\u{85}', '\r', '\n']), "{text:?}");
    assert_eq!(text_of(&serde_json::from_str(&text).unwrap()), TEXT);
}
