//! The metadata that every modern request carries in `params._meta`.

use super::{LogLevel, trace::TraceContext};
use crate::jsonrpc::Raw;

/// The key of the revision that a request speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of what the client can be asked.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The key of the client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The key of the least severe level of log messages that the client wants.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The key of the server's name and version, in a result.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The key of the listening request that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// All keys that this revision gave a meaning. Others below `io.modelcontextprotocol/` are older, or belong to extensions.
pub(crate) const ALL: [&str; 6] =
    [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID];

/// What a request says of its client and of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMeta {
    /// What the client can be asked, an object.
    pub capabilities: Raw,
    /// The client's name and version, an object, where it says.
    pub client_info: Option<Raw>,
    /// From which level on the client wants log messages of this request; without it none.
    pub log_level: Option<LogLevel>,
    /// Which trace the request belongs to.
    pub trace: TraceContext,
}

impl RequestMeta {
    /// Reads the metadata of a request. The revision has been looked at before.
    ///
    /// # Errors
    /// What is missing or of another kind, for the sender.
    pub fn read(params: Option<&Raw>) -> Result<Self, String> {
        let meta = params.and_then(|params| params.member("_meta"));
        let meta = meta.filter(Raw::is_object).ok_or("params._meta is missing, or no object")?;
        // A server behind a gateway may take the other one than what was checked here, and by whoever trusts the headers.
        for (object, whose) in [(params, "params"), (Some(&meta), "params._meta")] {
            if let Some(name) = object.and_then(Raw::repeated_member) {
                let name: String = name.chars().take(64).collect();
                return Err(format!("the member {name:?} of {whose} stands twice"));
            }
        }
        let object = |key: &str| match meta.member(key) {
            Some(value) if value.is_object() => Ok(Some(value)),
            Some(_) => Err(format!("_meta[\"{key}\"] has to be an object")),
            None => Ok(None),
        };
        if meta.member(PROTOCOL_VERSION).is_none() {
            return Err(format!("_meta[\"{PROTOCOL_VERSION}\"] is missing"));
        }
        let capabilities = object(CLIENT_CAPABILITIES)?
            .ok_or_else(|| format!("_meta[\"{CLIENT_CAPABILITIES}\"] is missing"))?;
        let client_info = object(CLIENT_INFO)?;
        let log_level = match meta.member(LOG_LEVEL) {
            None => None,
            Some(level) => Some(
                level
                    .string()
                    .and_then(|name| LogLevel::from_wire(&name))
                    .ok_or_else(|| format!("_meta[\"{LOG_LEVEL}\"] is no log level"))?,
            ),
        };
        Ok(Self { capabilities, client_info, log_level, trace: TraceContext::read(&meta) })
    }

    /// The parameters of an `initialize` that would say the same of the client: what handlers look at in either era.
    #[must_use]
    pub fn as_initialize(&self, revision: crate::revision::Revision) -> Raw {
        let mut members = vec![
            ("protocolVersion", Raw::from_trusted(format!("\"{revision}\"").into())),
            ("capabilities", self.capabilities.detached()),
        ];
        members.extend(self.client_info.as_ref().map(|info| ("clientInfo", info.detached())));
        Raw::from_members(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::Revision;
    use serde_json::{Value, json};

    fn read(meta: &Value) -> Result<RequestMeta, String> {
        RequestMeta::read(Some(&Raw::from_value(&json!({ "_meta": meta })).unwrap()))
    }

    fn with(key: &str, value: Value) -> Value {
        let mut meta = json!({ PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {} });
        meta[key] = value;
        meta
    }

    #[test]
    fn what_is_required_has_to_be_there() {
        assert!(RequestMeta::read(None).is_err());
        assert!(RequestMeta::read(Some(&Raw::empty_object())).is_err());
        for (meta, named) in [
            (json!(7), "params._meta"),
            (json!({}), PROTOCOL_VERSION),
            (json!({ PROTOCOL_VERSION: "2026-07-28" }), CLIENT_CAPABILITIES),
            (with(CLIENT_CAPABILITIES, json!([])), CLIENT_CAPABILITIES),
            (with(CLIENT_INFO, json!("me")), CLIENT_INFO),
            (with(LOG_LEVEL, json!("loud")), LOG_LEVEL),
            (with(LOG_LEVEL, json!(3)), LOG_LEVEL),
        ] {
            assert!(read(&meta).unwrap_err().contains(named), "{meta}");
        }
    }

    #[test]
    fn what_a_client_says_of_itself_is_read() {
        let mut meta = with(LOG_LEVEL, json!("warning"));
        meta[CLIENT_INFO] = json!({ "name": "c", "version": "1" });
        meta[CLIENT_CAPABILITIES] = json!({ "sampling": {} });
        let found = read(&meta).unwrap();
        assert_eq!(found.log_level, Some(LogLevel::Warning));
        assert_eq!(
            found.as_initialize(Revision::V2026_07_28).to::<Value>().unwrap(),
            json!({
                "protocolVersion": "2026-07-28",
                "capabilities": { "sampling": {} },
                "clientInfo": { "name": "c", "version": "1" },
            })
        );
        let found = read(&with("x", json!(1))).unwrap();
        assert_eq!((found.client_info, found.log_level), (None, None));
    }
}
