//! Strings as JSON, for texts that may be long.

use bowline_proto::jsonrpc::next_special;

/// Appends `text` as a JSON string, in the form that `serde_json` gives it: runs that need no escape are copied whole.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = next_special(rest.as_bytes()) {
        // What is special is one byte of ASCII, so both sides of it are whole characters.
        let (clean, from) = rest.split_at(at);
        let (special, after) = from.split_at(1);
        out.push_str(clean);
        match special {
            "\"" => out.push_str("\\\""),
            "\\" => out.push_str("\\\\"),
            "\n" => out.push_str("\\n"),
            "\r" => out.push_str("\\r"),
            "\t" => out.push_str("\\t"),
            "\u{8}" => out.push_str("\\b"),
            "\u{c}" => out.push_str("\\f"),
            other => {
                let code = other.as_bytes()[0];
                out.push_str("\\u00");
                out.extend(
                    [code >> 4, code & 0xf].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
                );
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(text: &str) {
        let mut out = String::new();
        push_string(&mut out, text);
        assert_eq!(out, serde_json::to_string(text).unwrap());
    }

    #[test]
    fn every_character_is_written_as_serde_json_writes_it() {
        for code in 0..0x300 {
            let Some(character) = char::from_u32(code) else { continue };
            // At the start, inside of a block, at the end of one, and behind the last whole one.
            for before in [0, 5, 31, 32, 64, 70, 200] {
                for after in [0, 40, 150] {
                    same(&format!("{}{character}{}", "ä".repeat(before), "x".repeat(after)));
                }
            }
        }
        same("");
        same("\"\"\\\n\n\u{0}\u{1f}\u{7f}\u{2028}😀");
    }
}
