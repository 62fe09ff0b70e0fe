//! Content as text, for peers that do not know its kind.

use super::Fields;
use crate::{jsonrpc::Raw, revision::Revision};

/// The nearest text of a content block, whatever its kind.
pub(crate) fn of_block(block: &Fields) -> String {
    let kind = block.text("type");
    let known = Revision::ALL
        .into_iter()
        .flat_map(|revision| revision.introduced().kinds)
        .find(|known| kind.as_deref() == Some(known.name));
    match known {
        Some(kind) => (kind.as_text)(block),
        None => of_foreign(block),
    }
}

/// The text of a block that no revision defines: its own text, else what it carries, else itself as JSON.
pub(crate) fn of_foreign(block: &Fields) -> String {
    if let Some(text) = block.text("text") {
        return text;
    }
    if block.get("data").is_some_and(|data| data.as_str().starts_with('"')) {
        return of_media(block.text("type").as_deref().unwrap_or("data"), block);
    }
    block.to_raw().as_str().to_owned()
}

/// `[image: image/png, 123 bytes]`: a block with `data` in base64 and a `mimeType`.
pub(crate) fn of_media(what: &str, block: &Fields) -> String {
    let mut facts = Vec::new();
    facts.extend(block.text("mimeType"));
    facts.extend(block.get("data").and_then(decoded_size).map(bytes));
    brackets(what, &facts)
}

/// `[what: fact, fact]`.
pub(crate) fn brackets(what: &str, facts: &[String]) -> String {
    if facts.is_empty() { format!("[{what}]") } else { format!("[{what}: {}]", facts.join(", ")) }
}

/// `1 byte`, `2 bytes`.
pub(crate) fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// How many bytes a JSON string of base64 stands for; `None` where it is no string. Padding, line ends and whatever else
/// is no digit of base64 do not count.
pub(crate) fn decoded_size(data: &Raw) -> Option<u64> {
    let inner = data.as_str().strip_prefix('"')?.strip_suffix('"')?;
    let digits = |text: &str| {
        text.bytes().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_')).count()
    };
    let digits = if inner.contains('\\') { digits(&data.string()?) } else { digits(inner) };
    // Four digits are three bytes, an incomplete group one byte less than it has digits.
    Some((digits as u64).saturating_mul(3) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Fields {
        Fields::of(&Raw::parse(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn sizes_are_those_of_the_bytes_not_of_the_base64() {
        let size = |text: &str| decoded_size(&Raw::parse(text.to_owned()).unwrap());
        assert_eq!(size(r#""""#), Some(0));
        assert_eq!(size(r#""QQ==""#), Some(1));
        assert_eq!(size(r#""QUI=""#), Some(2));
        assert_eq!(size(r#""QUJD""#), Some(3));
        assert_eq!(size(r#""QUJD\nQQ""#), Some(4));
        assert_eq!(size(r#""\/\/\/\/""#), Some(3));
        assert_eq!(size("7"), None);
    }

    #[test]
    fn foreign_kinds_say_what_they_can() {
        assert_eq!(of_block(&block(r#"{"type":"error","text":"no"}"#)), "no");
        assert_eq!(
            of_block(&block(r#"{"type":"video","data":"QUJD","mimeType":"video/mp4"}"#)),
            "[video: video/mp4, 3 bytes]"
        );
        assert_eq!(of_block(&block(r#"{"type":"chart","x":1.0}"#)), r#"{"type":"chart","x":1.0}"#);
        assert_eq!(of_block(&block(r#"{"data":""}"#)), "[data: 0 bytes]");
    }
}
