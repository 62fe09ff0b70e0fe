//! Roots: the folders that the client works in.

use super::{Question, WireQuestion};
use bowline_proto::jsonrpc::Raw;
use serde::Deserialize;

/// Asks for the client's roots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roots;

/// One root.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// Its URI, `file://...`.
    pub uri: String,
    /// What it is called.
    pub name: Option<String>,
}

#[derive(Deserialize)]
struct WireAnswer {
    roots: Vec<Root>,
}

impl Question for Roots {
    type Answer = Vec<Root>;

    fn wire(&self) -> Result<WireQuestion, String> {
        Ok(WireQuestion { method: "roots/list", params: Raw::empty_object(), needs: &["roots"] })
    }

    fn read(&self, result: &Raw) -> Result<Vec<Root>, String> {
        result.to::<WireAnswer>().map(|answer| answer.roots).map_err(|error| error.to_string())
    }
}
