//! Real servers: programs on the official SDKs, served over HTTP with stock settings, that a test kills and starts again.

use crate::{Dir, PATIENCE, clients::variable, processes, repository};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// One of the server programs in `tests/clients`. All have the tools `echo {text}` and `count {note, ms}`: a line in the ledger,
/// then so many milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealServer {
    /// npm `@modelcontextprotocol/sdk`.
    TypeScript1,
    /// npm `@modelcontextprotocol/server`.
    TypeScript2,
    /// `PyPI` `mcp`.
    Python,
    /// `PyPI` `fastmcp`.
    FastMcp,
    /// The crate `rmcp`.
    Rmcp,
}

/// A server at an address of its own, which it keeps when it is started again.
#[derive(Debug)]
pub struct RunningServer {
    which: RealServer,
    port: u16,
    dir: Dir,
    child: Option<Child>,
}

impl RealServer {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::TypeScript1, Self::TypeScript2, Self::Python, Self::FastMcp, Self::Rmcp];

    fn command(self, port: u16, ledger: &Path) -> Command {
        let script = |program: PathBuf, script: PathBuf| {
            let mut command = Command::new(program);
            command.arg(script);
            command
        };
        let node = |name: &str| {
            script("node".into(), PathBuf::from(variable("BOWLINE_TEST_NODE_DIR")).join("servers").join(name))
        };
        let python = |name: &str| {
            let folder = repository().join("tests/clients/python/servers");
            script(variable("BOWLINE_TEST_PYTHON").into(), folder.join(name))
        };
        let mut command = match self {
            Self::TypeScript1 => node("v1.mjs"),
            Self::TypeScript2 => node("v2.mjs"),
            Self::Python => python("sdk.py"),
            Self::FastMcp => python("fast.py"),
            Self::Rmcp => Command::new(
                PathBuf::from(variable("BOWLINE_TEST_RMCP_CLIENT")).with_file_name("bowline-rmcp-server"),
            ),
        };
        command.arg(port.to_string()).arg(ledger).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Starts it on a free port.
    pub async fn start(self) -> RunningServer {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut server = RunningServer { which: self, port, dir: Dir::new(), child: None };
        server.start().await;
        server
    }
}

impl RunningServer {
    /// Where it serves.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Starts it (again), and waits until it serves.
    pub async fn start(&mut self) {
        let mut child =
            self.which.command(self.port, &self.dir.join("ledger")).spawn().unwrap_or_else(|error| {
                panic!("cannot start {:?}: {error}; run `cargo xtask test`", self.which)
            });
        let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = tokio::time::timeout(PATIENCE * 2, said.next_line()).await;
        let ready = ready.unwrap_or_else(|_| panic!("{:?} does not start", self.which)).unwrap();
        assert_eq!(ready.as_deref(), Some("ready"), "{:?}", self.which);
        self.child = Some(child);
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        processes::kill(child.id().expect("it runs"));
        child.wait().await.unwrap();
    }

    /// How often `note` was counted.
    #[must_use]
    pub fn counted(&self, note: &str) -> usize {
        let ledger = std::fs::read_to_string(self.dir.join("ledger")).unwrap_or_default();
        ledger.lines().filter(|line| *line == note).count()
    }
}
