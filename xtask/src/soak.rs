//! `cargo xtask soak`: builds what the soak needs, tells it where everything is, and runs it.

use crate::project::Project;
use crate::{command, steps};

/// What `cargo xtask soak` takes; the rest goes to `bowline-soak`.
#[derive(Debug, PartialEq, Eq)]
struct Words<'a> {
    /// Cargo's profile for the program under test.
    profile: &'a str,
    /// Whether there are clients on the official SDKs, which have to be installed.
    real_clients: bool,
    rest: Vec<&'a str>,
}

/// Runs the soak. Its output is shown as it comes.
///
/// # Errors
///
/// A build that failed, or a promise that was broken.
pub(crate) fn run(project: &Project, args: &[String]) -> Result<(), String> {
    let words = words(args)?;
    if words.real_clients {
        steps::prepare(project, &["tools", "rmcp-client"])?;
    }
    let profile = ["--profile", words.profile];
    command::run(project.cargo().args(["build", "--locked", "--package", "bowline-cli"]).args(profile))?;
    command::run(project.cargo().args(["build", "--locked", "--package", "bowline-soak"]))?;
    let folder = if words.profile == "dev" { "debug" } else { words.profile };
    let name = format!("bowline{}", std::env::consts::EXE_SUFFIX);
    let mut soak = project.command(project.target.join("debug/bowline-soak"));
    if words.real_clients {
        steps::with_clients(project, &mut soak);
    }
    // The program is said last: `with_clients` names that of the release profile.
    soak.env("BOWLINE_BIN", project.target.join(folder).join(name));
    command::run(soak.args(words.rest))
}

/// Reads the words that are ours.
fn words(args: &[String]) -> Result<Words<'_>, String> {
    let mut words = Words { profile: "release", real_clients: true, rest: Vec::new() };
    let mut args = args.iter().map(String::as_str);
    while let Some(word) = args.next() {
        match word {
            "--profile" => words.profile = args.next().ok_or("--profile needs a name: release, or dev")?,
            other => {
                words.real_clients &= !matches!(other, "--raw-only" | "--check");
                words.rest.push(other);
            }
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_goes_on() {
        let args = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let given = args("--minutes 5 --profile dev --seed 7");
        let found = words(&given).unwrap();
        assert_eq!(
            found,
            Words { profile: "dev", real_clients: true, rest: vec!["--minutes", "5", "--seed", "7"] }
        );
        assert!(!words(&args("--raw-only")).unwrap().real_clients);
        assert_eq!(words(&[]).unwrap().profile, "release");
        assert!(words(&args("--profile")).is_err());
    }
}
