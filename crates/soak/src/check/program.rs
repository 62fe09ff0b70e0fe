//! What is promised of the program: what it holds stays the same, its numbers agree, and nothing is left of it.

use super::story::Story;
use crate::journal::{How, Phase, Sample};

/// What memory may grow by in the second half of a run, in KiB a minute, as a line through the samples has it. Under this load the
/// allocator keeps what the largest results of the last minutes have needed, so that memory goes up and down by 10 MiB; 200 bytes that
/// leaked with each call would be about this much.
pub(super) const RSS_SLOPE: f64 = 256.0;

/// A line through less than so many minutes says nothing; then only the whole counts.
const SLOPE_MINUTES: f64 = 5.0;

/// What the program may have beyond what it had before there was load, in KiB, in a run of any length.
pub(super) const RSS_MOST: u64 = 300 * 1024;

/// Looks at the samples, the end, and the numbers; `say` takes what is wrong.
pub(super) fn check(story: &Story, say: &mut impl FnMut(String)) {
    memory(story, say);
    flat(story, "descriptors", |sample| sample.fds, say);
    flat(story, "processes of the tool", |sample| sample.children, say);
    numbers(story, say);
    match &story.left {
        None => say("the run has no end".into()),
        Some((left, exit)) => {
            if !left.is_empty() {
                say(format!("10 s after the end there was still {left:?}"));
            }
            if *exit != Some(0) {
                say(format!("the program ended with {exit:?}"));
            }
        }
    }
}

/// The samples under load.
pub(super) fn under_load(story: &Story) -> Vec<&(u64, Sample)> {
    story.samples.iter().filter(|(_, sample)| sample.phase == Phase::Load).collect()
}

/// The slope of memory over the second half, in KiB a minute, and the minutes that it is from.
pub(super) fn slope(story: &Story) -> Option<(f64, f64)> {
    let load = under_load(story);
    let half = &load[load.len() / 2..];
    let (first, last) = (half.first()?, half.last()?);
    let points: Vec<(f64, f64)> =
        half.iter().map(|(t, sample)| ((*t - first.0) as f64 / 60_000.0, sample.rss_kib as f64)).collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
        (above + (point.0 - x) * (point.1 - y), below + (point.0 - x).powi(2))
    });
    (below > 0.0).then(|| (above / below, (last.0 - first.0) as f64 / 60_000.0))
}

fn memory(story: &Story, say: &mut impl FnMut(String)) {
    match slope(story) {
        Some((slope, minutes)) if minutes >= SLOPE_MINUTES && slope > RSS_SLOPE => {
            say(format!(
                "memory grew by {slope:.0} KiB a minute in the last {minutes:.0} minutes; {RSS_SLOPE} may be"
            ));
        }
        _ => {}
    }
    let warm = story.samples.iter().find(|(_, sample)| sample.phase == Phase::Warm);
    let most = story.samples.iter().map(|(_, sample)| sample.rss_kib).max();
    match (warm, most) {
        (Some((_, warm)), Some(most)) if most > warm.rss_kib + RSS_MOST => {
            say(format!("memory went from {} KiB to {most} KiB", warm.rss_kib));
        }
        (Some(_), Some(_)) => {}
        _ => say("nobody has looked at the program".into()),
    }
}

/// The mean of the last quarter may not be far above that of the second.
fn flat(story: &Story, what: &str, of: impl Fn(&Sample) -> u64, say: &mut impl FnMut(String)) {
    let load = under_load(story);
    let quarter = load.len() / 4;
    if quarter < 3 {
        return;
    }
    let mean = |part: &[&(u64, Sample)]| {
        part.iter().map(|(_, sample)| of(sample) as f64).sum::<f64>() / part.len() as f64
    };
    let (before, after) = (mean(&load[quarter..quarter * 2]), mean(&load[load.len() - quarter..]));
    if after > before * 1.3 + 20.0 {
        say(format!("{what} went from {before:.0} to {after:.0}"));
    }
}

/// Gauges are back at 0, and counters agree with what the clients saw.
fn numbers(story: &Story, say: &mut impl FnMut(String)) {
    let Some((_, end)) = story.samples.iter().rfind(|(_, sample)| sample.phase == Phase::End) else {
        return say("nobody has looked at the program at the end".into());
    };
    for gauge in [
        "sessions",
        "calls",
        "streams_open",
        "calls_parked",
        "calls_streaming",
        "results_waiting",
        "children",
        "gateway_sessions",
        "handshakes",
    ] {
        match end.metrics.get(gauge) {
            Some(0) => {}
            other => say(format!("at the end {gauge} is {other:?}")),
        }
    }
    if end.children > 0 {
        say(format!("at the end there are {} processes of the tool", end.children));
    }
    let calls = story.calls.values();
    let ended = |wanted: fn(&How) -> bool| {
        calls.clone().flat_map(|call| &call.ends).filter(|(_, how)| wanted(how)).count() as u64
    };
    let results = ended(|how| matches!(how, How::Result { .. }));
    let refused = ended(|how| matches!(how, How::Refused { .. }));
    let finished = calls.clone().filter(|call| !call.finishes.is_empty()).count() as u64;
    let get = |name: &str| end.metrics.get(name).copied().unwrap_or_default();
    let killed = story.child_kills.len() as u64;
    for (what, at_least, counted) in [
        ("sessions_opened", story.opened, get("sessions_opened")),
        ("calls_succeeded", results, get("calls_succeeded")),
        ("refused", refused, get("refused")),
        ("children_started", story.opened, get("children_started")),
    ] {
        if counted < at_least {
            say(format!("{what} is {counted}, but clients have seen {at_least}"));
        }
    }
    if get("children_died") > killed {
        say(format!("children_died is {}, but {killed} were killed", get("children_died")));
    }
    if get("panics") > 0 {
        say(format!("{} handlers panicked", get("panics")));
    }
    // What was never written by the tool cannot have been counted as a result: handshakes and pings do not count as calls.
    if results > finished {
        say(format!("{results} results came, and {finished} calls ran to their end"));
    }
    // Progress may be dropped or coalesced at a bound, and is counted then (SEMANTICS 5.7).
    let missing: u64 = calls
        .filter(|call| call.ends.iter().any(|(_, how)| matches!(how, How::Result { .. })))
        .filter_map(|call| {
            let distinct: std::collections::BTreeSet<_> = call.progress.iter().map(|(.., n)| n).collect();
            Some(call.sent.as_ref()?.plan.progress.saturating_sub(distinct.len() as u64))
        })
        .sum();
    let counted = get("events_dropped") + get("events_coalesced");
    if missing > counted {
        say(format!(
            "{missing} notifications of progress are missing, but {counted} were dropped or coalesced"
        ));
    }
}
