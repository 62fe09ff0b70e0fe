//! What to run and within which bounds.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::framing::MAX_LINE;

/// Variables with this prefix belong to the gateway (they may hold its secrets) and are not inherited by children.
pub const PRIVATE_PREFIX: &str = "BOWLINE_";

/// One stdio server: the command, its surroundings and its bounds. Build it with [`ChildSpec::new`] and change fields.
#[derive(Clone)]
pub struct ChildSpec {
    /// Name in logs and errors. Default: the file name of the program.
    pub name: String,
    /// Program: a bare name is looked up in `PATH`; a relative path with a slash is taken relative to `cwd`.
    pub program: OsString,
    /// Arguments, passed as they are (no shell).
    pub args: Vec<OsString>,
    /// Environment of the process.
    pub environment: Environment,
    /// Working directory; `None` is the gateway's.
    pub cwd: Option<PathBuf>,
    /// Where its stderr goes.
    pub stderr: StderrPolicy,
    /// Longest stdout line in bytes, without its line end. Longer lines are dropped whole. Default 32 MiB.
    pub max_line: usize,
    /// How long the process may take to leave after its stdin was closed, before SIGTERM. Default 5 s.
    pub stdin_grace: Duration,
    /// How long the process group may take to leave after SIGTERM, before SIGKILL. Default 2 s.
    pub kill_grace: Duration,
    /// Bounds of the queues to and from the process.
    pub queue: QueueBounds,
}

impl ChildSpec {
    /// The command `program args...` with default surroundings and bounds.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        let program = program.into();
        let name = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
        Self {
            name,
            program,
            args: args.into_iter().map(Into::into).collect(),
            environment: Environment::default(),
            cwd: None,
            stderr: StderrPolicy::Log,
            max_line: MAX_LINE,
            stdin_grace: Duration::from_secs(5),
            kill_grace: Duration::from_secs(2),
            queue: QueueBounds::default(),
        }
    }
}

/// Arguments may be secrets: they are counted, and not shown.
impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("environment", &self.environment)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Bounds of the queues between the gateway and one process. Counts are lines, sizes are bytes; a single line larger
/// than a byte bound still passes, alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBounds {
    /// Bytes accepted for stdin and not yet written. Default 64 MiB, at most 4 GiB.
    pub send_bytes: usize,
    /// Lines accepted for stdin and not yet written. Default 1024.
    pub send_lines: usize,
    /// How long a sender waits for room before it gets an error. Default 10 s.
    pub send_timeout: Duration,
    /// Bytes read from stdout and not yet received. Default 64 MiB, at most 4 GiB.
    pub receive_bytes: usize,
    /// Lines read from stdout and not yet received. Default 1024.
    pub receive_lines: usize,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self {
            send_bytes: 64 << 20,
            send_lines: 1024,
            send_timeout: Duration::from_secs(10),
            receive_bytes: 64 << 20,
            receive_lines: 1024,
        }
    }
}

/// Where the stderr of a process goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StderrPolicy {
    /// Nowhere.
    Discard,
    /// To the gateway's stderr, line by line, each with this prefix.
    Inherit {
        /// Put before each line, for example `"[files] "`.
        prefix: String,
    },
    /// To `tracing` at level info, target `bowline::child`, control characters escaped.
    Log,
}

/// Environment of a process: what it inherits, then what is removed, then what is set.
#[derive(Clone, Default)]
pub struct Environment {
    base: Base,
    remove: Vec<OsString>,
    set: Vec<(OsString, OsString)>,
}

#[derive(Debug, Clone, Default)]
enum Base {
    /// All of the gateway's variables but those that start with [`PRIVATE_PREFIX`].
    #[default]
    Inherit,
    /// Only these names.
    Only(Vec<OsString>),
}

impl Environment {
    /// Everything the gateway has but its own `BOWLINE_` variables.
    pub fn inherit() -> Self {
        Self::default()
    }

    /// Only the named variables of the gateway, where they are set. Without `PATH` in the list the gateway's `PATH` is
    /// still used to find the program. A name that starts with `BOWLINE_` is passed: it was asked for.
    pub fn only<N: Into<OsString>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { base: Base::Only(names.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Sets a variable (after inheritance and removal).
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.push((name.into(), value.into()));
        self
    }

    /// Does not pass this variable on.
    #[must_use]
    pub fn remove(mut self, name: impl Into<OsString>) -> Self {
        self.remove.push(name.into());
        self
    }

    /// The variables of the process, made from those of the gateway.
    pub(crate) fn resolve(
        &self,
        own: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let passes = |name: &OsStr| match &self.base {
            Base::Inherit => !name.as_encoded_bytes().starts_with(PRIVATE_PREFIX.as_bytes()),
            Base::Only(names) => names.iter().any(|n| n == name),
        };
        let removed = |name: &OsStr| {
            self.remove.iter().any(|n| n == name) || self.set.iter().any(|(n, _)| n.as_os_str() == name)
        };
        let mut all: Vec<_> = own.filter(|(name, _)| passes(name) && !removed(name)).collect();
        all.extend(self.set.iter().cloned());
        all
    }
}

/// Names only: values are often secrets and this ends up in logs.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<_> = self.set.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment")
            .field("base", &self.base)
            .field("remove", &self.remove)
            .field("set", &set)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> impl Iterator<Item = (OsString, OsString)> {
        [("PATH", "/bin"), ("HOME", "/root"), ("BOWLINE_KEY", "secret"), ("LANG", "C")]
            .into_iter()
            .map(|(n, v)| (n.into(), v.into()))
    }

    fn names(e: &Environment) -> Vec<String> {
        e.resolve(own()).into_iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect()
    }

    #[test]
    fn secrets_of_the_gateway_stay_behind() {
        assert_eq!(names(&Environment::inherit()), ["PATH=/bin", "HOME=/root", "LANG=C"]);
        let asked = Environment::inherit().set("BOWLINE_KEY", "other").remove("LANG").set("HOME", "/tmp");
        assert_eq!(names(&asked), ["PATH=/bin", "BOWLINE_KEY=other", "HOME=/tmp"]);
    }

    #[test]
    fn a_list_passes_only_what_it_names() {
        assert_eq!(names(&Environment::only(["LANG", "UNSET"])), ["LANG=C"]);
    }

    #[test]
    fn debug_does_not_show_values() {
        let text = format!("{:?}", ChildSpec::new("x", ["y"]).environment.set("TOKEN", "hunter2"));
        assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
    }
}
