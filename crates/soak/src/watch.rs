//! The program from the outside: its memory, descriptors, processes and `/metrics`.

use crate::journal::{Phase, Sample};
use bowline_testkit::{Answer, Raw, processes};
use std::{collections::BTreeMap, net::SocketAddr};

/// Who looks.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The program.
    pub pid: u32,
    /// Where it serves.
    pub address: SocketAddr,
    /// A token that may read the metrics.
    pub token: String,
}

impl Watch {
    /// The processes of the tool, as they are now.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let all = processes::descendants(self.pid);
        let tools = all.iter().filter(|process| {
            let program = process.command.split(' ').next().unwrap_or_default();
            program.ends_with("bowline-soak-tool")
        });
        tools.map(|process| process.pid).collect()
    }

    /// Everything at once; `None` when the program does not answer.
    pub async fn sample(&self, phase: Phase) -> Option<Sample> {
        let metrics = self.metrics().await?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let fds = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).ok()?.count() as u64;
        Some(Sample {
            phase,
            rss_kib: field(&status, "VmRSS:")?,
            fds,
            children: self.children().len() as u64,
            cpu_ms: cpu_ms(self.pid).unwrap_or_default(),
            metrics,
        })
    }

    async fn metrics(&self) -> Option<BTreeMap<String, u64>> {
        let raw = Raw::try_connect(self.address).await.ok()?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.address, self.token
        );
        let mut answer = Answer::try_to(raw, request).await.ok()?;
        (answer.status() == 200).then_some(())?;
        Some(numbers(&answer.text().await))
    }
}

/// The samples without labels, their prefix and the `_total` of counters left out.
fn numbers(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains('{'));
    lines
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            let name = name.strip_prefix("bowline_").unwrap_or(name);
            Some((name.strip_suffix("_total").unwrap_or(name).to_owned(), value.parse().ok()?))
        })
        .collect()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time, at the 100 ticks a second that Linux shows.
#[must_use]
pub fn cpu_ms(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        let text = "# HELP bowline_calls x\nbowline_calls 3\nbowline_polls_total 7\nbowline_x_total{a=\"b\"} 1\n# EOF\n";
        let numbers = numbers(text);
        assert_eq!(numbers, BTreeMap::from([("calls".into(), 3), ("polls".into(), 7)]));
        assert_eq!(field("VmPeak:\t 9 kB\nVmRSS:\t  123 kB\n", "VmRSS:"), Some(123));
        assert!(cpu_ms(std::process::id()).is_some());
    }
}
