//! `bowline list`, `call`, `read`, `prompt`, `complete`, `watch`: what they print, and their exit codes.

mod codes;
mod login;
mod results;
mod watching;

use crate::support::{Ended, bowline, run};
use bowline_testkit::repository;
use std::process::Stdio;
use tokio::io::AsyncWriteExt as _;

/// Runs a command line to its end.
async fn line(args: &[&str]) -> Ended {
    run(bowline(args)).await
}

/// The same with text on stdin.
async fn line_with(args: &[&str], stdin: &str) -> Ended {
    let mut command = bowline(args);
    command.stdin(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut pipe = process.stdin.take().unwrap();
    pipe.write_all(stdin.as_bytes()).await.unwrap();
    drop(pipe);
    let output = crate::support::soon("its end", process.wait_with_output()).await.unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The command of the fixture, to be put after `--`.
fn fixture_command() -> [String; 3] {
    let python = std::env::var("BOWLINE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = repository().join("tests/fixtures/fixture_server.py");
    [python, "-B".into(), script.to_str().unwrap().into()]
}

/// Asserts that all went well and nothing but this was printed.
#[track_caller]
fn assert_prints(ended: &Ended, stdout: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), stdout), "{}", ended.stderr);
}
