//! The writing process: the example `load`.

#![allow(dead_code, reason = "each test file uses some of it")]

use super::traffic::Ack;
use bowline_proto::cursor::StreamId;
use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::Duration,
};

/// A process that writes, and what it said.
pub(crate) struct Writer {
    child: Child,
    acks: Receiver<Ack>,
}

impl Writer {
    pub(crate) fn start(arguments: &[&str], path: &Path) -> Self {
        let mut command = Command::new(program());
        command.arg(arguments[0]).arg(path).args(&arguments[1..]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let out = child.stdout.take().expect("it is a pipe");
        let (sender, acks) = sync_channel(1 << 20);
        thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            // A last line without its end was not said.
            while out.read_line(&mut line).is_ok_and(|count| count > 0) && line.ends_with('\n') {
                let ack = parse(line.trim_end()).expect("a line that the example writes");
                if sender.send(ack).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Self { child, acks }
    }

    /// The next thing that it says.
    pub(crate) fn next(&self) -> Ack {
        self.acks.recv_timeout(Duration::from_secs(60)).expect("it says something")
    }

    /// Kills it with SIGKILL, and returns all that it said until then.
    pub(crate) fn kill(mut self) -> Vec<Ack> {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is our child");
        self.acks.iter().collect()
    }

    /// What it ended with, if it has.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }
}

/// What a line says.
fn parse(line: &str) -> Option<Ack> {
    let mut words = line.split(' ');
    let (what, name) = (words.next()?, words.next()?);
    let mut number = || words.next()?.parse().ok();
    Some(match what {
        "created" => Ack::Created(stream(name)?),
        "appended" => Ack::Appended(stream(name)?, number()?),
        "sealed" => Ack::Sealed(stream(name)?, number()?),
        "letter" => Ack::Letter(stream(name)?),
        "session" => Ack::Session(name.to_owned(), number()?),
        _ => return None,
    })
}

fn stream(hex: &str) -> Option<StreamId> {
    u128::from_str_radix(hex, 16).ok().map(|id| StreamId::from_bytes(id.to_be_bytes()))
}

/// Where cargo puts the example beside the tests.
pub(crate) fn program() -> PathBuf {
    let mut path = std::env::current_exe().expect("a test has a path");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    let path = path.join("examples").join("load");
    assert!(path.is_file(), "build it first: cargo build -p bowline-store-sqlite --examples");
    path
}
