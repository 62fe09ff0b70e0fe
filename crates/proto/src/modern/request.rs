//! The checks of one modern request, and what it brings of an earlier round.

use super::{RequestMeta, sentinel};
use crate::{
    http::Refusal,
    jsonrpc::{ErrorObject, Raw, Request, code},
};
use http::{HeaderMap, HeaderName, StatusCode};

/// The header that repeats the method.
pub static MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that repeats the name, the URI or the task that a request is about.
pub static MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The methods that only older revisions have. Whoever asks for one is told so before any handler is.
const GONE: &[&str] = &[
    "initialize",
    "logging/setLevel",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
];

/// Checks the metadata and the headers of a request whose revision is known, and whether its method still exists.
///
/// # Errors
/// - 400 with -32602: metadata that is required is missing, or is of another kind; a member of the parameters or of the metadata
///   stands twice.
/// - 400 with -32020: `Mcp-Method` or `Mcp-Name` is missing, or does not say what the body says.
/// - 404 with -32601: a method that only older revisions have.
pub fn check_request(headers: &HeaderMap, request: &Request) -> Result<RequestMeta, Refusal> {
    let refuse = |error: ErrorObject| {
        let status = match error.code {
            code::INVALID_PARAMS => StatusCode::BAD_REQUEST,
            other => status_of(other),
        };
        Refusal::new(status, error).with_id(Some(request.id.clone()))
    };
    let params = request.params.as_ref();
    let meta = RequestMeta::read(params)
        .map_err(|why| refuse(ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {why}"))))?;
    check_headers(headers, &request.method, params)
        .map_err(|why| refuse(ErrorObject::new(code::HEADER_MISMATCH, format!("Header mismatch: {why}"))))?;
    if GONE.contains(&&*request.method) {
        return Err(refuse(ErrorObject::method_not_found(&request.method)));
    }
    Ok(meta)
}

/// The member of the parameters that `Mcp-Name` repeats for `method`; `None` where it repeats nothing.
#[must_use]
pub fn header_name_of(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Whether requests of this method may be answered with questions to the client.
#[must_use]
pub fn takes_input(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// The HTTP status of a plain answer that is an error with this code. Whether parameters are wrong is not a matter of HTTP,
/// unless they are the metadata.
#[must_use]
pub const fn status_of(error_code: i64) -> StatusCode {
    match error_code {
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_REVISION => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

fn check_headers(headers: &HeaderMap, method: &str, params: Option<&Raw>) -> Result<(), String> {
    let said = single(headers, &MCP_METHOD)?.ok_or("Mcp-Method is missing")?;
    if said != method.as_bytes() {
        return Err("Mcp-Method is not the method of the body".into());
    }
    let Some(member) = header_name_of(method) else { return Ok(()) };
    let body = params.and_then(|params| params.member(member)).and_then(|value| value.string());
    let said = single(headers, &MCP_NAME)?.map(sentinel::decode).transpose();
    let said = said.map_err(|why| format!("Mcp-Name: {why}"))?;
    match (said, body) {
        (Some(said), Some(body)) if said == body => Ok(()),
        (Some(_), _) => Err(format!("Mcp-Name is not params.{member} of the body")),
        (None, Some(_)) => Err("Mcp-Name is missing".into()),
        // What is missing in the body is for whoever reads the parameters to say.
        (None, None) => Ok(()),
    }
}

/// The value of a header that may stand once; twice with the same value is once.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, String> {
    let mut found = None;
    for value in headers.get_all(name) {
        let value = value.as_bytes().trim_ascii();
        if found.replace(value).is_some_and(|before| before != value) {
            return Err(format!("{name} has two values"));
        }
    }
    Ok(found)
}

/// What a request brings of an earlier round of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundParams {
    /// The client's answers by key, as they came.
    pub responses: Vec<(String, Raw)>,
    /// What the server left with the client.
    pub state: Option<String>,
}

impl RoundParams {
    /// Reads `inputResponses` and `requestState`. `null` is as if it were absent.
    ///
    /// # Errors
    /// What is of another kind, for the sender.
    pub fn of(params: Option<&Raw>) -> Result<Self, String> {
        // Nearly every request is a first round.
        let Some(params) = params.filter(|params| may_continue(params.as_str())) else {
            return Ok(Self::default());
        };
        let member = |name: &str| params.member(name).filter(|value| value.as_str() != "null");
        let responses = match member("inputResponses") {
            None => Vec::new(),
            Some(value) => value.members().ok_or("inputResponses has to be an object")?,
        };
        let state = match member("requestState") {
            None => None,
            Some(value) => Some(value.string().ok_or("requestState has to be a string")?),
        };
        Ok(Self { responses, state })
    }
}

fn may_continue(text: &str) -> bool {
    text.contains("inputResponses") || text.contains("requestState") || text.contains("\\u00")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modern::meta::{CLIENT_CAPABILITIES, PROTOCOL_VERSION};
    use http::HeaderValue;
    use serde_json::{Value, json};

    fn request(method: &str, mut params: Value) -> Request {
        params["_meta"] = json!({ PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {} });
        Request {
            id: 7.into(),
            method: method.to_owned().into(),
            params: Some(Raw::from_value(&params).unwrap()),
        }
    }

    fn told(lines: &[(&'static str, &str)], request: &Request) -> Result<(), (u16, i64)> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        check_request(&headers, request).map(drop).map_err(|refusal| {
            assert_eq!(refusal.id, Some(7.into()));
            (refusal.status.as_u16(), refusal.error.code)
        })
    }

    #[test]
    fn the_headers_say_what_the_body_says() {
        let mismatch = Err((400, -32020));
        let call = request("tools/call", json!({ "name": "add" }));
        let odd = request("tools/call", json!({ "name": "größe" }));
        let read = request("resources/read", json!({ "uri": "file:///a%20b.txt" }));
        let get = request("prompts/get", json!({ "name": "p" }));
        let task = request("tasks/get", json!({ "taskId": "t1" }));
        let list = request("tools/list", json!({}));
        let nameless = request("tools/call", json!({}));
        let (m_call, m_list) = (("mcp-method", "tools/call"), ("mcp-method", "tools/list"));
        for (lines, request, expected) in [
            (&[m_list][..], &list, Ok(())),
            (&[("mcp-method", " tools/list ")], &list, Ok(())),
            (&[m_list, m_list], &list, Ok(())),
            (&[], &list, mismatch),
            (&[("mcp-method", "TOOLS/LIST")], &list, mismatch),
            (&[m_call], &list, mismatch),
            (&[m_list, m_call], &list, mismatch),
            // A name that nothing of the body stands for is not looked at.
            (&[m_list, ("mcp-name", "x")], &list, Ok(())),
            (&[m_call, ("mcp-name", "add")], &call, Ok(())),
            (&[m_call, ("mcp-name", "  add ")], &call, Ok(())),
            (&[m_call, ("mcp-name", "=?base64?YWRk?=")], &call, Ok(())),
            (&[m_call, ("mcp-name", "=?base64?YWRk")], &call, mismatch),
            (&[m_call, ("mcp-name", "=?base64?YWR?=")], &call, mismatch),
            (&[m_call, ("mcp-name", "ADD")], &call, mismatch),
            (&[m_call, ("mcp-name", "")], &call, mismatch),
            (&[m_call], &call, mismatch),
            (&[m_call, ("mcp-name", "add"), ("mcp-name", "sub")], &call, mismatch),
            (&[m_call, ("mcp-name", "=?base64?Z3LDtsOfZQ==?=")], &odd, Ok(())),
            (&[m_call, ("mcp-name", "größe")], &odd, mismatch),
            (&[m_call], &nameless, Ok(())),
            (&[m_call, ("mcp-name", "add")], &nameless, mismatch),
            (&[("mcp-method", "resources/read"), ("mcp-name", "file:///a%20b.txt")], &read, Ok(())),
            (&[("mcp-method", "resources/read"), ("mcp-name", "file:///a b.txt")], &read, mismatch),
            (&[("mcp-method", "prompts/get"), ("mcp-name", "p")], &get, Ok(())),
            (&[("mcp-method", "prompts/get")], &get, mismatch),
            (&[("mcp-method", "tasks/get"), ("mcp-name", "t1")], &task, Ok(())),
            (&[("mcp-method", "tasks/get"), ("mcp-name", "t2")], &task, mismatch),
        ] {
            assert_eq!(told(lines, request), expected, "{lines:?} {}", request.method);
        }
    }

    #[test]
    fn what_stands_twice_is_refused() {
        let meta = format!(r#"{{"{PROTOCOL_VERSION}":"2026-07-28","{CLIENT_CAPABILITIES}":{{}}}}"#);
        let lines = [("mcp-method", "tools/call"), ("mcp-name", "add")];
        let told = |params: String| {
            let params = Some(Raw::parse(params).unwrap());
            told(&lines, &Request { id: 7.into(), method: "tools/call".into(), params })
        };
        assert_eq!(told(format!(r#"{{"_meta":{meta},"name":"add"}}"#)), Ok(()));
        let twice = Err((400, -32602));
        assert_eq!(told(format!(r#"{{"_meta":{meta},"name":"add","name":"drop"}}"#)), twice);
        assert_eq!(told(format!(r#"{{"_meta":{meta},"name":"add","na\u006de":"drop"}}"#)), twice);
        assert_eq!(told(format!(r#"{{"_meta":{meta},"name":"add","_meta":{{}}}}"#)), twice);
        assert_eq!(
            told(format!(r#"{{"_meta":{meta},"name":"add","arguments":{{}},"arguments":{{}}}}"#)),
            twice
        );
        let meta = meta.replace("{}}", r#"{},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}"#);
        assert_eq!(told(format!(r#"{{"_meta":{meta},"name":"add"}}"#)), twice);
    }

    #[test]
    fn methods_that_are_gone_are_not_found() {
        for method in GONE {
            let lines = [("mcp-method", *method)];
            assert_eq!(told(&lines, &request(method, json!({}))), Err((404, -32601)), "{method}");
        }
    }

    #[test]
    fn the_metadata_is_looked_at_first() {
        let bare = Request { id: 7.into(), method: "server/discover".into(), params: None };
        assert_eq!(told(&[], &bare), Err((400, -32602)));
    }

    #[test]
    fn each_code_has_its_status() {
        for (code, status) in [
            (-32601, 404),
            (-32020, 400),
            (-32021, 400),
            (-32022, 400),
            (-32602, 200),
            (-32603, 200),
            (7, 200),
        ] {
            assert_eq!(status_of(code).as_u16(), status);
        }
    }

    #[test]
    fn an_earlier_round_is_read() {
        let of = |params: Value| RoundParams::of(Some(&Raw::from_value(&params).unwrap()));
        assert_eq!(of(json!({ "name": "x" })), Ok(RoundParams::default()));
        assert_eq!(of(json!({ "inputResponses": null, "requestState": null })), Ok(RoundParams::default()));
        let found = of(json!({ "inputResponses": { "k": { "a": 1 } }, "requestState": "s" })).unwrap();
        assert_eq!(found.state.as_deref(), Some("s"));
        assert_eq!(found.responses, [("k".to_owned(), Raw::parse(r#"{"a":1}"#).unwrap())]);
        assert!(of(json!({ "inputResponses": [] })).is_err());
        assert!(of(json!({ "requestState": 7 })).is_err());
    }
}
