//! What one revision added to the one before it, as each file in `revision/` states it.

use super::{Fields, Part};
use crate::jsonrpc::Raw;

/// What a revision introduced, and how it is taken away for a peer that speaks an older one.
///
/// Members that are gone again in a later revision (batches) are matters of the transport and stand in
/// [`Features`](crate::revision::Features).
pub(crate) struct Introduced {
    /// Fields, by the object that has them. Removed, after [`Self::remake`] has had a look at them.
    pub(crate) fields: &'static [(Part, &'static [&'static str])],
    /// Kinds of content. Turned into text.
    pub(crate) kinds: &'static [Kind],
    /// Requests and notifications. Not sent.
    pub(crate) methods: &'static [&'static str],
    /// Why a request or notification of an older method cannot be said without this revision, if it cannot.
    pub(crate) refuse: fn(&str, &Raw) -> Option<&'static str>,
    /// Gives an object the nearest form that older revisions have.
    pub(crate) remake: fn(Part, &mut Fields),
}

/// A kind of content.
pub(crate) struct Kind {
    /// Its `type`.
    pub(crate) name: &'static str,
    /// Where it may stand.
    pub(crate) at: &'static [Part],
    /// The nearest text.
    pub(crate) as_text: fn(&Fields) -> String,
}

impl Introduced {
    /// A revision that added nothing.
    pub(crate) const NOTHING: Self =
        Self { fields: &[], kinds: &[], methods: &[], refuse: |_, _| None, remake: |_, _| () };

    /// The fields that were added to `part`.
    pub(crate) fn fields_of(&self, part: Part) -> impl Iterator<Item = &'static str> + use<> {
        self.fields.iter().filter(move |(of, _)| *of == part).flat_map(|(_, names)| names.iter().copied())
    }
}
