//! The checker: reads what everybody wrote down, and says what promise was broken.

mod calls;
mod excuses;
mod figures;
mod program;
mod story;
#[cfg(test)]
mod tests;

pub use figures::figures;

use self::story::Story;
use crate::{
    journal::{How, Intent, Line, session_of},
    options::Tempo,
};
use std::collections::BTreeMap;

/// Not more than so many things are said.
const MOST_SAID: usize = 200;

/// Of so many calls that a kind of client wants the results of, half have to have one: else there is an excuse for all of them, and the
/// excuse is what is wrong.
const ENOUGH_CALLS: usize = 10;

/// Looks at each kind of client as a whole.
fn kinds(story: &Story, say: &mut impl FnMut(String)) {
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, call) in &story.calls {
        let wanted = call.sent.as_ref().is_some_and(|sent| sent.intent == Intent::Finish);
        if wanted && let Some((_, how)) = call.ends.first() {
            let kind = kinds.entry(name.split('-').next().unwrap_or_default()).or_default();
            kind.0 += 1;
            kind.1 += usize::from(matches!(how, How::Result { .. }));
        }
    }
    for (kind, (calls, results)) in kinds {
        if calls >= ENOUGH_CALLS && results * 2 < calls {
            say(format!("of {calls} calls of clients {kind} only {results} had a result"));
        }
    }
}

/// Everything that is wrong in the journals of a run, in no order. Empty: every promise was kept.
#[must_use]
pub fn check(lines: &[Line], tempo: &Tempo) -> Vec<String> {
    let story = Story::of(lines);
    let mut wrong = Vec::new();
    let mut count = 0_usize;
    let mut say = |what: String| {
        count += 1;
        if wrong.len() < MOST_SAID {
            wrong.push(what);
        }
    };
    calls::check(&story, tempo, &mut say);
    kinds(&story, &mut say);
    program::check(&story, &mut say);
    for (session, of, what) in &story.heard {
        if session_of(of) != session {
            say(format!("{session}: {what} of another session came: {of}"));
        }
    }
    for status in &story.probes {
        if !matches!(status, 404 | 429 | 503) {
            say(format!("somebody used a session that is not his: {status}"));
        }
    }
    for (session, idle_ms) in &story.gone {
        if *idle_ms < tempo.session_ttl {
            say(format!("{session}: gone after {idle_ms} ms; it lives {} ms", tempo.session_ttl));
        }
    }
    for what in &story.odd {
        say(what.clone());
    }
    if story.calls.is_empty() {
        say("nobody has called".into());
    }
    if count > wrong.len() {
        wrong.push(format!("and {} more", count - wrong.len()));
    }
    wrong
}
