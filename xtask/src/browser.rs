//! The browser that the tests open the MCP Inspector in: Chromium, or Chrome.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{apt, command};

/// What it is called, on one system or another.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Where Debian's package puts it.
const USUAL: &str = "/usr/bin/chromium";

/// The one on PATH, else where it would be installed.
pub(crate) fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let named = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    named.filter(|program| program.is_file()).find(|program| runs(program)).unwrap_or_else(|| USUAL.into())
}

fn runs(program: &Path) -> bool {
    program.is_file() && command::succeeds(Command::new(program).arg("--version"))
}

/// Installs Debian's package, where there is none.
///
/// # Errors
///
/// Says what to install by hand.
pub(crate) fn install() -> Result<(), String> {
    let mut found = program();
    if !runs(&found) {
        apt::install(&["chromium"])?;
        found = program();
        if !runs(&found) {
            return Err(format!("{} does not run; install Chromium and run this again", found.display()));
        }
    }
    eprintln!("chromium: {}", found.display());
    Ok(())
}
