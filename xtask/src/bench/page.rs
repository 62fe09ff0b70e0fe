//! `docs/benchmarks.md`.

use super::counts::Counts;
use super::figures::{Figures, shown};
use super::goals;
use super::machine::Machine;

/// The tables of all servers: title, and the first part of its figures' names.
const RUNS: [(&str, &str); 6] = [
    ("tools/call without a session, 32 connections", "call"),
    ("The same with 100 KB", "large"),
    ("The same on 256 connections", "many"),
    ("tools/call in a session", "session"),
    ("initialize, initialized, DELETE", "initialize"),
    ("A poll with nothing new (floor: a call)", "poll"),
];

/// Their columns: heading, and the second part of the figures' names.
const COLUMNS: [(&str, &str); 7] = [
    ("CPU, µs", "us"),
    ("× floor", "ratio"),
    ("a second and core", "per-core"),
    ("p50, µs", "p50"),
    ("p99, µs", "p99"),
    ("p99 / p50", "spread"),
    ("a second, seen", "rate"),
];

/// Single figures: what, and name.
const SINGLE: [(&str, &str); 12] = [
    ("idle session, bytes", "idle.bytes"),
    ("open GET stream, bytes", "get.bytes"),
    ("parked call, bytes", "parked.bytes"),
    ("progress notification, µs", "notify.us"),
    ("progress notifications lost of 900", "notify.lost"),
    ("instructions of a call", "call.instructions"),
    ("allocations of a call", "call.allocations"),
    ("start to first answer, ms", "start.ms"),
    ("idle memory, MB", "start.rss"),
    ("stripped, MB", "start.size"),
    ("crates in the lock file", "start.crates"),
    ("gateway, µs of its process a call", "gateway.us"),
];

/// How the curves are headed: what grows, and the figures.
const CURVES: [(&str, &[(&str, &str)]); 3] = [
    ("idle sessions", &[("CPU of a call, µs", "scale-sessions.us"), ("bytes each", "scale-sessions.bytes")]),
    ("parked calls", &[("CPU of a call, µs", "scale-parked.us"), ("bytes each", "scale-parked.bytes")]),
    (
        "open streams, one event a second each",
        &[
            ("CPU of an event, µs", "scale-streams.us"),
            ("of a core, %", "scale-streams.cpu"),
            ("events missing", "scale-streams.late"),
            ("bytes each", "scale-streams.bytes"),
        ],
    ),
];

/// The whole page.
pub(super) fn write(figures: &Figures, machine: &Machine, counts: &Counts) -> String {
    let versions: Vec<String> =
        machine.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let idle = if machine.busy < 0.1 {
        "The machine had nothing else to do.".to_owned()
    } else {
        format!(
            "**The machine was not idle**: {:.0} % of its cores were in use before. Ratios and memory count, times less so.",
            machine.busy * 100.0
        )
    };
    let mut page = format!(
        "# Benchmarks\n\n\
         Written by `cargo xtask bench` on {}: {} cores, {}, {}; {}. {idle}\n\n\
         The servers run on one core, the load on another, over the loopback interface and connections that are kept. They take turns, round by\n\
         round; each figure is the median of its rounds. CPU is the time that the system counts for the server's process, divided by the answers.\n\
         The **floor** is a bare hyper server that finds the id and the text with borrowed serde and sends the text back. All of them serve the same\n\
         tools, as their users write them; `bowline-raw` is a handler of raw JSON-RPC below the typed ones, `bowline-stream` answers with primed streams\n\
         that are kept in the store (memory). Those in Rust are built with optimisation over the whole program (`lto = \"fat\"`, `codegen-units = 1`).\n\n\
         ![CPU time of a call in times of the floor](benchmarks.svg)\n\n## Goals\n\n{}",
        machine.date,
        machine.cores,
        machine.cpu,
        machine.kernel,
        versions.join(", "),
        goals::markdown(figures),
    );
    page.push_str("\n## All servers\n");
    for (title, name) in RUNS {
        run_table(&mut page, figures, title, name);
    }
    single_table(&mut page, figures);
    page.push_str("\n## As it grows\n");
    for (what, columns) in CURVES {
        curve(&mut page, figures, what, columns);
    }
    if let (Some(before), Some(during), Some(mb)) = (
        figures.get("stalled.p99-before", "bowline"),
        figures.get("stalled.p99", "bowline"),
        figures.get("stalled.mb", "bowline"),
    ) {
        page.push_str(&format!(
            "\nOne reader that takes nothing while its call says 59 MB, among 1,000 connections that call: their p99 is {} ms, without it {} ms; it takes {} MB.\n",
            shown(during / 1e3),
            shown(before / 1e3),
            shown(mb)
        ));
    }
    page.push_str(&format!(
        "\n## Parts\n\nInstructions and allocations (valgrind, through gungraun): the same on a busy machine. `cargo xtask bench --parts` counts them\n\
         again and fails where one has grown by more than 5 %.\n\n{}",
        counts.markdown()
    ));
    page.push_str(
        "\n## Again\n\n```\ncargo xtask bench                 # all of it, within 10 minutes on two cores once built; writes this page\n\
         cargo xtask bench --quick         # a minute; writes nothing\ncargo xtask bench calls session   # some of it (--list names them)\n\
         cargo xtask bench --peers         # the servers of other languages too; needs npm and pip\ncargo xtask bench --parts         # counts, against benches/baseline.txt\n\
         cargo xtask bench --times         # the parts by the clock (divan)\n```\n",
    );
    page
}

fn run_table(page: &mut String, figures: &Figures, title: &str, name: &str) {
    let subjects = figures.of(&format!("{name}.us"));
    if subjects.is_empty() {
        return;
    }
    let heads: Vec<&str> = COLUMNS.iter().map(|(head, _)| *head).collect();
    page.push_str(&format!(
        "\n{title}:\n\n| | {} |\n|---|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len())
    ));
    for (subject, _) in subjects {
        let cells = COLUMNS.map(|(_, column)| {
            figures.get(&format!("{name}.{column}"), subject).map_or_else(|| "–".to_owned(), shown)
        });
        page.push_str(&format!("| {subject} | {} |\n", cells.join(" | ")));
    }
}

fn single_table(page: &mut String, figures: &Figures) {
    let mut subjects: Vec<&str> = Vec::new();
    for (subject, _) in SINGLE.iter().flat_map(|(_, name)| figures.of(name)) {
        if !subjects.contains(&subject.as_str()) {
            subjects.push(subject);
        }
    }
    page.push_str(&format!(
        "\nOne by one:\n\n| | {} |\n|---|{}\n",
        subjects.join(" | "),
        "---|".repeat(subjects.len())
    ));
    for (what, name) in SINGLE.iter().filter(|(_, name)| !figures.of(name).is_empty()) {
        let cells: Vec<String> = subjects
            .iter()
            .map(|subject| figures.get(name, subject).map_or_else(|| "–".to_owned(), shown))
            .collect();
        page.push_str(&format!("| {what} | {} |\n", cells.join(" | ")));
    }
}

fn curve(page: &mut String, figures: &Figures, what: &str, columns: &[(&str, &str)]) {
    let Some((_, first)) = columns.first() else { return };
    let points = figures.of(first);
    if points.is_empty() {
        return;
    }
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    page.push_str(&format!("\n| {what} | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len())));
    for (point, _) in points {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, name)| figures.get(name, point).map_or_else(|| "–".to_owned(), shown))
            .collect();
        let point = point.parse::<f64>().map_or_else(|_| point.clone(), shown);
        page.push_str(&format!("| {point} | {} |\n", cells.join(" | ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(busy: f64) -> Machine {
        let versions = vec![("rustc".to_owned(), "1.95.0".to_owned())];
        Machine {
            date: "2026-11-30".into(),
            cpu: "A CPU".into(),
            cores: 2,
            kernel: "Linux 6".into(),
            versions,
            busy,
        }
    }

    #[test]
    fn what_was_measured_is_on_the_page_and_nothing_else() {
        let text = "figure\tcall.us\tfloor\t8.4\nfigure\tcall.ratio\tfloor\t1\nfigure\tcall.us\tbowline\t10.5\n\
                    figure\tcall.ratio\tbowline\t1.25\nfigure\tidle.bytes\tbowline\t900\nfigure\tscale-sessions.us\t100000\t11\n";
        let page = write(&Figures::read(text).unwrap(), &machine(0.4), &Counts::default());
        for part in [
            "| bowline | 10.5 | 1.25 |",
            "| 100,000 | 11 | – |",
            "| idle session, bytes | – | 900 |",
            "not idle",
            "A CPU",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("256 connections:") && !page.contains("parked calls |"), "{page}");
        assert!(write(&Figures::default(), &machine(0.0), &Counts::default()).contains("nothing else to do"));
    }
}
