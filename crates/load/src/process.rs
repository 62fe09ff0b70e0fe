//! What a process on this machine has used, as the system says (Linux: `/proc`).

use std::{fs, io, time::Duration};

/// The length of the system's clock tick: Linux tells programs 100 a second on every architecture that we build for.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time that a process has used so far, in user and kernel mode, over the threads that it has.
///
/// In nanoseconds where the kernel keeps account of them, else in steps of 10 ms.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let precise = fs::read_dir(format!("/proc/{pid}/task"))?
        .map(|task| {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            first_number(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        })
        .sum::<io::Result<u64>>();
    match precise {
        Ok(nanos) if nanos > 0 => Ok(Duration::from_nanos(nanos)),
        _ => ticks_in(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
            .ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// The memory that a process has in RAM, in bytes.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn resident(pid: u32) -> io::Result<u64> {
    resident_in(&fs::read_to_string(format!("/proc/{pid}/status"))?)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// User and system time in the text of `/proc/PID/stat`. The name of the program stands in parentheses and may hold anything.
fn ticks_in(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: u32 = fields.nth(11)?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    first_number(line).map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_writes_is_read() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 1 0 100 1 2";
        assert_eq!(ticks_in(stat), Some(Duration::from_millis(120)));
        assert_eq!(ticks_in("42 a"), None);
        assert_eq!(resident_in("VmPeak:\t 9 kB\nVmRSS:\t    3504 kB\n"), Some(3504 * 1024));
        assert_eq!(resident_in("VmPeak: 9 kB"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_something() {
        let pid = std::process::id();
        let before = cpu_time(pid).unwrap();
        let mut n = 0_u64;
        while cpu_time(pid).unwrap() == before {
            n = std::hint::black_box(n.wrapping_mul(31) + 1);
        }
        assert!(resident(pid).unwrap() > 100_000);
        assert!(cpu_time(u32::MAX).is_err());
    }
}
