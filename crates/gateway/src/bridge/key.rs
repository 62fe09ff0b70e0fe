//! What modern clients that share processes have in common.

use bowline_proto::jsonrpc::Raw;
use bowline_proto::projection::introduction_for_legacy;
use bowline_proto::revision::Revision;
use bowline_server::Peer;

use crate::shared::own_info;

/// Who a client is and what it says of itself. Where nobody has to say who it is, all are the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    principal: Option<Box<str>>,
    /// Its capabilities and its name, members in order.
    says: Box<str>,
}

impl Key {
    pub(super) fn of(peer: &Peer) -> Self {
        let says = peer.initialize_params().to::<serde_json::Value>().unwrap_or_default();
        Self { principal: peer.principal().map(Into::into), says: says.to_string().into() }
    }

    /// Who it is, where clients have to say so.
    pub(super) fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }
}

/// The parameters of `initialize` that say what the client says of itself.
pub(super) fn hello(peer: &Peer) -> Raw {
    let revision = Revision::NEWEST_LEGACY;
    let version = Raw::from_trusted(format!("\"{revision}\"").into());
    let said = peer.initialize_params();
    let mut hello = said.with_member("protocolVersion", &version).unwrap_or_else(Raw::empty_object);
    if hello.member("clientInfo").is_none() {
        hello = hello.with_member("clientInfo", &own_info()).unwrap_or(hello);
    }
    introduction_for_legacy(hello).detached()
}

/// Whether the client can be asked anything at all.
pub(super) fn can_be_asked(peer: &Peer) -> bool {
    let capabilities = peer.initialize_params().member("capabilities");
    ["sampling", "elicitation", "roots"]
        .iter()
        .any(|name| capabilities.as_ref().is_some_and(|all| all.member(name).is_some()))
}
