//! JSON as the targets need it: errors looked at, and text made of any bytes.

use arbitrary::{Result, Unstructured};
use bowline_proto::jsonrpc::RequestId;
use serde_json::Value;

/// The code and the id of a body that has to be one JSON-RPC error.
pub fn error_in(body: &[u8]) -> (i64, Option<RequestId>) {
    let text = String::from_utf8_lossy(body);
    let value: Value = serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(value["jsonrpc"], "2.0", "{text}");
    assert!(value["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{text}");
    assert!(value.get("result").is_none() && value.get("method").is_none(), "{text}");
    let id = value.get("id").map(|id| RequestId::from_json(&id.to_string()).expect("an id"));
    (value["error"]["code"].as_i64().unwrap_or_else(|| panic!("no code: {text}")), id)
}

/// JSON text of any shape: `names` and `strings` are preferred, so that known members meet unknown values.
pub fn text(u: &mut Unstructured<'_>, names: &[&str], strings: &[&str]) -> Result<String> {
    let mut out = String::new();
    value(u, names, strings, 0, &mut out)?;
    Ok(out)
}

fn value(
    u: &mut Unstructured<'_>,
    names: &[&str],
    strings: &[&str],
    depth: usize,
    out: &mut String,
) -> Result<()> {
    let kind =
        if depth > 7 || out.len() > 16 * 1024 { u.int_in_range(0..=4)? } else { u.int_in_range(0..=9)? };
    match kind {
        0 => out.push_str(u.choose(&["null", "true", "false"])?),
        1 => out.push_str(u.choose(&["0", "-0", "1.50", "1e3", "12345678901234567890123", "1e999"])?),
        2..=4 => quoted(u, strings, out)?,
        5 | 6 => {
            out.push('[');
            for index in 0..u.int_in_range(0..=4)? {
                out.push_str(if index == 0 { "" } else { " ," });
                value(u, names, strings, depth + 1, out)?;
            }
            out.push(']');
        }
        _ => {
            out.push_str("{ ");
            for index in 0..u.int_in_range(0..=5)? {
                out.push_str(if index == 0 { "" } else { "," });
                quoted(u, names, out)?;
                out.push_str(": ");
                value(u, names, strings, depth + 1, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn quoted(u: &mut Unstructured<'_>, known: &[&str], out: &mut String) -> Result<()> {
    out.push('"');
    match u.int_in_range(0..=7)? {
        0 => out.push_str(u.choose(&[
            "\\u0000",
            "\\ud800",
            "\\ud83d\\ude00",
            "\\n",
            "\u{2028}",
            "\\\"",
            "",
        ])?),
        // A known text behind an escape of its first letter.
        1 => {
            let text = u.choose(known)?;
            let first = text.chars().next().unwrap_or('x');
            out.push_str(&format!("\\u{:04x}", u32::from(first) & 0xffff));
            out.push_str(&text[first.len_utf8().min(text.len())..]);
        }
        _ => out.push_str(u.choose(known)?),
    }
    out.push('"');
    Ok(())
}
