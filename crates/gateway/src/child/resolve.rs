//! Finds the program before anything is started, so that a missing one is an error with advice and not a dead child.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::spec::ChildSpec;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No such program.
    #[error("cannot start {name}: program {program:?} was not found{place}. {advice}", program = program.display())]
    NotFound {
        /// Name of the child.
        name: String,
        /// What was looked for.
        program: OsString,
        /// Where it was looked for, with a space in front; may be empty.
        place: String,
        /// What to do.
        advice: String,
    },
    /// The program is there and may not be run.
    #[error("cannot start {name}: {path:?} is not executable. {advice}", path = path.display())]
    NotExecutable {
        /// Name of the child.
        name: String,
        /// The file.
        path: PathBuf,
        /// What to do.
        advice: String,
    },
    /// The working directory is not there.
    #[error("cannot start {name}: its working directory {path:?} is not a directory. Create it or correct `cwd`.", path = path.display())]
    Directory {
        /// Name of the child.
        name: String,
        /// The directory.
        path: PathBuf,
    },
    /// The system refused to run it.
    #[error("cannot start {name}: {why}")]
    Refused {
        /// Name of the child.
        name: String,
        /// What happened and what to do.
        why: String,
        /// The system's error.
        source: io::Error,
    },
    /// Called outside a tokio runtime.
    #[error("cannot start {name}: no tokio runtime is running here; call Child::spawn from async code")]
    NoRuntime {
        /// Name of the child.
        name: String,
    },
}

impl ChildSpec {
    /// Finds the program as [`super::Child::spawn`] would, without starting it: for an error before anything is started.
    ///
    /// # Errors
    /// The program is missing or not executable, or its directory is missing.
    pub fn find_program(&self) -> Result<PathBuf, SpawnError> {
        resolve(self, &self.environment.resolve(std::env::vars_os()))
    }
}

/// The path of the program of `spec`, found with the variables `env` of the process.
pub(crate) fn resolve(spec: &ChildSpec, env: &[(OsString, OsString)]) -> Result<PathBuf, SpawnError> {
    if let Some(dir) = &spec.cwd
        && !dir.is_dir()
    {
        return Err(SpawnError::Directory { name: spec.name.clone(), path: dir.clone() });
    }
    let program = &spec.program;
    let not_executable = |path: PathBuf| {
        let advice = if path.is_dir() {
            "It is a directory; name the program in it.".to_owned()
        } else {
            format!(
                "Run `chmod +x {}`, or start it through its interpreter (node, python3, sh).",
                path.display()
            )
        };
        SpawnError::NotExecutable { name: spec.name.clone(), path, advice }
    };
    if program.as_encoded_bytes().contains(&b'/') {
        let base = spec.cwd.clone().unwrap_or_default();
        let path = std::path::absolute(base.join(program)).unwrap_or_else(|_| base.join(program));
        return if is_executable(&path) {
            Ok(path)
        } else if path.exists() {
            Err(not_executable(path))
        } else {
            let place = if Path::new(program).is_absolute() {
                String::new()
            } else {
                format!(" as {}", path.display())
            };
            Err(not_found(spec, place))
        };
    }
    let search = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let search =
        search.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut refused = None;
    if !program.is_empty() {
        for dir in std::env::split_paths(&search) {
            // A relative entry means a directory below the process's own working directory.
            let path = spec.cwd.clone().unwrap_or_default().join(dir).join(program);
            let path = std::path::absolute(&path).unwrap_or(path);
            if is_executable(&path) {
                return Ok(path);
            }
            if path.is_file() {
                refused.get_or_insert(path);
            }
        }
    }
    Err(refused.map_or_else(|| not_found(spec, format!(" in PATH ({})", search.display())), not_executable))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn not_found(spec: &ChildSpec, place: String) -> SpawnError {
    let program = spec.program.clone();
    let advice = advice(&program);
    SpawnError::NotFound { name: spec.name.clone(), program, place, advice }
}

fn advice(program: &OsStr) -> String {
    let text = program.to_string_lossy();
    let install = match text.as_ref() {
        "" => return "Give the command of the server, for example: -- npx -y @example/server".to_owned(),
        "npx" | "npm" | "node" => Some("Node.js (it brings node, npm and npx)"),
        "uvx" | "uv" => Some("uv (it brings uv and uvx)"),
        "python" => Some("Python (often the program is called python3)"),
        "python3" | "pip" | "pipx" => Some("Python 3"),
        "docker" | "podman" | "bun" | "bunx" | "deno" | "go" | "java" | "dotnet" | "ruby" => {
            Some(text.as_ref())
        }
        _ => None,
    };
    if let Some(what) = install {
        format!("Install {what}, or give the full path of the program.")
    } else if text.contains(char::is_whitespace) {
        "This looks like a whole command line: give the program and each argument separately.".to_owned()
    } else if text.starts_with('~') {
        "`~` is not expanded here: write the home directory in full.".to_owned()
    } else {
        "Check the spelling, install it, or give its full path.".to_owned()
    }
}

/// Says in words why the system refused to run the program at `path`, which had been found.
pub(crate) fn refusal(path: &Path, errno: i32) -> String {
    let path = path.display();
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT => format!(
            "{path} exists, but the interpreter named in its first line (#!) or its loader does not. Install that, or \
             start the file through the right interpreter."
        ),
        Errno::NOEXEC => format!(
            "{path} is not a program this machine can run. A script needs a first line such as #!/bin/sh; a binary \
             must be built for this system."
        ),
        Errno::ACCESS | Errno::PERM => {
            format!(
                "running {path} is not permitted. Check its mode, and whether its file system is mounted noexec."
            )
        }
        Errno::TXTBSY => format!("{path} is being written to. Start it when the installation has ended."),
        Errno::TOOBIG => format!("the arguments and environment for {path} are too large for this system."),
        Errno::AGAIN => {
            "the limit of processes is reached (ulimit -u, or pids of the container). Raise it.".to_owned()
        }
        Errno::MFILE | Errno::NFILE => "the limit of open files is reached (ulimit -n). Raise it.".to_owned(),
        other => format!("{path}: {}", io::Error::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(program: &str) -> String {
        let spec = ChildSpec::new(program, ["x"]);
        resolve(&spec, &[("PATH".into(), "/nowhere".into())]).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_program_and_say_what_to_do() {
        assert_eq!(
            error("npx"),
            "cannot start npx: program \"npx\" was not found in PATH (/nowhere). Install Node.js (it brings node, npm and \
             npx), or give the full path of the program."
        );
        assert!(error("npx -y thing").contains("each argument separately"));
        assert!(error("/no/such").contains("program \"/no/such\" was not found. Check"));
        assert!(error("/etc/passwd").contains("chmod +x /etc/passwd"));
        assert!(error("/etc").contains("is a directory"));
        assert!(error("").contains("Give the command"));
    }

    #[test]
    fn the_path_of_the_child_counts_and_relative_paths_start_at_its_directory() {
        let env = [("PATH".into(), "/nowhere:/bin".into())];
        assert_eq!(resolve(&ChildSpec::new("sh", ["x"]), &env).unwrap(), Path::new("/bin/sh"));
        let mut spec = ChildSpec::new("./sh", ["x"]);
        spec.cwd = Some("/bin".into());
        assert!(resolve(&spec, &[]).unwrap().ends_with("sh"));
        spec.cwd = Some("/no/dir".into());
        assert!(matches!(resolve(&spec, &[]), Err(SpawnError::Directory { .. })));
    }
}
