//! On what it was measured: the kind of machine and the versions, and nothing that names one machine.

use crate::command;
use crate::project::Project;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A kind of machine, at a day.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) date: String,
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
    /// Names and versions.
    pub(super) versions: Vec<(String, String)>,
    /// The share of its cores that something else was using before the measurement.
    pub(super) busy: f64,
}

/// The crates whose versions are told.
const CRATES: [&str; 4] = ["hyper", "tokio", "serde_json", "rmcp"];

impl Machine {
    /// Looks at this machine; takes a second.
    ///
    /// # Errors
    ///
    /// When the compiler or the system does not say what it is.
    pub(super) fn look(project: &Project) -> Result<Self, String> {
        let said = |program: &str, arg: &str| {
            command::output(Command::new(program).arg(arg)).map(|text| text.trim().to_owned())
        };
        let lock = fs::read_to_string(project.root.join("benches/Cargo.lock")).unwrap_or_default();
        let mut versions = vec![("rustc".to_owned(), said("rustc", "--version")?.replace("rustc ", ""))];
        versions.extend(CRATES.iter().filter_map(|name| Some(((*name).to_owned(), locked(&lock, name)?))));
        let before = fs::read_to_string("/proc/stat").unwrap_or_default();
        thread::sleep(Duration::from_secs(1));
        let after = fs::read_to_string("/proc/stat").unwrap_or_default();
        Ok(Self {
            date: said("date", "+%Y-%m-%d")?,
            cpu: cpu_in(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: series(&said("uname", "-sr")?),
            versions,
            busy: busy_between(&before, &after),
        })
    }
}

/// A system and the series of its version, without what only one machine's build is called.
fn series(system: &str) -> String {
    let (name, version) = system.split_once(' ').unwrap_or((system, ""));
    let numbers: Vec<&str> = version.split(['.', '-']).take(2).collect();
    format!("{name} {}", numbers.join(".")).trim_end().to_owned()
}

/// The model of the first processor.
fn cpu_in(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": "))
        .map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned())
}

/// The version of a crate in a lock file.
fn locked(lock: &str, name: &str) -> Option<String> {
    let rest = lock.split(&format!("name = \"{name}\"\nversion = \"")).nth(1)?;
    Some(rest.split('"').next()?.to_owned())
}

/// The share of all cores' time that was not idle between two readings of `/proc/stat`; 0 where it cannot be told.
fn busy_between(before: &str, after: &str) -> f64 {
    let times = |text: &str| -> Option<(f64, f64)> {
        let numbers: Vec<f64> =
            text.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
        Some((numbers.iter().take(8).sum(), numbers.get(3)? + numbers.get(4)?))
    };
    match (times(before), times(after)) {
        (Some((all_before, idle_before)), Some((all, idle))) if all > all_before => {
            1.0 - (idle - idle_before) / (all - all_before)
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(cpu_in("processor\t: 0\nmodel name\t: A CPU 9\nmodel name\t: B\n"), "A CPU 9");
        assert_eq!(cpu_in(""), "unknown");
        assert_eq!(series("Linux 6.18.4-host-7"), "Linux 6.18");
        assert_eq!(series("Darwin"), "Darwin");
        let lock = "[[package]]\nname = \"hyper-util\"\nversion = \"0.1.2\"\n\n[[package]]\nname = \"hyper\"\nversion = \"1.12.0\"\n";
        assert_eq!(locked(lock, "hyper").as_deref(), Some("1.12.0"));
        assert_eq!(locked(lock, "rmcp"), None);
    }

    #[test]
    fn how_busy_it_was() {
        let busy = busy_between("cpu 10 0 10 100 0 0 0 0 0 0\n", "cpu 35 0 35 150 0 0 0 0 0 0\n");
        assert!((busy - 0.5).abs() < 1e-9, "{busy}");
        assert!(busy_between("", "").abs() < 1e-9);
    }
}
