//! `cargo xtask bench`: speed and cost against a bare server, against the goals, and against what was committed.
//!
//! What measures is the workspace `benches/`; here it is built and run, and what it says is put into one table, `docs/benchmarks.md` and
//! its chart.

mod chart;
mod counts;
mod figures;
mod goals;
mod machine;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::project::Project;
use crate::{apt, command, tools};
use figures::Figures;

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The runs; all where none is named.
    names: Vec<String>,
    /// What takes a minute once built.
    quick: bool,
    /// The servers of other languages too.
    peers: bool,
    /// Names the runs.
    list: bool,
    /// Counts the parts and compares with the baseline instead.
    parts: bool,
    /// Takes what was counted as the new baseline.
    accept: bool,
    /// Times the parts (divan) instead.
    times: bool,
    /// Takes the figures that an earlier run said instead of measuring.
    from: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `bench`.
    ///
    /// # Errors
    ///
    /// Names the option that there is not, or two that do not go together.
    pub(crate) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            match word {
                "--quick" => options.quick = true,
                "--peers" => options.peers = true,
                "--list" => options.list = true,
                "--parts" => options.parts = true,
                "--accept" => options.accept = true,
                "--times" => options.times = true,
                "--from" => options.from = Some(words.next().ok_or("--from needs a file")?.into()),
                option if option.starts_with('-') => return Err(format!("unknown argument {option:?}")),
                name => options.names.push(name.to_owned()),
            }
        }
        if options.accept && !options.parts {
            return Err("--accept goes with --parts: it writes the baseline of the parts".to_owned());
        }
        let measures = options.quick || options.peers || options.list || !options.names.is_empty();
        if (options.parts || options.times) && (measures || options.parts && options.times) {
            return Err("--parts and --times each go alone".to_owned());
        }
        Ok(options)
    }

    /// Whether the run is one that the page is written from.
    fn whole(&self) -> bool {
        self.names.is_empty() && !self.quick
    }
}

/// Does what was asked for.
///
/// # Errors
///
/// When something does not build or run, and when the parts have grown.
pub(crate) fn run(project: &Project, options: &Options) -> Result<(), String> {
    let benches = Benches(project);
    if options.times {
        return command::run(benches.cargo("bench").args(["--locked", "--bench", "parts"]));
    }
    if options.parts {
        return benches.count(options.accept);
    }
    if let Some(file) = &options.from {
        let said =
            fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let machine = machine::Machine::look(project)?;
        return benches.tell(&said, &machine, options.whole());
    }
    command::run(benches.cargo("build").args(["--release", "--locked", "--workspace", "--bins"]))?;
    if options.list {
        return command::run(Command::new(benches.program()).arg("--list"));
    }
    command::run(project.cargo().args(["build", "--release", "--locked", "--package", "bowline-cli"]))?;
    let machine = machine::Machine::look(project)?;
    let mut measure = Command::new(benches.program());
    measure.args(&options.names).arg("--bowline").arg(project.program());
    if options.quick {
        measure.arg("--quick");
    }
    if options.peers {
        let peers = tools::bench_peers(project)?;
        measure.arg("--peers").arg("--python").arg(peers.python).arg("--mcp-proxy").arg(peers.mcp_proxy);
    }
    eprintln!("$ bench {}", options.names.join(" "));
    let said = measure.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let said =
        said.map_err(|error| format!("{} could not be started: {error}", benches.program().display()))?;
    let good = said.status.success();
    benches.tell(&String::from_utf8_lossy(&said.stdout), &machine, good && options.whole())?;
    if good { Ok(()) } else { Err("a run failed: see above; the page stays as it was".to_owned()) }
}

#[expect(clippy::print_stdout, reason = "the table is this command's output")]
fn show(table: &str) {
    println!("{table}");
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    eprintln!("written: {}", file.display());
    Ok(())
}

/// The workspace that measures.
struct Benches<'a>(&'a Project);

impl Benches<'_> {
    fn folder(&self) -> PathBuf {
        self.0.root.join("benches")
    }

    /// Where it is built: not among our own crates.
    fn target(&self) -> PathBuf {
        self.0.benches_target()
    }

    fn program(&self) -> PathBuf {
        self.target().join("release/bench")
    }

    fn baseline(&self) -> PathBuf {
        self.folder().join("baseline.txt")
    }

    /// Shows what a run said; with `page`, on the page too.
    fn tell(&self, said: &str, machine: &machine::Machine, page: bool) -> Result<(), String> {
        let figures = Figures::read(said)?;
        show(&goals::table(&figures));
        if !page {
            return Ok(());
        }
        let docs = self.0.root.join("docs");
        let counts = counts::Counts::read(&fs::read_to_string(self.baseline()).unwrap_or_default())?;
        write(&docs.join("benchmarks.md"), &page::write(&figures, machine, &counts))?;
        write(&docs.join("benchmarks.svg"), &chart::draw(&figures))
    }

    fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.0.cargo();
        cargo.arg(subcommand).current_dir(self.folder()).env("CARGO_TARGET_DIR", self.target());
        cargo
    }

    /// Counts instructions and allocations of the parts, and compares.
    fn count(&self, accept: bool) -> Result<(), String> {
        if !command::succeeds(Command::new("valgrind").arg("--version")) {
            apt::install(&["valgrind"])?;
        }
        let runner = tools::gungraun_runner(self.0, &self.folder())?;
        let mut cargo = self.cargo("bench");
        cargo
            .args(["--locked", "--bench", "counts"])
            .env("GUNGRAUN_RUNNER", runner)
            .env("GUNGRAUN_COLOR", "never");
        let counted = counts::Counts::of_gungraun(&command::output(&mut cargo)?)?;
        if accept {
            return write(&self.baseline(), &counted.to_string());
        }
        let baseline = fs::read_to_string(self.baseline()).map_err(|error| {
            format!("there is no baseline ({error}): `cargo xtask bench --parts --accept` makes it")
        })?;
        let comparison = counts::compare(&counts::Counts::read(&baseline)?, &counted);
        show(&comparison.table);
        if comparison.grown.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "grown by more than {} %: {}. Where that is meant, `cargo xtask bench --parts --accept` takes it",
                counts::TOLERANCE_PERCENT,
                comparison.grown.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace())
    }

    #[test]
    fn a_whole_run_is_one_without_names_and_haste() {
        assert!(parse("").unwrap().whole());
        assert!(parse("--peers").unwrap().whole());
        assert!(!parse("--quick").unwrap().whole());
        assert!(!parse("calls").unwrap().whole());
        assert_eq!(parse("calls session").unwrap().names, ["calls", "session"]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for line in ["--accept", "--parts calls", "--times --quick", "--parts --times", "--qiuck"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--parts --accept").unwrap().accept);
        assert!(parse("--from").is_err());
        assert!(parse("--from figures.txt").unwrap().whole());
    }
}
