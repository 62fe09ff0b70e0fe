//! What a run was, in numbers.

use super::{program, story::Story};
use crate::journal::{FaultKind, How, Line, Phase};
use std::{collections::BTreeMap, fmt::Write as _};

/// A page for people.
#[must_use]
pub fn figures(lines: &[Line]) -> String {
    let story = Story::of(lines);
    let mut text = String::new();
    let calls = story.calls.len();
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut groups: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let (mut direct, mut resumed) = (Vec::new(), Vec::new());
    for (name, call) in &story.calls {
        let Some(sent) = &call.sent else { continue };
        let group = groups.entry(name.split('-').next().unwrap_or_default()).or_default();
        group.0 += 1;
        let Some((at, how)) = call.ends.first() else {
            *ends.entry("client killed".into()).or_default() += 1;
            continue;
        };
        *ends.entry(kind(how)).or_default() += 1;
        if !matches!(how, How::Result { .. }) {
            continue;
        }
        group.1 += 1;
        let (Some((start, _)), Some(finish)) = (call.starts.first(), call.finishes.first()) else { continue };
        let overhead = at.saturating_sub(sent.t).saturating_sub(finish.saturating_sub(*start));
        let disturbed = story.faults_between(name, sent.t, *at).next().is_some();
        if call.resumes > 0 {
            resumed.push(overhead);
        } else if !disturbed && finish - start < 2_000 {
            direct.push(overhead);
        }
    }
    let _ = writeln!(text, "calls     {calls} in {} sessions", story.opened);
    for (how, count) in &ends {
        let _ = writeln!(text, "          {count:>7} {how}");
    }
    for (group, (calls, results)) in &groups {
        let _ = writeln!(text, "clients   {group:7} {calls:>7} calls, {results} results");
    }
    let runs: usize = story.calls.values().map(|call| call.starts.len()).sum();
    let progress: usize = story.calls.values().map(|call| call.progress.len()).sum();
    let resumes: u64 = story.calls.values().map(|call| call.resumes).sum();
    let _ = writeln!(text, "ledger    {runs} runs");
    let _ = writeln!(text, "seen      {progress} progress, {} questions and log messages", story.heard.len());
    let _ = writeln!(text, "resumes   {resumes} by raw clients");
    let mut faults: BTreeMap<FaultKind, u64> = BTreeMap::new();
    for fault in story.faults.values().flatten() {
        *faults.entry(fault.kind).or_default() += 1;
    }
    for (kind, count) in &faults {
        let _ = writeln!(text, "network   {count:>7} {kind:?}");
    }
    let _ = writeln!(
        text,
        "killed    {} processes of the tool, {} of clients",
        story.child_kills.len(),
        story.client_kills.len() / 2
    );
    let _ = writeln!(
        text,
        "others    {} tried what is not theirs, {} sessions expired",
        story.probes.len(),
        story.gone.len()
    );
    for (what, mut times) in [("direct", direct), ("resumed", resumed)] {
        times.sort_unstable();
        if let (Some(p50), Some(p99)) = (percentile(&times, 50), percentile(&times, 99)) {
            let _ = writeln!(text, "overhead  {what}: p50 {p50} ms, p99 {p99} ms, of {} calls", times.len());
        }
    }
    text + &program(&story)
}

fn program(story: &Story) -> String {
    let mut text = String::new();
    let load = program::under_load(story);
    let rss = |at: usize| load.get(at).map_or(0, |(_, sample)| sample.rss_kib);
    let warm = story.samples.iter().find(|(_, sample)| sample.phase == Phase::Warm);
    let warm_rss = warm.map_or(0, |(_, sample)| sample.rss_kib);
    let end = story.samples.last();
    let _ = writeln!(
        text,
        "memory    {warm_rss} KiB before load, {} early, {} in the middle, {} late, {} at the end",
        rss(load.len() / 20),
        rss(load.len() / 2),
        rss(load.len().saturating_sub(1)),
        end.map_or(0, |(_, sample)| sample.rss_kib),
    );
    if let Some((slope, minutes)) = program::slope(story) {
        let _ = writeln!(text, "          {slope:+.1} KiB a minute over the last {minutes:.1} minutes");
    }
    for (what, of) in [
        ("descriptors", (|sample| sample.fds) as fn(&crate::journal::Sample) -> u64),
        ("children", |sample| sample.children),
    ] {
        let values: Vec<u64> = load.iter().map(|(_, sample)| of(sample)).collect();
        let half = values.len() / 2;
        let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
        let (first, second, most) =
            (mean(&values[..half]), mean(&values[half..]), values.iter().max().copied());
        let _ = writeln!(
            text,
            "{what:11} mean {first:.0} in the first half, {second:.0} in the second, at most {}",
            most.unwrap_or_default()
        );
    }
    if let (Some((first, warm)), Some((last, end))) = (warm, load.last()) {
        let share = (end.cpu_ms - warm.cpu_ms) as f64 / (last - first).max(1) as f64;
        let _ = writeln!(text, "cpu       {:.1} % of a core, the program alone", share * 100.0);
    }
    if let Some((_, end)) = end {
        for name in [
            "sessions_opened",
            "sessions_expired",
            "calls_succeeded",
            "calls_failed",
            "calls_cancelled",
            "calls_abandoned",
            "polls",
            "resumes",
            "parked",
            "taken_over",
            "events_replayed",
            "events_dropped",
            "events_coalesced",
            "results_unclaimed",
            "children_started",
            "children_died",
            "children_restarted",
        ] {
            let _ = writeln!(text, "metrics   {name} {}", end.metrics.get(name).copied().unwrap_or_default());
        }
    }
    text
}

fn kind(how: &How) -> String {
    match how {
        How::Result { .. } => "results".into(),
        How::Error { reason, .. } => format!("errors: {}", reason.as_deref().unwrap_or("other")),
        How::Refused { status } => format!("refused with {status}"),
        How::Lost { .. } => "lost with a connection that had shown no id, or given up by an SDK".into(),
        How::Timeout => "timed out in an SDK that had given up".into(),
        How::Cancelled => "cancelled".into(),
        How::Deleted => "ended with their session".into(),
        How::Expired { .. } => "ended: their session had expired".into(),
        How::Left => "left by their client".into(),
        How::Nothing => "ended without anything".into(),
    }
}

fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    sorted.get((sorted.len().saturating_sub(1)) * percent / 100).copied()
}
