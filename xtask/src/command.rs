//! Running other programs: what was run is always said, and so is why it failed.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

/// Runs a program with its output shown as it comes.
///
/// # Errors
///
/// Says which command failed and how: not found, could not start, its exit status.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.stdin(Stdio::null()).status().map_err(|error| not_started(&shown, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}")) }
}

/// Runs a program and returns what it wrote to its standard output; its standard error is shown.
///
/// # Errors
///
/// As [`run`]; also when the output is not UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(&shown, &error))?;
    if !output.status.success() {
        return Err(format!("`{shown}` failed: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{shown}` wrote output that is not UTF-8"))
}

/// Whether a program runs and exits with 0; whatever it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn not_started(shown: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("`{shown}`: there is no such program on this machine"),
        _ => format!("`{shown}` could not be started: {error}"),
    }
}

/// The command as a person would type it (no quoting: only for reading).
fn show(command: &Command) -> String {
    let mut shown = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        shown.push(' ');
        shown.push_str(&arg.to_string_lossy());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let error = run(Command::new("no-such-program-here").arg("--version")).unwrap_err();
        assert!(error.contains("`no-such-program-here --version`"), "{error}");
        assert!(error.contains("no such program"), "{error}");
    }

    #[test]
    fn a_failed_program_is_an_error() {
        assert!(run(&mut Command::new("false")).unwrap_err().contains("exit status: 1"));
        assert!(output(&mut Command::new("false")).is_err());
        assert!(!succeeds(&mut Command::new("false")));
        assert!(succeeds(&mut Command::new("true")));
    }
}
