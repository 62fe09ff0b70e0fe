//! Any text as an event id, a request token or a key: no panic; what was minted is read in its own scope and nowhere else;
//! a flipped bit is refused.

use arbitrary::{Result, Unstructured};
use bowline_proto::{
    cursor::{
        Cursor, CursorCodec, CursorError, CursorKind, CursorRequest, IdText, Keyring, MAX_CURSOR_CHARS,
        RequestToken, RequestTokenCodec, Scope, StreamId, TokenError,
    },
    http::MAX_LAST_EVENT_ID_BYTES,
    jsonrpc::RequestId,
};

pub fn run(data: &[u8]) {
    let _ = checked(&mut Unstructured::new(data));
}

fn checked(u: &mut Unstructured<'_>) -> Result<()> {
    let keyring = Keyring::from_bytes(&[[u.arbitrary::<u8>()?; 32]]).expect("32 bytes");
    let session: Option<String> = u.arbitrary()?;
    let principal: Option<String> = u.arbitrary()?;
    let scope = Scope { session: session.as_deref(), principal: principal.as_deref() };
    let other_session = format!("{}x", session.as_deref().unwrap_or_default());
    let other_scope = Scope { session: Some(&other_session), principal: principal.as_deref() };
    let cursors = CursorCodec::new(&keyring, scope);
    let tokens = RequestTokenCodec::new(&keyring, scope);
    let flip: usize = u.arbitrary()?;

    let cursor = cursor(u)?;
    let text = minted(&cursors, &cursor);
    assert!(text.len() <= MAX_CURSOR_CHARS && text.len() <= MAX_LAST_EVENT_ID_BYTES);
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')), "{text}");
    let read = cursors.decode(&text).expect("it was made here");
    let shortened = Cursor { request: CursorRequest::InRecord, ..cursor.clone() };
    assert!(read == cursor || read == shortened, "{read:?} of {cursor:?}");
    match CursorCodec::new(&keyring, other_scope).decode(&text) {
        Err(CursorError::BadMac { claimed }) => assert_eq!(*claimed, read),
        other => panic!("{other:?} in another session"),
    }
    assert!(cursors.decode(flipped(&text, flip)).is_err(), "a flipped bit");
    assert!(tokens.parse(&text).is_err(), "an event id is no token");

    let token = RequestToken { stream: cursor.stream, serial: cursor.offset };
    let mut text = String::new();
    tokens.mint(token, &mut text);
    assert_eq!(tokens.parse(&text), Ok(token));
    assert_eq!(RequestTokenCodec::new(&keyring, other_scope).parse(&text), Err(TokenError::BadMac));
    if let Ok(flipped) = std::str::from_utf8(&flipped(&text, flip)) {
        assert!(tokens.parse(flipped).is_err(), "a flipped bit");
    }
    assert!(cursors.decode(&text).is_err(), "a token is no event id");

    let any = u.bytes(u.len())?;
    match cursors.decode(any) {
        Ok(cursor) => assert_eq!(minted(&cursors, &cursor).as_bytes(), any, "one position, one text"),
        Err(CursorError::BadMac { claimed }) => {
            // It goes into an answer as it is.
            if let CursorRequest::Id(id) = &claimed.request {
                assert!(serde_json::from_str::<&serde_json::value::RawValue>(id.as_json()).is_ok());
                let _ = RequestId::from_json(id.as_json());
            }
        }
        Err(CursorError::Malformed) => {}
    }
    if let Ok(any) = std::str::from_utf8(any) {
        let _ = Keyring::parse(any);
        if let Ok(token) = tokens.parse(any) {
            let mut again = String::new();
            tokens.mint(token, &mut again);
            assert_eq!(again, any, "one token, one text");
        }
    }
    Ok(())
}

fn cursor(u: &mut Unstructured<'_>) -> Result<Cursor> {
    let request = match u.int_in_range(0..=3)? {
        0 => CursorRequest::None,
        1 => CursorRequest::InRecord,
        2 => IdText::new(&RequestId::from(u.arbitrary::<u64>()?).to_json())
            .map_or(CursorRequest::None, CursorRequest::Id),
        _ => {
            let id = RequestId::String(u.arbitrary::<&str>()?.into()).to_json();
            CursorRequest::Id(IdText::new(&id).expect("a string is an id"))
        }
    };
    Ok(Cursor {
        kind: *u.choose(&[CursorKind::Call, CursorKind::Standalone])?,
        stream: StreamId::from_bytes(u.arbitrary()?),
        epoch: u.arbitrary()?,
        offset: u.arbitrary()?,
        poll: u.arbitrary()?,
        request,
    })
}

fn minted(codec: &CursorCodec, cursor: &Cursor) -> String {
    let mut text = String::new();
    codec.mint(cursor, &mut text);
    text
}

fn flipped(text: &str, which: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let bit = which % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}
