//! What `initialize` is answered.

use bowline_proto::{
    jsonrpc::Raw,
    projection::{project_result, strip_stateless},
    revision::Revision,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The answer to `initialize`, and what it says of the server.
#[derive(Debug)]
pub(crate) struct Welcome {
    /// The `result` of the response.
    pub(crate) result: Raw,
    /// The lists whose changes the server announces, with commas between them.
    pub(crate) lists: String,
}

impl Welcome {
    /// The answer in the words of a revision; `None` where the handler's is no object.
    fn of(said: &Raw, revision: Revision, stateless: bool) -> Option<Self> {
        let version = Raw::from_trusted(format!("\"{revision}\"").into());
        let result = project_result(revision, "initialize", said.with_member("protocolVersion", &version)?);
        let result = if stateless { strip_stateless(result) } else { result };
        let lists = announced(&result).join(",");
        Some(Self { result, lists })
    }
}

fn announced(result: &Raw) -> Vec<&'static str> {
    let Some(capabilities) = result.member("capabilities") else { return Vec::new() };
    let announces = |list: &&'static str| {
        let changes = capabilities.member(list).and_then(|list| list.member("listChanged"));
        changes.is_some_and(|announced| announced.as_str() == "true")
    };
    ["tools", "resources", "prompts"].into_iter().filter(announces).collect()
}

/// The answers that were given last: most servers say the same to everybody, and hand out the same buffer each time.
#[derive(Debug)]
pub(crate) struct Welcomes {
    stateless: bool,
    last: Mutex<Vec<Last>>,
}

/// What a handler said to clients of a revision.
#[derive(Debug)]
struct Last {
    revision: Revision,
    /// Held, so that no other text comes to lie in its place.
    said: Raw,
    welcome: Arc<Welcome>,
}

impl Welcomes {
    pub(crate) const fn new(stateless: bool) -> Self {
        Self { stateless, last: Mutex::new(Vec::new()) }
    }

    /// The answer to a client of `revision`, from what the handler said; `None` where that is no object.
    pub(crate) fn get(&self, revision: Revision, said: &Raw) -> Option<Arc<Welcome>> {
        let mut last = self.last.lock();
        let known = last.iter().position(|last| last.revision == revision);
        if let Some(last) = known.map(|at| &last[at])
            && std::ptr::eq(last.said.as_str(), said.as_str())
        {
            return Some(last.welcome.clone());
        }
        let welcome = Arc::new(Welcome::of(said, revision, self.stateless)?);
        if let Some(at) = known {
            last.swap_remove(at);
        }
        last.push(Last { revision, said: said.clone(), welcome: welcome.clone() });
        Some(welcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_written_once_for_a_revision() {
        let welcomes = Welcomes::new(false);
        let said =
            |lists: &str| Raw::parse(format!(r#"{{"capabilities":{lists},"serverInfo":{{}}}}"#)).unwrap();
        let one = said(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"listChanged":true}}"#,
        );
        let first = welcomes.get(Revision::NEWEST_LEGACY, &one).unwrap();
        assert_eq!(first.lists, "tools,resources");
        assert_eq!(first.result.member("protocolVersion").unwrap().string().unwrap(), "2025-11-25");
        let again = welcomes.get(Revision::NEWEST_LEGACY, &one.clone()).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let older = welcomes.get(Revision::V2025_03_26, &one).unwrap();
        assert_eq!(older.result.member("protocolVersion").unwrap().string().unwrap(), "2025-03-26");
        let other = welcomes.get(Revision::NEWEST_LEGACY, &said("{}")).unwrap();
        assert_eq!(other.lists, "");
        let back = welcomes.get(Revision::NEWEST_LEGACY, &one).unwrap();
        assert_eq!((back.lists.as_str(), welcomes.last.lock().len()), ("tools,resources", 2));
        assert!(welcomes.get(Revision::NEWEST_LEGACY, &Raw::parse("[]").unwrap()).is_none());
    }
}
