//! stdout.

use super::{failure::Failure, text::clean};
use bowline_client::Raw;
use clap::ValueEnum;
use std::io::{self, IsTerminal as _, Write as _};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// The server's own JSON, on one line each.
    Json,
}

/// Prints one line.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    let write = || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    };
    write().map_err(|error: io::Error| Failure::output(&error))
}

/// Prints text of a server; on a terminal without what could drive it.
pub(super) fn text(text: &str) -> Result<(), Failure> {
    if is_terminal() { line(&clean(text)) } else { line(text) }
}

/// Prints bytes as they are.
pub(super) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    };
    write().map_err(|error: io::Error| Failure::output(&error))
}

/// Prints JSON on one line, its numbers and the order of its members as they came.
pub(super) fn json(value: &Raw) -> Result<(), Failure> {
    line(&one_line(value.as_str()))
}

/// JSON that holds no line ends between its tokens.
pub(super) fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}
