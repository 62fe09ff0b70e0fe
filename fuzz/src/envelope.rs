//! Any bytes as a body: no panic; what is read is written as the same message; what is refused gets a valid error.

use crate::json::error_in;
use bowline_proto::{
    http::Refusal,
    jsonrpc::{Body, MAX_ID_BYTES, Message, ParseError, Raw, RequestId, parse, parse_message},
};
use bytes::Bytes;

pub fn run(data: &[u8]) {
    let alone = parse_message(Bytes::copy_from_slice(data));
    match parse(Bytes::copy_from_slice(data)) {
        Ok(Body::Single(message)) => {
            assert_eq!(alone.as_ref(), Ok(&message), "the two ways to read one message differ");
            written_and_read_again(&message);
        }
        Ok(Body::Batch(members)) => {
            assert!(alone.is_err(), "an array is no message");
            assert!(!members.is_empty());
            for member in members {
                match member {
                    Ok(message) => written_and_read_again(&message),
                    Err(error) => refused(error),
                }
            }
        }
        Err(error) => {
            assert!(alone.is_err(), "what is no body is no message");
            refused(error);
        }
    }
}

fn written_and_read_again(message: &Message) {
    let text = message.to_bytes();
    let again = parse_message(text.clone()).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert_eq!(&again, message);
    assert_eq!(again.to_bytes(), text);
    match message {
        Message::Request(request) => {
            id(&request.id);
            request.params.iter().for_each(members);
        }
        Message::Notification(notification) => notification.params.iter().for_each(members),
        Message::Response(response) => {
            id(&response.id);
            let reply = response.reply.clone().into_result();
            assert_eq!(reply.is_err(), response.reply.is_error());
        }
    }
}

fn id(id: &RequestId) {
    assert_eq!(RequestId::from_json(&id.to_json()).as_ref(), Ok(id));
    assert_eq!(serde_json::to_string(id).expect("an id is JSON"), id.to_json());
    if let RequestId::String(text) = id {
        assert!(text.len() <= MAX_ID_BYTES);
    }
}

/// Parameters taken apart and put together are the same members; a member set is the one that is found.
fn members(params: &Raw) {
    let members = params.members().expect("parameters are an object");
    let again = Raw::from_members(members.clone());
    let again = Raw::parse(again.as_str().to_owned()).expect("members make an object");
    assert_eq!(again.members().as_ref(), Some(&members));
    for (name, value) in members.iter().take(8) {
        let first = members.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        assert_eq!(params.member(name).as_ref(), first);
        assert!(Raw::parse(value.as_str().to_owned()).is_ok());
    }
    assert!(params.member("").is_none() || params.as_str().contains("\"\""), "a name out of nothing");
    let one = Raw::parse("1").expect("a number");
    for name in ["progressToken", "_meta", ""] {
        let set = params.with_member(name, &one).expect("an object");
        let set = Raw::parse(set.as_str().to_owned()).expect("still JSON");
        assert_eq!(set.member(name).as_ref(), Some(&one), "{name:?} in {}", set.as_str());
    }
}

fn refused(error: ParseError) {
    let id = error.id.clone();
    let refusal = Refusal::from(error);
    assert_eq!(refusal.status.as_u16(), 400);
    let (code, told) = error_in(&refusal.body());
    assert!(matches!(code, -32700 | -32600), "{code}");
    assert_eq!(told, id);
    assert!(refusal.body().len() < 2048, "a refusal of {} bytes", refusal.body().len());
}
