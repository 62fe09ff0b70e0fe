//! What the host is told of the server: as it is, or in its place.

use super::words::Words;
use crate::{List, Peer, call::text};
use bowline_proto::{jsonrpc::Raw, revision::Revision};

/// What a server says of itself that nobody has seen yet: it may have everything.
pub(super) fn stand_in(told: Revision) -> Raw {
    let everything = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#;
    Raw::from_members([
        ("protocolVersion", text(told.as_str())),
        ("capabilities", Raw::from_trusted(everything.into())),
        ("serverInfo", Raw::from_trusted(r#"{"name":"bowline (the server is away)","version":"0"}"#.into())),
    ])
}

/// The empty list that `method` asks for.
pub(super) fn empty_list(method: &str) -> Option<Raw> {
    let empty = match method {
        "tools/list" => r#"{"tools":[]}"#,
        "prompts/list" => r#"{"prompts":[]}"#,
        "resources/list" => r#"{"resources":[]}"#,
        "resources/templates/list" => r#"{"resourceTemplates":[]}"#,
        _ => return None,
    };
    Some(Raw::from_trusted(empty.into()))
}

/// What the host is told of the server, in the revision `told`, if that is one that is known here. The server may be replaced by another
/// one at any time, so that every list may change.
pub(super) fn host_result(peer: &Peer, told: Option<Revision>, asked: &str) -> Raw {
    let mut capabilities = peer.capabilities.clone();
    for list in List::ALL {
        let changing = capabilities.member(list.capability());
        let changing =
            changing.and_then(|list| list.with_member("listChanged", &Raw::from_trusted("true".into())));
        if let Some(changed) = changing.and_then(|value| capabilities.with_member(list.capability(), &value))
        {
            capabilities = changed;
        }
    }
    let revision = if peer.modern { Revision::negotiate(asked).as_str() } else { &peer.revision };
    let unnamed = || Raw::from_trusted(r#"{"name":"unnamed","version":"0"}"#.into());
    let mut members = vec![
        ("protocolVersion", text(revision)),
        ("capabilities", capabilities),
        ("serverInfo", peer.server_info.clone().unwrap_or_else(unnamed)),
    ];
    if let Some(instructions) = &peer.instructions {
        members.push(("instructions", text(instructions)));
    }
    let result = Raw::from_members(members);
    // It says no kind, so that it is an end.
    Words::between(peer, told).result("initialize", result.clone()).unwrap_or(result)
}
