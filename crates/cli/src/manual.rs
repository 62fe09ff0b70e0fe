//! `bowline completions` and `bowline man`: from the same definition as the command line itself.

use crate::complain;
use clap::Command;
use clap_complete::aot::{Shell, generate};
use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Print a script that completes this program's command lines.
///
/// bash: bowline completions bash > ~/.local/share/bash-completion/completions/bowline
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompletionsCommand {
    /// Which shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// Print the manual page, or write those of all commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ManCommand {
    /// The folder to write bowline.1, bowline-serve.1 and the others to. Without it, bowline.1 goes to stdout.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Prints the script.
pub(crate) fn completions(command: &CompletionsCommand, mut program: Command) -> ExitCode {
    let mut script = Vec::new();
    generate(command.shell, &mut program, "bowline", &mut script);
    printed(io::stdout().lock().write_all(&script))
}

/// Prints or writes pages.
pub(crate) fn man(command: &ManCommand, program: Command) -> ExitCode {
    match &command.dir {
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(program).render(&mut page);
            printed(rendered.and_then(|()| io::stdout().lock().write_all(&page)))
        }
        Some(dir) => match write(dir, program) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format_args!("{}: {error}", dir.display()));
                ExitCode::FAILURE
            }
        },
    }
}

fn write(dir: &Path, program: Command) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(program, dir)
}

fn printed(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format_args!("stdout: {error}"));
            ExitCode::FAILURE
        }
    }
}
