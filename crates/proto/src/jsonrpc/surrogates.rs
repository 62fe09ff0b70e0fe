//! Halves of characters in JSON text.
//!
//! JSON may name UTF-16 code units (`\ud83d`), and programs that cut a text at a length leave halves of pairs. RFC 8259 section 8.2
//! lets them be, as text they are nothing: readers replace them.

/// `text`, well-formed JSON, with U+FFFD in the place of each half; `None` where there is none.
pub(super) fn whole_characters(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(escape) = text[at..].find('\\').map(|offset| at + offset) {
        at = escape + 2;
        let Some(unit) = unit(text, escape) else { continue };
        at = escape + 6;
        match unit {
            0xD800..=0xDBFF if matches!(self::unit(text, at), Some(0xDC00..=0xDFFF)) => at += 6,
            0xD800..=0xDFFF => {
                out.push_str(&text[kept..escape]);
                out.push_str("\\ufffd");
                kept = at;
            }
            _ => {}
        }
    }
    (kept > 0).then(|| out + &text[kept..])
}

/// The code unit that the escape at `at` names, if it is one of those.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn halves_are_replaced_and_pairs_are_not() {
        for (text, whole) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#"["\ude00\uD83D\uDE00","\\ud83d"]"#, r#"["\ufffd\uD83D\uDE00","\\ud83d"]"#),
            (r#""\ud83d\ud83d\ude00\n""#, r#""\ufffd\ud83d\ude00\n""#),
            (r#""\\\udfff\"""#, r#""\\\ufffd\"""#),
            (r#"{"\ud800":"\ud800x"}"#, r#"{"\ufffd":"\ufffdx"}"#),
        ] {
            assert_eq!(whole_characters(text).as_deref(), Some(whole));
        }
        for text in [r#""\ud83d\ude00""#, r#""\\ud83d""#, "{}", r#""\u00e9ä""#, ""] {
            assert_eq!(whole_characters(text), None);
        }
    }

    proptest! {
        #[test]
        fn what_comes_out_can_be_read(units in prop::collection::vec(prop_oneof![0xD7FF..=0xE000_u16, any::<u16>()], 0..20)) {
            let text: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let text = format!("\"{text}\"");
            let whole = whole_characters(&text);
            let said: String = serde_json::from_str(whole.as_deref().unwrap_or(&text)).unwrap();
            prop_assert_eq!(said, String::from_utf16_lossy(&units));
            prop_assert_eq!(whole.is_some(), String::from_utf16(&units).is_err());
        }
    }
}
