//! Instructions and allocations of a whole call, sockets included: the same whatever else the machine does.

use super::{Bench, Failed, calls::echo, figure};
use bowline_load::{Plan, Session, calls};
use std::{path::Path, time::Duration};
use tokio::process::Command;

/// Two loads; what the longer one takes more is what its further calls take.
const LOADS: [u64; 2] = [400, 1_600];

/// A tool of valgrind, and how what it says is read.
struct Tool {
    args: &'static [&'static str],
    before: &'static str,
    figure: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool {
        args: &["--tool=callgrind", "--callgrind-out-file=/dev/null"],
        before: "Collected : ",
        figure: "call.instructions",
    },
    Tool {
        args: &["--tool=memcheck", "--leak-check=no", "--undef-value-errors=no"],
        before: "total heap usage: ",
        figure: "call.allocations",
    },
];

pub(super) async fn counts(bench: &Bench) -> Result<(), Failed> {
    if Command::new("valgrind").arg("--version").output().await.is_err() {
        eprintln!("    valgrind is not on PATH: nothing is counted");
        return Ok(());
    }
    for (name, program, args) in [
        ("floor", "floor", &[][..]),
        ("bowline", "echo", &["--stateless"]),
        ("bowline-raw", "echo", &["--stateless", "--raw"]),
        ("rmcp", "rmcp-echo", &["--stateless"]),
    ] {
        for tool in &TOOLS {
            let mut counted = Vec::new();
            for load in LOADS {
                counted.push(count(bench, name, program, args, tool, load).await?);
            }
            let more = counted[1].saturating_sub(counted[0]) as f64;
            figure(tool.figure, name, more / (LOADS[1] - LOADS[0]) as f64);
        }
    }
    Ok(())
}

async fn count(
    bench: &Bench,
    name: &'static str,
    program: &str,
    args: &[&str],
    tool: &Tool,
    load: u64,
) -> Result<u64, Failed> {
    let log = bench.programs.join("valgrind.log");
    let mut command = Command::new("valgrind");
    command.args(tool.args).arg(format!("--log-file={}", log.display()));
    command.arg(bench.programs.join(program)).args(args);
    let server = bench.start_command(name, command).await?;
    let plan = Plan::new(4, Duration::from_secs(60)).at_most(load);
    let outcome = calls(&server.target, plan, &[Session::none()], &echo(100)).await;
    if outcome.done != load {
        return Err(Failed(format!("{name} under valgrind: {}", outcome.failure.unwrap_or_default())));
    }
    server.terminate().await?;
    said(&log, tool.before)
}

fn said(log: &Path, before: &str) -> Result<u64, Failed> {
    let text = std::fs::read_to_string(log)?;
    number_after(&text, before).ok_or_else(|| Failed(format!("valgrind did not say {before:?}")))
}

/// The number, with its commas, that follows a text.
fn number_after(text: &str, before: &str) -> Option<u64> {
    let rest = &text[text.rfind(before)? + before.len()..];
    let digits: String =
        rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_says() {
        let text =
            "==1== Collected : 12345678\n==1==   total heap usage: 1,234 allocs, 9 frees, 5 bytes allocated";
        assert_eq!(number_after(text, TOOLS[0].before), Some(12_345_678));
        assert_eq!(number_after(text, TOOLS[1].before), Some(1_234));
        assert_eq!(number_after(text, "no"), None);
    }
}
