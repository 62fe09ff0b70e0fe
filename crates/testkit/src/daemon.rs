//! A server that cannot be told to take any free port: it is given one, and another when somebody was quicker.

use crate::{Dir, PATIENCE};
use parking_lot::Mutex;
use std::{net::SocketAddr, path::Path, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

/// A running server with a folder of its own. Dropped, it is killed, and what it said is shown if the test failed.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    dir: Dir,
    log: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// Starts one and waits until it listens. `config` makes the text of its configuration for an address, which is written to
    /// a file; `command` makes the command for that file, in the folder.
    pub(crate) async fn start(
        name: &'static str,
        config: impl Fn(SocketAddr) -> String,
        command: impl Fn(&Path) -> Command,
    ) -> Self {
        let dir = Dir::new();
        let file = dir.join("config");
        for _ in 0..5 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            std::fs::write(&file, config(address)).unwrap();
            let mut command = command(&file);
            let mut child = command
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
            let log = Arc::new(Mutex::new(Vec::new()));
            let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
            let said = log.clone();
            let reading = tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    said.lock().push(line);
                }
            });
            let limit = tokio::time::Instant::now() + PATIENCE;
            loop {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                if TcpStream::connect(address).await.is_ok() {
                    return Self { name, child, address, dir, log };
                }
                assert!(tokio::time::Instant::now() < limit, "{name} does not listen: {:?}", log.lock());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let _ = crate::patiently("the last words", reading).await;
            let said = log.lock().join("\n");
            assert!(said.to_ascii_lowercase().contains("address already in use"), "{name} ended: {said}");
        }
        panic!("{name} found no free port")
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// What it has written to stderr.
    pub(crate) fn said(&self) -> String {
        self.log.lock().join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}\n---", self.name, self.said());
        }
        let _ = self.child.start_kill();
    }
}

/// The program that a variable of the runner names.
pub(crate) fn program(variable: &str) -> std::ffi::OsString {
    std::env::var_os(variable).unwrap_or_else(|| {
        panic!(
            "{variable} is not set: run `cargo xtask test`, which finds or unpacks the program and sets it"
        )
    })
}
