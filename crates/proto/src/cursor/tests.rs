//! Event ids: what they look like, what they are bound to, and what happens to every other text.

use proptest::prelude::*;

use super::wire::MAX_BYTES;
use super::*;

fn keyring(keys: &[u8]) -> Keyring {
    let keys: Vec<[u8; 32]> = keys.iter().map(|key| [*key; 32]).collect();
    Keyring::from_bytes(&keys).unwrap()
}

fn codec(keys: &[u8], session: Option<&str>, principal: Option<&str>) -> CursorCodec {
    CursorCodec::new(&keyring(keys), Scope { session, principal })
}

fn minted(codec: &CursorCodec, cursor: &Cursor) -> String {
    let mut text = String::new();
    codec.mint(cursor, &mut text);
    text
}

fn call(id: &str) -> Cursor {
    Cursor {
        kind: CursorKind::Call,
        stream: StreamId::from_bytes([0xA5; 16]),
        epoch: 1,
        offset: 300,
        poll: 2,
        request: CursorRequest::Id(IdText::new(id).unwrap()),
    }
}

fn bad_mac(cursor: &Cursor) -> Result<Cursor, CursorError> {
    Err(CursorError::BadMac { claimed: Box::new(cursor.clone()) })
}

#[test]
fn typical_ids_are_short() {
    let codec = codec(&[1], Some("0f8fad5b-d9cb-469f-a165-70867728950e"), Some("issuer subject"));
    let length = |id: &str| minted(&codec, &call(id)).len();
    assert_eq!(length("7"), 55);
    assert!(length("\"0f8fad5b-d9cb-469f-a165-70867728950e\"") <= 110);
    assert!(length("\"call_01HZX3QK7V5Y\"") <= 90);
}

#[test]
fn minting_appends() {
    let codec = codec(&[1], None, None);
    let mut text = String::from("id: ");
    codec.mint(&call("7"), &mut text);
    assert_eq!(codec.decode(text.strip_prefix("id: ").unwrap()), Ok(call("7")));
}

#[test]
fn the_form_never_changes() {
    // A rolling upgrade reads what the version before minted: this text, computed independently, is part of the format.
    let codec = codec(&[1], Some("s"), Some("p"));
    let text = "AZwRpaWlpaWlpaWlpaWlpaWlpQGsAgIDImEi0EsXrtrs6RA8Ids9i8HFVw";
    assert_eq!(minted(&codec, &call("\"a\"")), text);
    assert_eq!(codec.decode(text), Ok(call("\"a\"")));
}

#[test]
fn the_largest_id_of_200_bytes_fits() {
    let codec = codec(&[1], None, None);
    let largest = |id: &str| Cursor { epoch: u64::MAX, offset: u64::MAX, poll: u64::MAX, ..call(id) };
    // With quotes, 100 of the 200 escaped, and 19 of 200 as six characters each.
    for text in ["x".repeat(200), "\\\"x".repeat(100), "\\u0001".repeat(19) + &"x".repeat(181)] {
        let cursor = largest(&format!("\"{text}\""));
        let id = minted(&codec, &cursor);
        assert!(id.len() <= MAX_CURSOR_CHARS, "{}", id.len());
        assert_eq!(codec.decode(&id), Ok(cursor));
    }
    // The longest JSON text, and one more: that one is in the record only.
    let room = MAX_BYTES - 67;
    let fitting = largest(&format!("\"{}\"", "x".repeat(room - 2)));
    let id = minted(&codec, &fitting);
    assert_eq!(id.len(), MAX_CURSOR_CHARS);
    assert_eq!(codec.decode(&id), Ok(fitting));
    let too_long = largest(&format!("\"{}\"", "x".repeat(room - 1)));
    let id = minted(&codec, &too_long);
    assert!(id.len() < 100);
    assert_eq!(codec.decode(&id), Ok(Cursor { request: CursorRequest::InRecord, ..too_long }));
}

#[test]
fn another_session_principal_or_key_fails_and_still_tells_the_request() {
    let (a, b) = (Some("a"), Some("b"));
    let cursor = call("\"req\"");
    let id = minted(&codec(&[1], a, b), &cursor);
    assert_eq!(codec(&[1], a, b).decode(&id), Ok(cursor.clone()));
    for (keys, session, principal) in [
        (&[2][..], a, b),
        (&[2, 3], a, b),
        (&[1], b, b),
        (&[1], a, a),
        (&[1], b, a),
        (&[1], None, b),
        (&[1], a, None),
        (&[1], None, None),
        (&[1], Some("ab"), Some("")),
    ] {
        assert_eq!(codec(keys, session, principal).decode(&id), bad_mac(&cursor), "{keys:?} {session:?}");
    }
}

#[test]
fn keys_rotate() {
    let cursor = call("1");
    let mint = |keys: &[u8]| minted(&codec(keys, None, None), &cursor);
    let read = |keys: &[u8], id: &str| codec(keys, None, None).decode(id).is_ok();
    let (old, both, new) = (mint(&[1]), mint(&[2, 1]), mint(&[2]));
    assert_eq!(both, new, "the newest key signs");
    for id in [&old, &new] {
        assert!(read(&[2, 1], id) && read(&[1, 2], id) && read(&[9, 2, 1], id));
    }
    assert!(read(&[1], &old) && !read(&[2], &old) && !read(&[1], &new));
}

#[test]
fn a_request_token_is_no_cursor() {
    let scope = Scope::default();
    let mut text = String::new();
    RequestTokenCodec::new(&keyring(&[1]), scope)
        .mint(RequestToken { stream: StreamId::from_bytes([7; 16]), serial: 1 }, &mut text);
    assert!(CursorCodec::new(&keyring(&[1]), scope).decode(&text).is_err());
}

#[test]
fn other_texts_are_malformed() {
    let codec = codec(&[1], None, None);
    let good = minted(&codec, &call("1"));
    let padded = format!("{good}==");
    let long = "A".repeat(MAX_CURSOR_CHARS + 1);
    for text in ["", "1", "AQ", "42_17", "1/2", "not base64!", "\u{1F600}", &padded, &long, &good[..40]] {
        assert_eq!(codec.decode(text), Err(CursorError::Malformed), "{text}");
    }
    assert_eq!(codec.decode(format!(" {good}")), Err(CursorError::Malformed));
    assert_eq!(codec.decode([&b"\xFF"[..], good.as_bytes()].concat()), Err(CursorError::Malformed));
}

#[test]
fn unknown_versions_kinds_and_forms_are_malformed_even_with_a_good_mac() {
    let keyring = keyring(&[1]);
    let codec = CursorCodec::new(&keyring, Scope::default());
    let signed = |body: &[u8]| {
        let keys = keyring.scoped("event id", Scope::default());
        let mut writer = wire::Writer::new();
        writer.put(body);
        let mut text = String::new();
        writer.finish(&keys, 16, &mut text);
        text
    };
    let body = |head: [u8; 3], tail: &[u8]| [&head[..], &[0xA5; 16], tail].concat();
    let kid = keyring.key_ids().next().unwrap();
    assert!(codec.decode(signed(&body([1, kid, 1], &[0, 0, 0]))).is_ok());
    for (head, tail) in [
        ([0, kid, 1], &[0, 0, 0][..]),
        ([2, kid, 1], &[0, 0, 0]),
        ([1, kid, 0], &[0, 0, 0]),
        ([1, kid, 3], &[0, 0, 0]),
        ([1, kid, 0x31], &[0, 0, 0]),
        ([1, kid, 1], &[0, 0]),
        ([1, kid, 1], &[0, 0, 0, 0]),
        ([1, kid, 1], &[0, 0, 0x80, 0]),
        ([1, kid, 0x11], &[0, 0, 0]),
        ([1, kid, 0x11], &[0, 0, 0, 0]),
        ([1, kid, 0x11], &[0, 0, 0, 2, b'1']),
        ([1, kid, 0x11], &[0, 0, 0, 1, 0xFF]),
        ([1, kid, 0x11], &[0, 0, 0, 3, b'[', b'1', b']']),
        ([1, kid, 0x21], &[0, 0, 0, 1, b'1']),
    ] {
        assert_eq!(codec.decode(signed(&body(head, tail))), Err(CursorError::Malformed), "{head:?} {tail:?}");
    }
}

#[test]
fn request_ids_are_json_strings_or_numbers() {
    for json in ["0", "-1", "18446744073709551615", "1.5", "\"\"", "\"a\\u0001\\\"\"", "\"\u{2028}漢\""] {
        assert_eq!(IdText::new(json).map(|id| id.as_json().to_owned()), Ok(json.to_owned()));
    }
    for json in [
        "",
        "\"",
        "\"a",
        "a",
        "null",
        "true",
        "[1]",
        "{}",
        " 1",
        "1 ",
        "1,2",
        "01",
        "-",
        "\"a\",\"b\"",
        "\"\n\"",
    ] {
        assert_eq!(IdText::new(json), Err(NotAnIdError), "{json:?}");
    }
}

#[test]
fn errors_do_not_tell_which_check_failed() {
    let bad = CursorError::BadMac { claimed: Box::new(call("1")) };
    assert_eq!(bad.to_string(), CursorError::Malformed.to_string());
}

fn request() -> impl Strategy<Value = CursorRequest> {
    let id = |json: String| CursorRequest::Id(IdText::new(&json).unwrap());
    prop_oneof![
        Just(CursorRequest::None),
        Just(CursorRequest::InRecord),
        any::<i64>().prop_map(move |number| id(number.to_string())),
        ".{0,40}".prop_map(move |text| id(serde_json::to_string(&text).unwrap())),
    ]
}

fn cursor() -> impl Strategy<Value = Cursor> {
    let number = || (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift);
    let kind = prop_oneof![Just(CursorKind::Call), Just(CursorKind::Standalone)];
    (kind, any::<[u8; 16]>(), number(), number(), number(), request()).prop_map(
        |(kind, stream, epoch, offset, poll, request)| Cursor {
            kind,
            stream: StreamId::from_bytes(stream),
            epoch,
            offset,
            poll,
            request,
        },
    )
}

proptest! {
    #[test]
    fn round_trip(
        cursor in cursor(),
        session in proptest::option::of(".{0,20}"),
        principal in proptest::option::of(".{0,20}"),
    ) {
        let codec = codec(&[1, 2], session.as_deref(), principal.as_deref());
        let id = minted(&codec, &cursor);
        prop_assert!(id.len() <= MAX_CURSOR_CHARS);
        prop_assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        prop_assert_eq!(codec.decode(&id), Ok(cursor));
    }

    #[test]
    fn any_single_bit_flip_is_refused(cursor in cursor()) {
        let codec = codec(&[1, 2], Some("s"), None);
        let id = minted(&codec, &cursor).into_bytes();
        for bit in 0..id.len() * 8 {
            let mut flipped = id.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(codec.decode(&flipped).is_err());
        }
    }

    #[test]
    fn another_poll_or_offset_is_another_id(cursor in cursor()) {
        let codec = codec(&[1], None, None);
        let id = minted(&codec, &cursor);
        let next = Cursor { poll: cursor.poll.wrapping_add(1), ..cursor.clone() };
        prop_assert_ne!(minted(&codec, &next), id.clone());
        let next = Cursor { offset: cursor.offset.wrapping_add(1), ..cursor };
        prop_assert_ne!(minted(&codec, &next), id);
    }

    #[test]
    fn arbitrary_input_is_refused_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        base64 in "[A-Za-z0-9_-]{0,520}",
        body in "AQ[A-Za-z0-9_-]{50,100}",
    ) {
        let codec = codec(&[1], None, None);
        for text in [&bytes[..], base64.as_bytes(), body.as_bytes()] {
            prop_assert!(codec.decode(text).is_err());
        }
    }
}
