//! The one way through a message: each object is shown to the revisions that the receiver lacks, newest first.

use super::{
    Fields, Held, Introduced, Part,
    fields::{change_each, elements},
    text,
};
use crate::{jsonrpc::Raw, revision::Revision};

/// From whom to whom.
#[derive(Clone, Copy, Debug)]
struct Way {
    author: Revision,
    receiver: Revision,
}

impl Way {
    /// What the author may have used and the receiver lacks, newest first.
    fn lacking(self) -> impl Iterator<Item = &'static Introduced> {
        between(self.receiver, self.author)
    }
}

fn between(receiver: Revision, author: Revision) -> impl Iterator<Item = &'static Introduced> {
    let later = Revision::ALL.into_iter().rev().skip_while(move |revision| *revision > author);
    later.take_while(move |revision| *revision > receiver).map(Revision::introduced)
}

/// What `receiver` lacks of the newest legacy revision, newest first.
pub(super) fn newer_than(receiver: Revision) -> impl Iterator<Item = &'static Introduced> {
    between(receiver, Revision::NEWEST_LEGACY)
}

/// `value`, a `part` in the words of the newest legacy revision, made fit for `receiver`. Where nothing has to change it is the same
/// text, not written again.
pub(super) fn fit(receiver: Revision, part: Part, value: Raw) -> Raw {
    fit_from(Revision::NEWEST_LEGACY, receiver, part, value)
}

/// The same for a `value` in the words of `author`.
pub(super) fn fit_from(author: Revision, receiver: Revision, part: Part, value: Raw) -> Raw {
    let way = Way { author, receiver };
    if receiver >= author
        || (part.only_fields() && !author.is_modern() && !may_concern(way, part, value.as_str()))
    {
        return value;
    }
    changed(way, part, &value).unwrap_or(value)
}

/// Whether `text` has the name of a field that the receiver lacks. An escape may hide one.
fn may_concern(way: Way, part: Part, text: &str) -> bool {
    text.contains("\\u") || has_later_field(way, part, text)
}

fn has_later_field(way: Way, part: Part, text: &str) -> bool {
    way.lacking()
        .flat_map(|revision| revision.fields_of(part))
        .any(|name| memchr::memmem::find(text.as_bytes(), format!("\"{name}\"").as_bytes()).is_some())
        || part.children().iter().any(|(_, _, child)| has_later_field(way, *child, text))
}

/// What becomes of `value`; `None` where it can stay. Goes only as deep as parts are nested.
fn changed(way: Way, part: Part, value: &Raw) -> Option<Raw> {
    let mut fields = Fields::of(value)?;
    if part.is_content() && !knows_kind(way.receiver, part, &fields) {
        let text = text::of_block(&fields);
        fields.become_text(&text);
    }
    for revision in way.lacking() {
        (revision.remake)(part, &mut fields);
        for name in revision.fields_of(part) {
            fields.remove(name);
        }
    }
    for &(name, held, child) in part.children() {
        let one = |value: &Raw| changed(way, child, value);
        fields.update(name, |value| match held {
            Held::One => one(value),
            Held::Each => change_each(value, one),
            Held::OneOrEach => {
                if value.is_object() {
                    one(value)
                } else {
                    change_each(value, one)
                }
            }
            Held::Values => {
                let mut values = Fields::of(value)?;
                values.update_where(|_| true, one);
                values.into_changed()
            }
        });
    }
    fields.into_changed()
}

fn knows_kind(receiver: Revision, part: Part, block: &Fields) -> bool {
    let Some(kind) = block.text("type") else { return false };
    Revision::ALL
        .into_iter()
        .take_while(|revision| *revision <= receiver)
        .flat_map(|revision| revision.introduced().kinds)
        .any(|known| known.name == kind && known.at.contains(&part))
}

/// Whether `value` is nothing: absent, `null` or an array without elements.
pub(crate) fn is_empty(value: Option<&Raw>) -> bool {
    value.is_none_or(|value| {
        value.as_str().trim_ascii() == "null" || elements(value).is_some_and(|found| found.is_empty())
    })
}
