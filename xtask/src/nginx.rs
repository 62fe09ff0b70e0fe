//! nginx, which the tests put in front of several backends.
//!
//! It is taken out of Debian's package and not installed: an installed one is started as a service, on a port of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;
use crate::{apt, command};

/// Where systems have it; the folder is often not on PATH.
const INSTALLED: &str = "/usr/sbin/nginx";

/// The program: the system's, else the unpacked one.
pub(crate) fn program(project: &Project) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("nginx"));
    let installed = on_path.chain([PathBuf::from(INSTALLED)]).find(|program| runs(program));
    installed.unwrap_or_else(|| unpacked(project))
}

fn unpacked(project: &Project) -> PathBuf {
    project.tools().join("nginx/usr/sbin/nginx")
}

fn runs(program: &Path) -> bool {
    program.is_file() && command::succeeds(Command::new(program).arg("-v"))
}

/// Unpacks it, where the system has none.
///
/// # Errors
///
/// Says what to install by hand.
pub(crate) fn install(project: &Project) -> Result<(), String> {
    let found = program(project);
    if !runs(&found) {
        let by_hand = "install nginx and run this again";
        let folder = project.tools().join("nginx");
        let fresh = |folder: &Path| {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
        };
        fresh(&folder)?;
        let download =
            || command::run(Command::new("apt-get").args(["download", "-q", "nginx"]).current_dir(&folder));
        // A new system has no list of packages yet.
        if download().is_err() {
            apt::update().map_err(|error| format!("{error}; {by_hand}"))?;
            download().map_err(|error| format!("{error}; {by_hand}"))?;
        }
        let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for file in files.filter_map(Result::ok).map(|entry| entry.path()) {
            if file.extension().is_some_and(|extension| extension == "deb") {
                command::run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&folder))?;
            }
        }
        if !runs(&found) {
            return Err(format!("{} does not run; {by_hand}", found.display()));
        }
    }
    eprintln!("nginx: {}", found.display());
    Ok(())
}
