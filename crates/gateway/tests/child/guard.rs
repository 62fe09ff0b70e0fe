//! The guard: nothing survives a gateway that was killed with SIGKILL.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_gateway::child::{Guard, GuardCommand, GuardError};
use tokio::time::Instant;

use crate::orphans::DEAF;
use crate::support::{PATIENCE, all_gone, exists, guarded, line, spawn, start_guard};

fn kill(signal: &str, target: &str) {
    assert!(Command::new("kill").args([signal, "--", target]).status().unwrap().success());
}

/// A gateway in a process of its own with a deaf child: its process ids are guard, child and grandchild.
fn gateway() -> (std::process::Child, [u32; 3]) {
    use std::os::unix::process::CommandExt as _;
    let mut gateway = Command::new(guarded())
        .args(["/bin/sh", "-c", DEAF])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    let words: Vec<&str> = first.split(' ').collect();
    let grandchild = lines.next().unwrap().parse().unwrap();
    (gateway, [words[1].parse().unwrap(), words[3].parse().unwrap(), grandchild])
}

#[tokio::test]
async fn sigkill_of_the_gateway_leaves_nothing() {
    let (mut gateway, pids) = gateway();
    assert!(pids.iter().all(|pid| exists(*pid)));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    all_gone(&pids, PATIENCE).await;
}

#[tokio::test]
async fn signals_to_the_group_of_the_gateway_do_not_reach_the_guard() {
    let (mut gateway, pids) = gateway();
    kill("-INT", &format!("-{}", gateway.id()));
    gateway.wait().unwrap();
    all_gone(&pids, PATIENCE).await;
}

#[tokio::test]
async fn a_killed_guard_is_replaced_and_knows_the_children() {
    let (mut gateway, pids) = gateway();
    let before = Instant::now();
    kill("-KILL", &pids[0].to_string());
    // Its successor is the process that reads the pipe and is no child of ours: found by its name.
    let successor = loop {
        let out = Command::new("pgrep")
            .args(["-P", &gateway.id().to_string(), "-x", "bowline-guard"])
            .output()
            .unwrap();
        match String::from_utf8_lossy(&out.stdout).trim().parse::<u32>() {
            Ok(pid) if pid != pids[0] => break pid,
            _ => assert!(Instant::now() - before < PATIENCE, "no other guard came"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(exists(pids[1]) && exists(pids[2]), "the death of a guard costs no child");
    // The name appears a moment before the list of groups was sent.
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    all_gone(&[successor, pids[1], pids[2]], PATIENCE).await;
}

#[tokio::test]
async fn the_guard_leaves_with_its_last_handle_and_child() {
    let guard = start_guard();
    let pid = guard.pid().unwrap();
    let (child, mut lines) = spawn("echo up; cat", &guard);
    drop(guard);
    line(&mut lines).await;
    assert!(exists(pid));
    child.shutdown(Duration::from_secs(5)).await;
    drop(child);
    all_gone(&[pid], PATIENCE).await;
}

#[tokio::test]
async fn a_launcher_whose_gateway_died_first_never_runs_the_program() {
    let mut launcher = Command::new(guarded())
        .args(["__launch", "/bin/sh", "-c", "echo ran"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(launcher.stdin.take());
    let out = launcher.wait_with_output().unwrap();
    assert!(!out.status.success());
    assert_eq!(out.stdout, b"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_at_once() {
    let guard = start_guard();
    let mut tasks = Vec::new();
    for n in 0..50 {
        let guard = guard.clone();
        tasks.push(tokio::spawn(async move {
            let (child, mut lines) = spawn("echo ready; cat", &guard);
            assert_eq!(line(&mut lines).await, "ready");
            child.send(format!("hello {n}").into()).await.unwrap();
            assert_eq!(line(&mut lines).await, format!("hello {n}"));
            let exit = child.shutdown(Duration::from_secs(10)).await;
            assert!(exit.requested, "{exit}");
            child.pid()
        }));
    }
    let mut pids = vec![guard.pid().unwrap()];
    for task in tasks {
        pids.push(task.await.unwrap());
    }
    drop(guard);
    // Also the guard: none of the fifty has inherited its pipe.
    all_gone(&pids, PATIENCE).await;
}

#[tokio::test]
async fn children_inherit_no_descriptor_of_the_gateway() {
    let guard = start_guard();
    // Pipes to another child are open here meanwhile.
    let (other, _other_lines) = spawn("exec sleep 600", &guard);
    let (child, mut lines) = spawn("echo up; read x", &guard);
    assert_eq!(line(&mut lines).await, "up");
    if cfg!(target_os = "linux") {
        let inherited = own_inheritable();
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.pid())).unwrap().flatten();
        let fds: Vec<u32> = open.map(|fd| fd.file_name().to_str().unwrap().parse().unwrap()).collect();
        assert!(fds.len() >= 3, "{fds:?}");
        let extra: Vec<_> = fds.into_iter().filter(|fd| *fd > 2 && !inherited.contains(fd)).collect();
        assert_eq!(extra, [0; 0], "besides stdin, stdout and stderr");
    }
    child.shutdown(Duration::from_secs(5)).await;
    other.shutdown(Duration::ZERO).await;
}

/// Descriptors that the test program itself was given and hands on to every child.
fn own_inheritable() -> Vec<u32> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let info = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("02000000").trim();
        if u32::from_str_radix(flags, 8).unwrap() & 0o2_000_000 == 0 {
            all.push(entry.file_name().to_str().unwrap().parse().unwrap());
        }
    }
    all
}

#[test]
fn a_program_that_is_no_guard_is_refused() {
    for (program, words) in
        [("/bin/true", "did not answer as a guard"), ("/no/such", "cannot start the guard process")]
    {
        let command = GuardCommand { program: program.into(), guard_args: vec![], launch_args: vec![] };
        let error: GuardError = Guard::start(command).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
