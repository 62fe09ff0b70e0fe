//! Encoder and decoder together: what was written is read, whatever happens to it on the way.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::decode;
use super::*;

#[test]
fn a_large_payload_survives_byte_by_byte() {
    let text = "\u{1F600}漢字\u{2028}\\n\\u2028 ".repeat(100 * 1024 / 24);
    let json = format!("{{\"text\":\"{text}\"}}");
    let mut buf = BytesMut::new();
    encode::message(&mut buf, "c", json.as_bytes());
    let events = decode(buf.chunks(1));
    assert_eq!(events.len(), 1);
    let back: serde_json::Value = serde_json::from_str(events[0].message().unwrap()).unwrap();
    assert_eq!(back, serde_json::from_str::<serde_json::Value>(&json).unwrap());
}

#[derive(Clone, Debug)]
enum Block {
    Message(String, String),
    Data(String),
    Priming(String, Option<u64>),
    Retry(u64),
    Comment(String),
}

/// A cursor as it looks on the wire: visible ASCII.
fn id() -> impl Strategy<Value = String> {
    "[!-~]{1,20}"
}

/// JSON text with everything in it that a line reader may trip over, sometimes pretty-printed over several lines.
fn json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\u{2028}"),
        Just("\u{2029}"),
        Just("\u{85}"),
        Just("\u{1F600}"),
        Just("漢字"),
        Just("é"),
        Just("\n"),
        Just("\r\n"),
        Just("\""),
        Just("\\"),
        Just(": "),
        Just("data: "),
        Just("\u{FEFF}"),
        Just("plain"),
    ];
    (vec(piece, 0..12), 0..4).prop_map(|(pieces, layout)| {
        let value = serde_json::json!({ "text": pieces.concat() });
        match layout {
            0 => value.to_string(),
            1 => serde_json::to_string_pretty(&value).unwrap(),
            2 => serde_json::to_string_pretty(&value).unwrap().replace('\n', "\r\n"),
            _ => serde_json::to_string_pretty(&value).unwrap().replace('\n', "\r"),
        }
    })
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => (id(), json()).prop_map(|(id, json)| Block::Message(id, json)),
        1 => json().prop_map(Block::Data),
        2 => (id(), proptest::option::of(0..=MAX_RETRY_MS)).prop_map(|(id, ms)| Block::Priming(id, ms)),
        1 => (0..=MAX_RETRY_MS).prop_map(Block::Retry),
        1 => "[ -~]{0,20}".prop_map(Block::Comment),
    ]
}

/// Writes the blocks, and says what a reader must find: (id in force, message as a JSON value, retry) of each.
#[allow(clippy::type_complexity, reason = "a tuple of a test")]
fn write(blocks: &[Block]) -> (Vec<u8>, Vec<(Option<String>, Option<serde_json::Value>, Option<u64>)>) {
    let mut buf = BytesMut::new();
    let mut expected = Vec::new();
    let mut in_force = None;
    let parsed = |json: &str| serde_json::from_str(json).unwrap();
    for block in blocks {
        match block {
            Block::Message(id, json) => {
                encode::message(&mut buf, id, json.as_bytes());
                in_force = Some(id.clone());
                expected.push((in_force.clone(), Some(parsed(json)), None));
            }
            Block::Data(json) => {
                encode::data(&mut buf, json.as_bytes());
                expected.push((in_force.clone(), Some(parsed(json)), None));
            }
            Block::Priming(id, ms) => {
                encode::priming(&mut buf, id, *ms);
                in_force = Some(id.clone());
                expected.push((in_force.clone(), None, *ms));
            }
            Block::Retry(ms) => {
                encode::retry_only(&mut buf, *ms);
                expected.push((in_force.clone(), None, Some(*ms)));
            }
            Block::Comment(text) => encode::comment(&mut buf, text),
        }
    }
    (buf.to_vec(), expected)
}

/// Each LF replaced by the line end that the choices name in turn; a lone CR before a lone LF would be one line end, so
/// that pair becomes CR, CR.
fn with_line_ends(bytes: &[u8], choices: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let mut choices = choices.iter().cycle();
    for &byte in bytes {
        if byte != b'\n' {
            out.push(byte);
            continue;
        }
        match choices.next().unwrap() % 3 {
            0 if out.last() == Some(&b'\r') => out.push(b'\r'),
            0 => out.push(b'\n'),
            1 => out.push(b'\r'),
            _ => out.extend_from_slice(b"\r\n"),
        }
    }
    out
}

fn cut_at<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    positions.sort_unstable();
    let mut chunks = Vec::new();
    let mut from = 0;
    for to in positions.into_iter().chain([bytes.len()]) {
        chunks.push(&bytes[from..to]);
        from = to;
    }
    chunks
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        blocks in vec(block(), 0..8),
        bom in any::<bool>(),
        line_ends in vec(0u8..3, 1..8),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (written, expected) = write(&blocks);
        for weak_clients_cut_here in ["\u{2028}", "\u{2029}", "\u{85}"] {
            prop_assert!(memchr::memmem::find(&written, weak_clients_cut_here.as_bytes()).is_none());
        }
        let mut wire = if bom { b"\xEF\xBB\xBF".to_vec() } else { Vec::new() };
        wire.extend(with_line_ends(&written, &line_ends));

        for chunks in [vec![&wire[..]], cut_at(&wire, &cuts), wire.chunks(1).collect()] {
            let seen: Vec<_> = decode(chunks)
                .into_iter()
                .map(|event| {
                    let message = event.message().map(|text| serde_json::from_str(text).unwrap());
                    (event.id.map(|id| id.to_string()), message, event.retry_ms)
                })
                .collect();
            prop_assert_eq!(&seen, &expected);
        }
    }

    #[test]
    fn any_bytes_read_the_same_however_they_are_cut(
        bytes in vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(0), Just(0xEF), Just(0xBB), Just(0xBF), any::<u8>(),
        ], 0..60),
        lines in vec(prop_oneof![
            Just("data: x"), Just("data"), Just("id: 1"), Just("id"), Just("retry: 3"), Just("event: e"), Just(""),
        ], 0..8),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut wire = bytes;
        wire.extend(lines.join("\n").into_bytes());
        let whole = decode([&wire[..]]);
        prop_assert_eq!(&decode(cut_at(&wire, &cuts)), &whole);
        prop_assert_eq!(&decode(wire.chunks(1)), &whole);
    }

    #[test]
    fn escaping_keeps_the_meaning(json in json()) {
        let escaped = encode::escape_separators(json.as_bytes());
        let back: serde_json::Value = serde_json::from_slice(&escaped).unwrap();
        prop_assert_eq!(back, serde_json::from_str::<serde_json::Value>(&json).unwrap());
        let raw_separator = String::from_utf8_lossy(&escaped).contains(['\u{2028}', '\u{2029}', '\u{85}']);
        prop_assert!(!raw_separator);
    }
}
