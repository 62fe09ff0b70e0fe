//! The decoder against the corners of the standard, one table for each field.

use super::*;

/// Feeds the chunks and returns all events.
pub(super) fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut decoder = Decoder::new(Limits::default());
    let mut events = Vec::new();
    for mut chunk in chunks {
        while let Some(event) = decoder.next_event(&mut chunk).unwrap() {
            events.push(event);
        }
    }
    events
}

/// The events of `bytes`, which must be the same in one piece, byte by byte, and for each single cut.
fn decode_any_way(bytes: &[u8]) -> Vec<Event> {
    let whole = decode([bytes]);
    assert_eq!(decode(bytes.chunks(1)), whole, "byte by byte: {:?}", bytes.escape_ascii().to_string());
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(decode([left, right]), whole, "cut at {cut}: {:?}", bytes.escape_ascii().to_string());
    }
    whole
}

fn event(id: &str, data: &str) -> Event {
    Event {
        id: (!id.is_empty()).then(|| id.into()),
        sets_id: !id.is_empty(),
        data: Some(data.into()),
        ..Event::default()
    }
}

fn data_of(text: &str) -> Vec<Option<String>> {
    decode_any_way(text.as_bytes()).into_iter().map(|event| event.data).collect()
}

#[test]
fn data_corners() {
    let some = |text: &str| vec![Some(text.to_owned())];
    for (text, expected) in [
        ("data: a\n\n", some("a")),
        ("data:a\n\n", some("a")),
        ("data:  a\n\n", some(" a")),
        ("data:\ta\n\n", some("\ta")),
        ("data: a: b\n\n", some("a: b")),
        ("data: a\ndata: b\n\n", some("a\nb")),
        ("data: a\ndata\ndata:\n\n", some("a\n\n")),
        ("data\n\n", some("")),
        ("data:\n\n", some("")),
        ("data: \n\n", some("")),
        ("data\ndata\n\n", some("\n")),
        ("data: a\r\rdata: b\r\r", vec![Some("a".into()), Some("b".into())]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", vec![Some("a".into()), Some("b".into())]),
        (
            "data: a\n\r\ndata: b\r\n\rdata: c\r\n\n",
            vec![Some("a".into()), Some("b".into()), Some("c".into())],
        ),
        ("\n\r\n\r\r: comment\n\n:\n\n", vec![]),
        ("data: a\n: comment\ndata: b\n\n", some("a\nb")),
        (":data: a\n\n", vec![]),
        ("Data: a\n\nDATA: a\n\ndata : a\n\n data: a\n\ndatum: a\n\n", vec![]),
        ("other: x\nnocolon\ndata: a\n\n", some("a")),
        ("data: a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\n\n", some("a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f")),
        ("data: nul\0here\n\n", some("nul\0here")),
        ("data: \u{1F600}漢字\n\n", some("\u{1F600}漢字")),
        // What its empty line never ended is not an event.
        ("data: a\n\ndata: b\n", some("a")),
        ("data: a\n\ndata: b", some("a")),
        ("data: a", vec![]),
        // A byte order mark counts at the very start only.
        ("\u{FEFF}data: a\n\n", some("a")),
        ("\u{FEFF}\u{FEFF}data: a\n\n", vec![]),
        ("data: a\n\n\u{FEFF}data: b\n\n", some("a")),
        ("data: \u{FEFF}a\n\n", some("\u{FEFF}a")),
    ] {
        assert_eq!(data_of(text), expected, "{text:?}");
    }
}

#[test]
fn a_block_ends_at_its_empty_line_without_more_bytes() {
    for text in ["data: a\n\n", "data: a\r\r", "data: a\r\n\r"] {
        assert_eq!(decode([text.as_bytes()]).len(), 1, "{text:?}");
    }
}

#[test]
fn a_cut_byte_order_mark_that_is_none_belongs_to_its_line() {
    // EF BB without BF makes the first field name unknown; the second line stands.
    assert_eq!(decode_any_way(b"\xEF\xBBdata: a\ndata: b\n\n"), [event("", "b")]);
    assert_eq!(decode_any_way(b"\xEFdata: a\n\n"), []);
}

#[test]
fn bytes_that_are_not_utf8_become_replacement_characters() {
    assert_eq!(decode_any_way(b"data: a\xFFb\ndata: \xF0\x9F\n\n"), [event("", "a\u{FFFD}b\n\u{FFFD}")]);
    assert_eq!(
        decode_any_way(b"id: \xC3\nevent: \xFF\ndata: x\n\n"),
        [Event { event_type: Some("\u{FFFD}".into()), ..event("\u{FFFD}", "x") }]
    );
}

#[test]
fn id_corners() {
    // Each: the text, then (id in force, whether set here, data) of each event.
    type Seen<'a> = (Option<&'a str>, bool, Option<&'a str>);
    let cases: [(&str, &[Seen<'_>]); 9] = [
        ("id: 1\ndata: a\n\ndata: b\n\n", &[(Some("1"), true, Some("a")), (Some("1"), false, Some("b"))]),
        ("id: 1\n\ndata: b\n\n", &[(Some("1"), true, None), (Some("1"), false, Some("b"))]),
        (
            "id: 1\n\nid\n\ndata: b\n\n",
            &[(Some("1"), true, None), (None, true, None), (None, false, Some("b"))],
        ),
        ("id: 1\n\nid:\ndata: b\n\n", &[(Some("1"), true, None), (None, true, Some("b"))]),
        ("id: 1\n\nid: 2\0x\ndata: b\n\n", &[(Some("1"), true, None), (Some("1"), false, Some("b"))]),
        ("id: 2\0x\n\n", &[]),
        ("id: 1\nid: 2\ndata: a\n\n", &[(Some("2"), true, Some("a"))]),
        ("data: a\nid:1\n\n", &[(Some("1"), true, Some("a"))]),
        ("id:  1 \ndata: a\n\n", &[(Some(" 1 "), true, Some("a"))]),
    ];
    for (text, expected) in cases {
        let events = decode_any_way(text.as_bytes());
        let seen: Vec<Seen<'_>> =
            events.iter().map(|event| (event.id.as_deref(), event.sets_id, event.data.as_deref())).collect();
        assert_eq!(seen, expected, "{text:?}");
    }
}

#[test]
fn an_id_counts_once_its_block_ended() {
    let mut decoder = Decoder::resuming(Limits::default(), Some("0"));
    let mut feed = |text: &str| {
        let mut input = text.as_bytes();
        while decoder.next_event(&mut input).unwrap().is_some() {}
        decoder.last_event_id().map(str::to_owned)
    };
    assert_eq!(feed("data: a\n\n").as_deref(), Some("0"));
    assert_eq!(feed("id: 1\ndata: b\n").as_deref(), Some("0"));
    assert_eq!(feed("\n").as_deref(), Some("1"));
    assert_eq!(feed("id\n\n"), None);
}

#[test]
fn retry_corners() {
    for (value, expected) in [
        (" 10", Some(10)),
        ("0", Some(0)),
        ("007", Some(7)),
        (" 86400000", Some(MAX_RETRY_MS)),
        (" 86400001", Some(MAX_RETRY_MS)),
        (" 99999999999999999999999999", Some(MAX_RETRY_MS)),
        (" -1", None),
        (" +1", None),
        (" 1.5", None),
        (" 1 ", None),
        ("  1", None),
        (" 1s", None),
        (" \u{661}", None),
        ("", None),
        (" ", None),
    ] {
        let events = decode_any_way(format!("retry:{value}\n\n").as_bytes());
        let expected: Vec<Event> =
            expected.map(|ms| Event { retry_ms: Some(ms), ..Event::default() }).into_iter().collect();
        assert_eq!(events, expected, "{value:?}");
    }
    // A later value that is none leaves the earlier one; the next block does not inherit it.
    let retries: Vec<_> =
        decode_any_way(b"retry: 5\nretry: x\n\ndata: a\n\n").iter().map(|event| event.retry_ms).collect();
    assert_eq!(retries, [Some(5), None]);
}

#[test]
fn retry_counts_from_its_own_line_on() {
    let mut decoder = Decoder::new(Limits::default());
    assert_eq!(decoder.next_event(&mut &b"retry: 7\nda"[..]), Ok(None));
    assert_eq!(decoder.retry_ms(), Some(7));
}

#[test]
fn event_type_corners() {
    let types = |text: &str| -> Vec<Option<String>> {
        decode_any_way(text.as_bytes()).into_iter().map(|event| event.event_type).collect()
    };
    assert_eq!(types("event: endpoint\ndata: /m\n\ndata: x\n\n"), [Some("endpoint".into()), None]);
    assert_eq!(types("event: a\nevent: b\ndata: x\n\n"), [Some("b".into())]);
    assert_eq!(types("event: a\nevent:\ndata: x\n\n"), [None]);
    // A type alone says nothing, and is forgotten with its block.
    assert_eq!(types("event: prime\n\ndata: x\n\n"), [None]);
}

/// Case E1: whatever a server primes with, nothing is delivered, and id and retry are recorded.
#[test]
fn nine_ways_to_prime() {
    let variants: [(&str, Option<&str>, Option<u64>); 9] = [
        ("id: x\ndata:\n\n", Some("x"), None),
        ("id: x\ndata: \n\n", Some("x"), None),
        ("id: x\nretry: 50\ndata:\n\n", Some("x"), Some(50)),
        ("id: x\n\n", Some("x"), None),
        ("retry: 50\n\n", None, Some(50)),
        ("event: prime\nid: x\ndata:\n\n", Some("x"), None),
        (": hello\n\nid: x\n: between\ndata:\n: after\n\n: bye\n\n", Some("x"), None),
        ("id: x\ndata\n\n", Some("x"), None),
        ("retry: 50\nid: x\n\n", Some("x"), Some(50)),
    ];
    for (text, id, retry_ms) in variants {
        for ends in ["\n", "\r", "\r\n"] {
            let text = text.replace('\n', ends);
            let events = decode_any_way(text.as_bytes());
            assert_eq!(events.len(), 1, "{text:?}");
            assert_eq!(events[0].id.as_deref(), id, "{text:?}");
            assert_eq!(events[0].retry_ms, retry_ms, "{text:?}");
            assert_eq!(events[0].message(), None, "{text:?}");
        }
    }
    let all: String = variants.iter().map(|variant| variant.0).chain(["id: y\ndata: {}\n\n"]).collect();
    let messages: Vec<_> = decode_any_way(all.as_bytes())
        .iter()
        .filter_map(|event| event.message().map(str::to_owned))
        .collect();
    assert_eq!(messages, ["{}"]);
}

#[test]
fn only_the_default_type_carries_messages() {
    let messages = |text: &str| {
        decode([text.as_bytes()]).iter().filter_map(|event| event.message().map(str::to_owned)).count()
    };
    assert_eq!(messages("event: message\ndata: {}\n\n"), 1);
    assert_eq!(messages("event: endpoint\ndata: /messages\n\n"), 0);
    assert_eq!(messages("data:  \ndata:\n\n"), 0);
}

#[test]
fn limits_are_exact_and_final() {
    let limits = Limits { max_line_bytes: 10, max_event_bytes: 6 };
    let run = |text: &str, chunk: usize| {
        let mut decoder = Decoder::new(limits);
        let mut events = 0;
        for mut piece in text.as_bytes().chunks(chunk) {
            loop {
                match decoder.next_event(&mut piece) {
                    Ok(Some(_)) => events += 1,
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(decoder.next_event(&mut &b"data: a\n\n"[..]), Err(error.clone()));
                        return (events, Some(error));
                    }
                }
            }
        }
        (events, None)
    };
    let too_long = Some(DecodeError::LineTooLong { limit: 10 });
    let too_large = Some(DecodeError::EventTooLarge { limit: 6 });
    for chunk in [1, 3, 1000] {
        assert_eq!(run("data:12345\n\n", chunk), (1, None));
        assert_eq!(run("data:123456\n\n", chunk), (0, too_long.clone()));
        assert_eq!(run("data:a\n\n:0123456789", chunk), (1, too_long.clone()));
        assert_eq!(run("data:123\ndata:45\n\ndata:1\n\n", chunk), (2, None));
        assert_eq!(run("data:123\ndata:456\n\n", chunk), (0, too_large.clone()));
        assert_eq!(run("data\ndata\ndata\ndata\ndata\ndata\ndata\n\n", chunk), (1, None));
        assert_eq!(run("data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n\n", chunk), (0, too_large.clone()));
        // What is not kept does not count.
        assert_eq!(run(&format!("{}data:a\n\n", ": note\n".repeat(50)), chunk), (1, None));
    }
}
