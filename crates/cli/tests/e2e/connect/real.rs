//! Servers on the official SDKs, killed and started again in the middle of calls; the host is the TypeScript SDK's stdio client.

use crate::support::{bowline, run, soon};
use bowline_testkit::{PATIENCE, RealServer, RunningServer, eventually};
use serde_json::Value;
use std::{path::PathBuf, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// The TypeScript SDK's stdio client with `bowline connect` as its server.
struct Sdk {
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    early: Vec<Value>,
}

impl Sdk {
    fn start(url: &str, era: &str) -> Self {
        let folder = std::env::var_os("BOWLINE_TEST_NODE_DIR").expect("run `cargo xtask test`");
        let mut command = Command::new("node");
        command.arg(PathBuf::from(folder).join("stdio.mjs")).arg(env!("CARGO_BIN_EXE_bowline"));
        command.args(["connect", url, "--outage", "40s", "--era", era]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, stdin, stdout, early: Vec::new() }
    }

    async fn does(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// What came of a step. Steps may end in any order.
    async fn outcome(&mut self, step: &str) -> Value {
        loop {
            if let Some(at) = self.early.iter().position(|line| line["step"] == step) {
                return self.early.remove(at);
            }
            let line = soon(step, self.stdout.next_line())
                .await
                .unwrap()
                .unwrap_or_else(|| panic!("ended before {step}"));
            self.early.push(serde_json::from_str(&line).unwrap());
        }
    }
}

async fn restarted_three_times(which: RealServer, era: &str) {
    let mut server = which.start().await;
    let mut host = Sdk::start(&server.url(), era);
    let connected = host.outcome("connect").await;
    assert_eq!(connected["ok"], true, "{connected}");
    host.does("echo before").await;
    assert_eq!(host.outcome("echo before").await["text"], "before");
    for round in 0..3 {
        let (lost, short) = (format!("lost-{round}"), format!("short-{round}"));
        host.does(&format!("count {short} 0")).await;
        assert_eq!(host.outcome(&format!("count {short} 0")).await["text"], format!("counted {short}"));
        host.does(&format!("count {lost} 60000")).await;
        eventually("the call runs", PATIENCE, || server.counted(&lost) == 1).await;
        server.kill().await;
        // Comes while nobody is there: it waits.
        host.does(&format!("echo meanwhile {round}")).await;
        server.start().await;
        let outcome = host.outcome(&format!("count {lost} 60000")).await;
        assert_eq!(
            (&outcome["ok"], &outcome["data"]["outcome"]),
            (&false.into(), &"unknown".into()),
            "{outcome}"
        );
        let meanwhile = host.outcome(&format!("echo meanwhile {round}")).await;
        assert_eq!(meanwhile["text"], format!("meanwhile {round}"), "{meanwhile}");
        host.does(&format!("echo after {round}")).await;
        let after = host.outcome(&format!("echo after {round}")).await;
        assert_eq!(after["text"], format!("after {round}"), "{after}");
        assert_eq!((server.counted(&lost), server.counted(&short)), (1, 1), "nothing ran twice");
    }
    host.does("list").await;
    let list = host.outcome("list").await;
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(2), "{list}");
    host.does("end").await;
    let end = host.outcome("end").await;
    assert_eq!((&end["responses"], &end["twice"]), (&14.into(), &0.into()), "{end}");
    assert!(soon("its end", host.process.wait()).await.unwrap().success());
}

/// The same with one process for each call: exit code 6 for the lost one, and the next works.
async fn killed_under_a_command(which: RealServer) {
    let mut server: RunningServer = which.start().await;
    let url = server.url();
    let lost = tokio::spawn(run(bowline(&["call", &url, "count", "note=lost", "ms:=60000"])));
    eventually("the call runs", PATIENCE, || server.counted("lost") == 1).await;
    server.kill().await;
    server.start().await;
    let ended = lost.await.unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(6), ""), "{}", ended.stderr);
    let ended = run(bowline(&["call", &url, "echo", "text=next"])).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "next\n"), "{}", ended.stderr);
    assert_eq!(server.counted("lost"), 1, "nothing ran twice");
}

macro_rules! servers {
    ($($name:ident: $which:ident),*) => { $(mod $name {
        use super::*;

        #[tokio::test]
        async fn restarted_three_times_under_a_host() {
            restarted_three_times(RealServer::$which, "detect").await;
        }

        /// With the handshake, and a session where the server has those.
        #[tokio::test]
        async fn restarted_three_times_under_a_host_in_an_older_revision() {
            restarted_three_times(RealServer::$which, "legacy").await;
        }

        #[tokio::test]
        async fn killed_under_one_command() {
            killed_under_a_command(RealServer::$which).await;
        }
    })* };
}
servers!(typescript_1: TypeScript1, typescript_2: TypeScript2, python: Python, fastmcp: FastMcp, rmcp: Rmcp);
