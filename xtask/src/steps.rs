//! The steps of `cargo xtask test`, in order.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::project::Project;
use crate::tools::{self, Tool};
use crate::{browser, command, purity, servers};

/// One step. A step runs when all that it needs has passed; a failed step does not stop the others.
struct Step {
    name: &'static str,
    about: &'static str,
    needs: &'static [&'static str],
    /// Whether it runs only when it is named: it is no part of what a change has to pass.
    on_demand: bool,
    /// The arguments after `--` on the command line, for the step's last command.
    run: fn(&Project, &[String]) -> Result<(), String>,
}

const STEPS: &[Step] = &[
    Step {
        name: "tools",
        about: "install what the tests need: cargo-nextest, cargo-deny, the proxies, Redis, Valkey, Chromium, the clients, the conformance suite",
        needs: &[],
        on_demand: false,
        run: |project, _| tools::install(project),
    },
    Step {
        name: "fmt",
        about: "formatting",
        needs: &[],
        on_demand: false,
        run: |project, extra| command::run(project.cargo().args(["fmt", "--all", "--check"]).args(extra)),
    },
    Step {
        name: "clippy",
        about: "lints, in every target",
        needs: &[],
        on_demand: false,
        run: |project, extra| {
            let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
            command::run(project.cargo().args(args).args(extra))
        },
    },
    Step {
        name: "doc",
        about: "documentation builds without warnings",
        needs: &[],
        on_demand: false,
        run: |project, extra| {
            let args = ["doc", "--workspace", "--no-deps", "--locked"];
            command::run(project.cargo().env("RUSTDOCFLAGS", "-D warnings").args(args).args(extra))
        },
    },
    Step {
        name: "deny",
        about: "dependencies keep to deny.toml: bans, licences, sources",
        needs: &["tools"],
        on_demand: false,
        run: |project, extra| {
            let args = ["--locked", "check", "bans", "licenses", "sources"];
            command::run(Tool::Deny.command(project).args(args).args(extra))
        },
    },
    Step {
        name: "purity",
        about: "bowline-proto reaches no socket, clock or random number",
        needs: &[],
        on_demand: false,
        run: |project, _| purity::check(project),
    },
    Step {
        name: "fixtures",
        about: "the scripted stdio server behaves as the end-to-end tests expect",
        needs: &["tools"],
        on_demand: false,
        run: |project, extra| {
            let args = ["-B", "-m", "unittest", "discover", "--start-directory", "tests/fixtures"];
            command::run(project.command(tools::python_of_clients(project)).args(args).args(extra))
        },
    },
    Step {
        name: "rmcp-client",
        about: "the client and the server on the Rust SDK, a workspace of its own: formatting, lints, build",
        needs: &[],
        on_demand: false,
        run: |project, extra| {
            let cargo = |subcommand: &str| {
                let mut cargo = project.cargo();
                cargo.current_dir(project.rmcp_client()).env("CARGO_TARGET_DIR", project.rmcp_target());
                cargo.arg(subcommand);
                cargo
            };
            command::run(cargo("fmt").arg("--check"))?;
            command::run(cargo("clippy").args(["--locked", "--", "-D", "warnings"]))?;
            // The development profile: half the time of an optimised build, and no test waits for this client.
            command::run(cargo("build").arg("--locked").args(extra))?;
            let program = project.rmcp_program();
            if program.is_file() { Ok(()) } else { Err(format!("the build left no {}", program.display())) }
        },
    },
    Step {
        name: "benches",
        about: "the benchmarks, a workspace of its own: formatting, lints, what decides something in them",
        needs: &[],
        on_demand: true,
        run: |project, extra| {
            let cargo = |subcommand: &str| {
                let mut cargo = project.cargo();
                cargo
                    .current_dir(project.root.join("benches"))
                    .env("CARGO_TARGET_DIR", project.benches_target());
                cargo.arg(subcommand);
                cargo
            };
            command::run(cargo("fmt").args(["--all", "--check"]))?;
            let clippy = ["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
            command::run(cargo("clippy").args(clippy))?;
            command::run(cargo("test").args(["--quiet", "--lib", "--locked"]).args(extra))
        },
    },
    Step {
        name: "clients",
        about: "the real clients work against the reference server",
        needs: &["tools", "rmcp-client"],
        on_demand: false,
        run: |project, extra| {
            let mut command = project.command("node");
            command::run(with_clients(project, &mut command).arg("tests/clients/selftest.mjs").args(extra))
        },
    },
    Step {
        name: "build",
        about: "the program under test, as it is released",
        needs: &[],
        on_demand: false,
        run: |project, extra| {
            let args = ["build", "--release", "--locked", "--package", "bowline-cli"];
            command::run(project.cargo().args(args).args(extra))?;
            let program = project.program();
            if program.is_file() { Ok(()) } else { Err(format!("the build left no {}", program.display())) }
        },
    },
    Step {
        name: "doctest",
        about: "examples in the documentation",
        needs: &[],
        on_demand: false,
        run: |project, extra| {
            command::run(project.cargo().args(["test", "--doc", "--workspace", "--locked"]).args(extra))
        },
    },
    Step {
        name: "fuzz",
        about: "what must hold for any input; `-- TARGET SECONDS` runs cargo-fuzz",
        needs: &[],
        on_demand: false,
        run: fuzz,
    },
    Step {
        name: "nextest",
        about: "unit, property and end-to-end tests",
        needs: &["tools", "rmcp-client", "build"],
        on_demand: false,
        run: |project, extra| {
            let mut command = Tool::Nextest.command(project);
            let scope: &[&str] = if extra.is_empty() { &["--workspace"] } else { &[] };
            command::run(
                with_clients(project, &mut command).args(["run", "--locked"]).args(scope).args(extra),
            )
        },
    },
    Step {
        name: "conformance",
        about: "the official suite, both halves, in every revision of either era: no failure and no warning",
        needs: &["tools"],
        on_demand: false,
        run: |project, extra| {
            // What the step before has built, and the programs: chosen by package, half of it would be compiled again.
            let build = ["build", "--locked", "--workspace", "--bins", "--tests", "--examples"];
            command::run(project.cargo().args(build))?;
            // The client logs in too, where a scenario asks for it.
            for (half, flags) in [("server", &[][..]), ("client", &["--auth"])] {
                let package = format!("bowline-conformance-{half}");
                let mut command = project.command(tools::node_of_conformance(project));
                command
                    .arg(format!("conformance/{half}.mjs"))
                    .arg(project.target.join("debug").join(package))
                    .arg(project.target.join("conformance").join(half))
                    .args(flags);
                command::run(command.args(extra))?;
            }
            Ok(())
        },
    },
];

/// Builds the fuzz targets' bodies as plain tests, and runs each on its seeds and a fixed number of mutations of them. With
/// arguments it is cargo-fuzz that runs: `-- envelope 60` fuzzes that target for 60 s, guided by coverage.
fn fuzz(project: &Project, extra: &[String]) -> Result<(), String> {
    let [target, seconds @ ..] = extra else {
        let args = ["test", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
        return command::run(project.cargo().args(args).args(["--test", "inputs", "--", "--nocapture"]));
    };
    tools::install_cargo_tools(project, &[Tool::Fuzz])?;
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(project.root.join(&corpus))
        .map_err(|error| format!("cannot make {corpus}: {error}"))?;
    let seconds = seconds.first().map_or("60", String::as_str);
    let mut command = Tool::Fuzz.command(project);
    // No sanitizer: there is no unsafe code in what is fuzzed to find faults in, and without one a stable compiler will do.
    command.args(["run", "--sanitizer=none", target, &corpus, &format!("fuzz/seeds/{target}"), "--"]);
    let dictionary = match target.as_str() {
        "envelope" | "projection" => Some("json"),
        "sse_decode" => Some("sse"),
        "http_head" => Some("http"),
        _ => None,
    };
    command.args(dictionary.map(|name| format!("-dict=fuzz/dictionaries/{name}.dict")));
    command.args(["-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"]);
    command::run(command.arg(format!("-max_total_time={seconds}")))
}

/// What the end-to-end tests are told. They fail, and name `cargo xtask test`, where one of these is missing.
pub(crate) fn with_clients<'a>(project: &Project, command: &'a mut Command) -> &'a mut Command {
    command
        .env("BOWLINE_BIN", project.program())
        .env("BOWLINE_TEST_PYTHON", tools::python_of_clients(project))
        .env("BOWLINE_TEST_NODE_DIR", project.node_clients())
        .env("BOWLINE_TEST_RMCP_CLIENT", project.rmcp_program())
        .env("BOWLINE_TEST_INSPECTOR_DIR", project.inspector())
        .env("BOWLINE_TEST_CHROMIUM", browser::program())
        .env("BOWLINE_TEST_NODE_22", tools::node_of_conformance(project))
        .env(servers::VALKEY, servers::valkey(project))
        .envs(servers::ALL.map(|server| (server.variable, server.program(project))))
}

/// Prints the names of the steps.
#[expect(clippy::print_stdout, reason = "the list is this command's output")]
pub(crate) fn list() {
    for Step { name, about, on_demand, .. } in STEPS {
        println!("{name:11} {about}{}", if *on_demand { " (only when named)" } else { "" });
    }
}

/// Runs some steps for a command that is no step itself; the first that fails ends it.
///
/// # Errors
///
/// That of the step.
pub(crate) fn prepare(project: &Project, names: &[&str]) -> Result<(), String> {
    for step in STEPS.iter().filter(|step| names.contains(&step.name)) {
        eprintln!("\n=== {}: {}", step.name, step.about);
        (step.run)(project, &[])?;
    }
    Ok(())
}

/// How a step ended.
enum Outcome {
    Passed(Duration),
    Failed(Duration, String),
    NotRun(String),
}

/// Runs the steps: all, or `only` one and what it needs. `extra` goes to the step named by `only`.
///
/// # Errors
///
/// Names the failed steps, after the summary.
pub(crate) fn run(
    project: &Project,
    only: Option<&str>,
    fail_fast: bool,
    extra: &[String],
) -> Result<(), String> {
    let chosen = choose(only)?;
    let mut outcomes: Vec<(&str, Outcome)> = Vec::new();
    for (at, step) in chosen.iter().enumerate() {
        let blocked_by = step.needs.iter().find(|&need| !passed(&outcomes, need));
        let stopped = fail_fast && outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(..)));
        let outcome = if stopped {
            Outcome::NotRun("stopped at the first failure".to_owned())
        } else if let Some(need) = blocked_by {
            Outcome::NotRun(format!("needs {need}"))
        } else {
            eprintln!("\n=== [{}/{}] {}: {}", at + 1, chosen.len(), step.name, step.about);
            let (outcome, took) =
                timed(|| (step.run)(project, if only == Some(step.name) { extra } else { &[] }));
            match outcome {
                Ok(()) => Outcome::Passed(took),
                Err(message) => {
                    eprintln!("!!! {}: {message}", step.name);
                    Outcome::Failed(took, message)
                }
            }
        };
        outcomes.push((step.name, outcome));
    }
    summarise(&outcomes)
}

/// The steps to run, in order.
fn choose(only: Option<&str>) -> Result<Vec<&'static Step>, String> {
    let Some(only) = only else { return Ok(STEPS.iter().filter(|step| !step.on_demand).collect()) };
    let step = STEPS.iter().find(|step| step.name == only).ok_or_else(|| {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        format!("there is no step {only:?}; the steps are {}", names.join(", "))
    })?;
    Ok(STEPS.iter().filter(|other| other.name == only || step.needs.contains(&other.name)).collect())
}

fn passed(outcomes: &[(&str, Outcome)], name: &str) -> bool {
    outcomes.iter().any(|(step, outcome)| *step == name && matches!(outcome, Outcome::Passed(_)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask tells a person how long real work took; nothing waits on it"
)]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn summarise(outcomes: &[(&str, Outcome)]) -> Result<(), String> {
    eprintln!("\n=== summary");
    let mut failed = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Passed(took) => eprintln!("ok       {name:11} {:>7.1} s", took.as_secs_f64()),
            Outcome::Failed(took, message) => {
                eprintln!("FAILED   {name:11} {:>7.1} s  {message}", took.as_secs_f64());
                failed.push(*name);
            }
            Outcome::NotRun(why) => eprintln!("not run  {name:11}            {why}"),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_needs_only_earlier_steps_and_those_need_no_others_outside() {
        for (at, step) in STEPS.iter().enumerate() {
            for need in step.needs {
                let earlier = STEPS[..at].iter().find(|other| other.name == *need);
                let earlier =
                    earlier.unwrap_or_else(|| panic!("{} needs {need}, which is not before it", step.name));
                // choose() looks one level deep, so the list must spell out every need.
                assert!(
                    earlier.needs.iter().all(|deep| step.needs.contains(deep)),
                    "{} needs {need}",
                    step.name
                );
            }
        }
    }

    #[test]
    fn one_step_brings_what_it_needs() {
        let names: Vec<_> = choose(Some("nextest")).unwrap().iter().map(|step| step.name).collect();
        assert_eq!(names, ["tools", "rmcp-client", "build", "nextest"]);
        assert!(choose(None).unwrap().iter().all(|step| !step.on_demand));
        assert!(choose(Some("benches")).unwrap().iter().any(|step| step.name == "benches"));
        assert!(choose(Some("nexttest")).err().unwrap().contains("nextest"));
    }

    #[test]
    fn any_failure_fails_the_run() {
        let passed = ("fmt", Outcome::Passed(Duration::ZERO));
        let failed = ("build", Outcome::Failed(Duration::ZERO, "it broke".to_owned()));
        let not_run = ("nextest", Outcome::NotRun("needs build".to_owned()));
        let error = summarise(&[passed, failed, not_run]).unwrap_err();
        assert_eq!(error, "failed: build");
        assert!(summarise(&[("fmt", Outcome::Passed(Duration::ZERO))]).is_ok());
    }
}
