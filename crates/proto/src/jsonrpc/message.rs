//! The three kinds of message, and how they are written.

use super::{ErrorObject, Raw, RequestId};
use bytes::Bytes;
use bytestring::ByteString;

/// One JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Something to be answered.
    Request(Request),
    /// Something to be noted.
    Notification(Notification),
    /// The answer to a request of the other side.
    Response(Response),
}

/// A request: it has an id and will be answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the sender, unique among its requests in the session.
    pub id: RequestId,
    /// The method, as sent.
    pub method: ByteString,
    /// The parameters, an object where present.
    pub params: Option<Raw>,
}

/// A notification: no id, no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The method, as sent.
    pub method: ByteString,
    /// The parameters, an object where present.
    pub params: Option<Raw>,
}

/// A response to a request of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The id of the request that this answers.
    pub id: RequestId,
    /// What came of it.
    pub reply: Reply,
}

/// What a response begins with.
const ENVELOPE: &[u8] = br#"{"jsonrpc":"2.0","id":"#;

/// What came of a request, kept raw so that an upstream's fields pass untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The `result` member.
    Result(Raw),
    /// The `error` member.
    Error(Raw),
}

impl Message {
    /// The JSON text of this message.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Request(request) => request.to_bytes(),
            Self::Notification(notification) => notification.to_bytes(),
            Self::Response(response) => response.to_bytes(),
        }
    }
}

impl Request {
    /// The JSON text of this request.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(64 + self.method.len() + raw_len(self.params.as_ref()));
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.id.write_json(&mut out);
        out.extend_from_slice(br#","method":"#);
        write_method_and_params(&mut out, &self.method, self.params.as_ref());
        out.into()
    }
}

impl Notification {
    /// A notification with parameters.
    pub fn new(method: impl Into<ByteString>, params: Option<Raw>) -> Self {
        Self { method: method.into(), params }
    }

    /// The JSON text of this notification.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(40 + self.method.len() + raw_len(self.params.as_ref()));
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
        write_method_and_params(&mut out, &self.method, self.params.as_ref());
        out.into()
    }
}

impl Response {
    /// The JSON text of this response.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.reply.to_bytes(&self.id)
    }
}

impl Reply {
    /// The JSON text of the response that gives this reply to the request `id`.
    #[must_use]
    pub fn to_bytes(&self, id: &RequestId) -> Bytes {
        let (name, value) = match self {
            Self::Result(value) => (r#","result":"#, value),
            Self::Error(value) => (r#","error":"#, value),
        };
        let value = value.as_str();
        // To the byte: bytes with room behind them would be put into an allocation more.
        let room = ENVELOPE.len() + id.json_len() + name.len() + value.len() + 1;
        let mut out = Vec::with_capacity(room);
        out.extend_from_slice(ENVELOPE);
        id.write_json(&mut out);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value.as_bytes());
        out.push(b'}');
        out.into()
    }

    /// Whether this is an error.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// What is wrong with it where no client of MCP can read it: a result is an object, an error has an integer as its code and a text
    /// as its message.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Result(result) => (!result.is_object()).then_some("its result is not an object"),
            Self::Error(error) if error.member("code").is_none_or(|code| code.to::<i64>().is_err()) => {
                Some("its error has no integer as its code")
            }
            Self::Error(error) => {
                let message = error.member("message");
                let is_text = message.is_some_and(|message| message.as_str().starts_with('"'));
                (!is_text).then_some("its error has no text as its message")
            }
        }
    }

    /// The result, or the error in typed form (an error of another shape becomes -32603 with its text).
    ///
    /// # Errors
    /// The peer's error.
    pub fn into_result(self) -> Result<Raw, ErrorObject> {
        match self {
            Self::Result(value) => Ok(value),
            Self::Error(value) => Err(value.to().unwrap_or_else(|_| {
                ErrorObject::internal(
                    "malformed_error",
                    "the peer answered with an error that is not a JSON-RPC error",
                )
                .with_data(&value)
            })),
        }
    }
}

impl From<Result<Raw, ErrorObject>> for Reply {
    fn from(outcome: Result<Raw, ErrorObject>) -> Self {
        match outcome {
            Ok(value) => Self::Result(value),
            Err(error) => error.into(),
        }
    }
}

impl From<ErrorObject> for Reply {
    fn from(error: ErrorObject) -> Self {
        // An integer, a string and raw JSON are always expressible.
        let text = serde_json::to_string(&error)
            .unwrap_or_else(|_| r#"{"code":-32603,"message":"internal error"}"#.into());
        Self::Error(Raw::from_trusted(text.into()))
    }
}

/// The response that says `error` to a request whose id could not be read: `id` is left out.
#[must_use]
pub(crate) fn error_without_id(error: ErrorObject) -> Bytes {
    let (Reply::Error(value) | Reply::Result(value)) = Reply::from(error);
    let mut out = Vec::with_capacity(32 + value.as_str().len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","error":"#);
    out.extend_from_slice(value.as_str().as_bytes());
    out.push(b'}');
    out.into()
}

impl ErrorObject {
    /// The JSON text of the error response to `id`, or without an id where it could not be read (SEMANTICS 1).
    #[must_use]
    pub fn to_response(self, id: Option<&RequestId>) -> Bytes {
        match id {
            Some(id) => Reply::from(self).to_bytes(id),
            None => error_without_id(self),
        }
    }
}

fn raw_len(raw: Option<&Raw>) -> usize {
    raw.map_or(0, |raw| raw.as_str().len())
}

fn write_method_and_params(out: &mut Vec<u8>, method: &str, params: Option<&Raw>) {
    // Writing a string into a vector cannot fail.
    drop(serde_json::to_writer(&mut *out, method));
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params.as_str().as_bytes());
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_client_can_read_is_a_fault() {
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        for (reply, good) in [
            (Reply::Result(raw("{}")), true),
            (Reply::Result(raw("null")), false),
            (Reply::Result(raw("[]")), false),
            (Reply::Result(raw("\"x\"")), false),
            (Reply::Error(raw(r#"{"code":-1,"message":"\ud83d","data":null}"#)), true),
            (Reply::Error(raw(r#"{"code":5}"#)), false),
            (Reply::Error(raw(r#"{"code":"5","message":"x"}"#)), false),
            (Reply::Error(raw(r#"{"code":1.5,"message":"x"}"#)), false),
            (Reply::Error(raw(r#"{"code":1,"message":null}"#)), false),
            (Reply::Error(raw(r#"{"message":"x"}"#)), false),
        ] {
            assert_eq!(reply.fault().is_none(), good, "{reply:?}");
        }
    }

    #[test]
    fn writes_each_kind() {
        let params = Some(Raw::parse(r#"{"a":1}"#).unwrap());
        let request = Request { id: "x\"y".into(), method: "tools/call".into(), params: params.clone() };
        assert_eq!(
            request.to_bytes(),
            r#"{"jsonrpc":"2.0","id":"x\"y","method":"tools/call","params":{"a":1}}"#.as_bytes()
        );
        let note = Notification::new("notifications/x", params);
        assert_eq!(
            note.to_bytes(),
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}"#.as_bytes()
        );
        let reply = Reply::from(ErrorObject::new(-32601, "no"));
        assert_eq!(
            reply.to_bytes(&7.into()),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#.as_bytes()
        );
        assert_eq!(
            ErrorObject::new(-32700, "no").to_response(None),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#.as_bytes()
        );
    }
}
