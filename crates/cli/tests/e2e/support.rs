//! Starts the program, speaks raw HTTP with it, ends it.

use rustix::process::{Pid, Signal, kill_process};
use std::{net::SocketAddr, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, ChildStderr, Command},
};

/// Far above what anything here takes, so that only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fails the test when `work` hangs.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: still not after {PATIENCE:?}"),
    }
}

/// The program with these arguments, without variables of whoever runs the tests.
pub(crate) fn bowline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BOWLINE_"))
    {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program that ends by itself.
pub(crate) async fn run(mut command: Command) -> Ended {
    let output = soon("the end of the program", command.output()).await.unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running `bowline serve`.
pub(crate) struct Served {
    process: Child,
    stderr: BufReader<ChildStderr>,
    /// What it has said on stderr so far.
    pub(crate) said: String,
    /// Where it serves.
    pub(crate) address: SocketAddr,
}

impl Served {
    /// Starts `bowline serve --port 0` with further arguments, and waits for its address.
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::spawn(bowline(&[&["serve", "--port", "0"], args].concat())).await
    }

    /// Starts a prepared command, and waits for its address.
    pub(crate) async fn spawn(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        soon("the start message", async {
            while !said.contains("Ctrl-C stops") {
                assert_ne!(stderr.read_line(&mut said).await.unwrap(), 0, "it ended: {said}");
            }
        })
        .await;
        let (_, rest) = said.split_once("://").unwrap();
        let address = rest.split('/').next().unwrap().parse().unwrap();
        Self { process, stderr, said, address }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Reads stderr up to a line that holds `text`.
    pub(crate) async fn says(&mut self, text: &str) {
        soon(text, async {
            let mut line = String::new();
            while !line.contains(text) {
                line.clear();
                assert_ne!(self.stderr.read_line(&mut line).await.unwrap(), 0, "it ended: {}", self.said);
                self.said.push_str(&line);
            }
        })
        .await;
    }

    /// Waits for its end without reading what it says.
    pub(crate) async fn code(mut self) -> Option<i32> {
        self.process.wait().await.unwrap().code()
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Ended {
        soon("the end of the program", async {
            let mut stdout = String::new();
            let mut out = self.process.stdout.take().unwrap();
            out.read_to_string(&mut stdout).await.unwrap();
            self.stderr.read_to_string(&mut self.said).await.unwrap();
            let code = self.process.wait().await.unwrap().code();
            Ended { code, stdout, stderr: self.said }
        })
        .await
    }

    /// Sends one request as it is, lines joined, and returns everything up to the end of the connection.
    pub(crate) async fn http(&self, lines: &[&str]) -> String {
        soon("an answer", async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        })
        .await
    }
}
