//! Content blocks, for people: text as it is, binary content as a file or a note that it is there.

use super::{
    failure::Failure,
    save::{Saver, decoded},
};
use serde_json::Value;

/// One block as text. With a saver binary content is written to a file.
pub(super) fn shown(block: &Value, saver: Option<&Saver>) -> Result<String, Failure> {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match text("type") {
        "text" => Ok(text("text").to_owned()),
        kind @ ("image" | "audio") => binary(kind, text("mimeType"), text("data"), saver),
        "resource" => contents(&block["resource"], saver),
        "resource_link" => {
            let name = block["title"].as_str().unwrap_or_else(|| text("name"));
            Ok(format!("[{name}: {}]", text("uri")))
        }
        // Newer than this program.
        _ => Ok(block.to_string()),
    }
}

/// The contents of a resource as text.
pub(super) fn contents(resource: &Value, saver: Option<&Saver>) -> Result<String, Failure> {
    let mime = resource["mimeType"].as_str().unwrap_or_default();
    match (resource["text"].as_str(), resource["blob"].as_str()) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(blob)) => binary("resource", mime, blob, saver),
        (None, None) => Ok(resource.to_string()),
    }
}

fn binary(kind: &str, mime: &str, data: &str, saver: Option<&Saver>) -> Result<String, Failure> {
    let bytes = decoded(data)?;
    let size = bytes.len();
    match saver {
        Some(saver) => Ok(format!("[{kind} {mime}, {size} bytes: {}]", saver.save(mime, &bytes)?.display())),
        None => Ok(format!("[{kind} {mime}, {size} bytes; --save DIR writes it to a file]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_for_people() {
        for (block, text) in [
            (json!({ "type": "text", "text": "a\nb" }), "a\nb"),
            (
                json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" }),
                "[image image/png, 2 bytes; --save DIR writes it to a file]",
            ),
            (json!({ "type": "resource_link", "uri": "a:b", "name": "n" }), "[n: a:b]"),
            (json!({ "type": "resource", "resource": { "uri": "a:b", "text": "t" } }), "t"),
            (
                json!({ "type": "resource", "resource": { "uri": "a:b", "blob": "aGk=" } }),
                "[resource , 2 bytes; --save DIR writes it to a file]",
            ),
            (json!({ "type": "hologram" }), r#"{"type":"hologram"}"#),
        ] {
            assert_eq!(shown(&block, None).unwrap(), text);
        }
    }
}
