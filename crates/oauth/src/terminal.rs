//! Lines from the terminal, taken one by one and only while somebody wants one.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::fs::OFlags;
use rustix::{process::getpgrp, termios::tcgetpgrp};
use tokio::time::sleep;

use crate::browser::Lines;

/// Bytes of a line that are read.
const MAX_LINE: usize = 16 * 1024;

/// How often the terminal is looked at. Not every system can wait for a terminal and something else at a time, and a person does not
/// notice.
const LOOK: Duration = Duration::from_millis(100);

/// Lines from the controlling terminal, so that the standard input stays with the protocol that is spoken there.
///
/// A line that is typed after the login ended is left to whoever reads the terminal then: the next question, or the shell. So nothing
/// ever waits inside of a read, which could not be stopped.
#[derive(Debug, Clone)]
pub struct TerminalLines {
    path: PathBuf,
}

impl TerminalLines {
    /// Lines from the terminal, if there is one.
    #[must_use]
    pub fn open() -> Option<Self> {
        let lines = Self { path: "/dev/tty".into() };
        lines.file().ok().map(|_| lines)
    }

    /// The terminal with a way of reading that is its own: how others read it stays as it is.
    fn file(&self) -> std::io::Result<File> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        let flags = i32::try_from(flags).map_err(|_| ErrorKind::Unsupported)?;
        File::options().read(true).custom_flags(flags).open(&self.path)
    }
}

impl Lines for TerminalLines {
    fn next(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let mut terminal = self.file().ok()?;
            let mut line = Vec::new();
            let mut chunk = [0; 1024];
            loop {
                // Who reads from the background is stopped by the system.
                let in_front = tcgetpgrp(&terminal).is_ok_and(|front| front != getpgrp());
                if in_front {
                    sleep(LOOK).await;
                    continue;
                }
                match terminal.read(&mut chunk) {
                    Ok(0) => return None,
                    // The terminal gives out whole lines, one at a time.
                    Ok(read) => {
                        line.extend_from_slice(&chunk[..read]);
                        if line.ends_with(b"\n") || line.len() >= MAX_LINE {
                            return Some(String::from_utf8_lossy(&line).into_owned());
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(LOOK).await,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return None,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::ffi::OsStringExt as _;

    /// A terminal: the side of the person, and the path of the side of programs.
    fn terminal() -> (File, PathBuf) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let path = ptsname(&person, Vec::new()).unwrap().into_bytes();
        (person.into(), PathBuf::from(std::ffi::OsString::from_vec(path)))
    }

    #[tokio::test]
    async fn lines_come_one_by_one() {
        let (mut person, path) = terminal();
        let lines = TerminalLines { path: path.clone() };
        // Held open, as a shell does.
        let _shell = lines.file().unwrap();
        person.write_all(b"first\nsecond\n").unwrap();
        assert_eq!(lines.next().await.as_deref(), Some("first\n"));
        assert_eq!(lines.next().await.as_deref(), Some("second\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn lines_after_the_login_belong_to_the_next_reader() {
        let (mut person, path) = terminal();
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let shell = File::options().read(true).custom_flags(flags).open(&path).unwrap();
        let lines = TerminalLines { path };
        // Nobody types, and the login ends in the browser.
        assert!(tokio::time::timeout(Duration::from_secs(5), lines.next()).await.is_err());
        person.write_all(b"one\ntwo\nend\n").unwrap();
        // Whoever wants a line too many has time to take it.
        sleep(Duration::from_secs(5)).await;
        let next: Vec<String> =
            BufReader::new(shell).lines().map(Result::unwrap).take_while(|line| line != "end").collect();
        assert_eq!(next, ["one", "two"]);
    }

    #[tokio::test]
    async fn no_terminal_has_no_lines() {
        assert_eq!(TerminalLines { path: "/nowhere/at-all".into() }.next().await, None);
    }
}
