//! `cargo xtask sim`: builds the simulation and runs seeds.

use crate::command;
use crate::project::Project;

/// Runs `bowline-sim` with `args`. Its output is shown as it comes.
///
/// # Errors
///
/// A build that failed, or a seed that breaks a promise.
pub(crate) fn run(project: &Project, args: &[String]) -> Result<(), String> {
    command::run(project.cargo().args(["build", "--locked", "--package", "bowline-sim"]))?;
    let name = format!("bowline-sim{}", std::env::consts::EXE_SUFFIX);
    command::run(project.command(project.target.join("debug").join(name)).args(args))
}
