//! Debian packages that the tests need. On another system a person installs the same things by hand.

use std::process::Command;

use crate::command;

/// A package, and a command that succeeds when what it brings is already there (from wherever).
struct Package {
    name: &'static str,
    probe: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    // Debian's python3 comes without the part that puts pip into a virtual environment.
    Package { name: "python3-venv", probe: &["python3", "-c", "import ensurepip, venv"] },
];

/// Installs what is missing, as root or with sudo.
///
/// # Errors
///
/// Names the packages, and what to type, when they cannot be installed from here.
pub(crate) fn install_missing() -> Result<(), String> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|package| {
            let (program, args) = package.probe.split_first().expect("every probe names a program");
            !command::succeeds(Command::new(program).args(args))
        })
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)
}

/// Installs packages, as root or with sudo.
///
/// # Errors
///
/// Names the packages, and what to type, when they cannot be installed from here.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    let by_hand = format!("install these (Debian's names) and run this again: {}", packages.join(" "));
    update().map_err(|error| format!("{error}; {by_hand}"))?;
    let install = ["install", "-q", "-y", "--no-install-recommends"];
    apt_get(&[&install[..], packages].concat()).map_err(|error| format!("{error}; {by_hand}"))
}

/// Reads the lists of packages anew, as root or with sudo.
///
/// # Errors
///
/// Says why that cannot be done from here.
pub(crate) fn update() -> Result<(), String> {
    apt_get(&["update", "-q"])
}

/// Runs apt-get, as root or with sudo.
fn apt_get(args: &[&str]) -> Result<(), String> {
    if !command::succeeds(Command::new("apt-get").arg("--version")) {
        return Err("this system has no apt-get".to_owned());
    }
    let as_root: &[&str] = if command::output(Command::new("id").arg("-u"))?.trim() == "0" {
        &["env", "DEBIAN_FRONTEND=noninteractive"]
    } else if command::succeeds(Command::new("sudo").args(["--non-interactive", "true"])) {
        &["sudo", "--non-interactive", "env", "DEBIAN_FRONTEND=noninteractive"]
    } else {
        return Err("neither root nor sudo without a password".to_owned());
    };
    command::run(Command::new(as_root[0]).args(&as_root[1..]).arg("apt-get").args(args))
}
