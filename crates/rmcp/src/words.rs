//! Messages in rmcp's types and in ours.

use bowline_proto::jsonrpc::{ErrorObject, Message, Raw, code, parse_message};
use bowline_proto::revision::Revision;
use bytes::Bytes;
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, GetExtensions as _, InitializeRequestParams, JsonRpcMessage,
        RequestId, ServerJsonRpcMessage,
    },
    service::OriginatingRequestId,
};
use serde_json::json;

/// The requests that rmcp has a type for. With parameters that do not fit, it takes one for a request that it does not know.
const KNOWN: [&str; 13] = [
    "initialize",
    "ping",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "tools/call",
    "tools/list",
];

/// A message for rmcp.
///
/// # Errors
/// When its parameters do not fit its method.
pub(crate) fn to_rmcp(message: &[u8]) -> Result<ClientJsonRpcMessage, ErrorObject> {
    let message: ClientJsonRpcMessage = serde_json::from_slice(message).map_err(|error| {
        ErrorObject::new(code::INVALID_REQUEST, format!("rmcp cannot read this message: {error}"))
    })?;
    if let JsonRpcMessage::Request(request) = &message
        && let ClientRequest::CustomRequest(request) = &request.request
        && KNOWN.contains(&request.method.as_str())
    {
        let text = format!("the parameters of {} are not what the method takes", request.method);
        return Err(ErrorObject::new(code::INVALID_PARAMS, text));
    }
    Ok(message)
}

/// A message of rmcp's.
///
/// # Errors
/// When it is too deep, or holds what JSON cannot say.
pub(crate) fn from_rmcp(message: &ServerJsonRpcMessage) -> Result<Message, String> {
    let bytes = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    parse_message(Bytes::from(bytes)).map_err(|error| error.to_string())
}

/// The id of our request in whose handler rmcp's request was made, where rmcp knows.
pub(crate) fn origin(message: &ServerJsonRpcMessage) -> Option<u64> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let OriginatingRequestId(id) = request.request.extensions().get()?;
    our_id(id)
}

/// The id of our request that is answered, and whether rmcp asks something itself under this id.
pub(crate) const fn id_of(message: &ServerJsonRpcMessage) -> Option<(&RequestId, bool)> {
    match message {
        JsonRpcMessage::Response(response) => Some((&response.id, false)),
        JsonRpcMessage::Error(error) => match &error.id {
            Some(id) => Some((id, false)),
            None => None,
        },
        JsonRpcMessage::Request(request) => Some((&request.id, true)),
        JsonRpcMessage::Notification(_) => None,
    }
}

pub(crate) fn our_id(id: &RequestId) -> Option<u64> {
    match id {
        RequestId::Number(id) => u64::try_from(*id).ok(),
        RequestId::String(_) => None,
    }
}

/// The parameters of `initialize` as rmcp reads them: with the negotiated revision, and with what it insists on and a
/// client may have left out.
pub(crate) fn hello(params: &Raw, revision: Revision) -> Raw {
    let mut hello = if params.is_object() { params.clone() } else { Raw::empty_object() };
    let profile = Raw::from_trusted(profile(revision).to_string().into());
    for name in ["protocolVersion", "capabilities", "clientInfo"] {
        let given = hello.member(name).is_some_and(|given| given.is_object());
        if let (false, Some(value)) = (given, profile.member(name)) {
            hello = hello.with_member(name, &value).unwrap_or(hello);
        }
    }
    hello
}

/// A client that says nothing of itself.
pub(crate) fn anybody(revision: Revision) -> Option<InitializeRequestParams> {
    serde_json::from_value(profile(revision)).ok()
}

fn profile(revision: Revision) -> serde_json::Value {
    json!({ "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": { "name": "unknown", "version": "" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn hello_has_what_rmcp_insists_on_and_keeps_what_was_said() {
        let full = r#"{"protocolVersion":"1999","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"2"},"x":1}"#;
        for (said, name) in [(full, "c"), ("{}", "unknown"), ("null", "unknown")] {
            let hello: InitializeRequestParams = hello(&raw(said), Revision::NEWEST_LEGACY).to().unwrap();
            assert_eq!(hello.protocol_version.as_str(), Revision::NEWEST_LEGACY.as_str());
            assert_eq!(hello.client_info.name, name);
            assert_eq!(hello.capabilities.roots.is_some(), name == "c");
        }
        assert!(anybody(Revision::NEWEST_LEGACY).is_some());
    }

    #[test]
    fn parameters_that_do_not_fit_are_no_unknown_method() {
        let error = |method: &str, params: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            to_rmcp(text.as_bytes()).err().map(|error| error.code)
        };
        assert_eq!(error("tools/call", r#"{"name":"x"}"#), None);
        assert_eq!(error("tools/call", r#"{"name":7}"#), Some(code::INVALID_PARAMS));
        assert_eq!(error("resources/read", "{}"), Some(code::INVALID_PARAMS));
        assert_eq!(error("x/custom", r#"{"name":7}"#), None);
    }

    #[test]
    fn every_known_request_has_a_type() {
        let params = r#"{"name":"a","uri":"a:b","level":"info","ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        for method in KNOWN {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            assert!(to_rmcp(text.as_bytes()).is_ok(), "{method}");
        }
    }
}
