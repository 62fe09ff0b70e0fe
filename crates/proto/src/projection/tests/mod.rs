//! One row for every decision of the module's table, and properties that hold for any JSON.

mod properties;
mod requests;
mod results;
mod tables;

use super::*;

const ALL: [Revision; 4] = Revision::LEGACY;
const V24: Revision = Revision::V2024_11_05;
const V25_03: Revision = Revision::V2025_03_26;
const V25_06: Revision = Revision::V2025_06_18;
const V25_11: Revision = Revision::V2025_11_25;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

fn result(revision: Revision, method: &str, text: &str) -> String {
    project_result(revision, method, raw(text)).as_str().to_owned()
}

/// The text of `before` for each revision, oldest first.
#[track_caller]
fn rows(project: impl Fn(Revision, &str) -> String, before: &str, after: [&str; 4]) {
    for (revision, after) in ALL.into_iter().zip(after) {
        assert_eq!(project(revision, before), after, "for {revision}");
    }
}

/// As [`rows`], for a part of a result that stands in `around` at `@`.
#[track_caller]
fn within(method: &str, around: &str, before: &str, after: [&str; 4]) {
    let full = |inner: &str| around.replace('@', inner);
    let after = after.map(full);
    rows(
        |revision, text| result(revision, method, text),
        &full(before),
        after.each_ref().map(|text| &**text),
    );
}
