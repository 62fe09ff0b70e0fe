//! A server that wants a login: the address is printed, the answer is received, the login is kept.

use super::assert_prints;
use crate::{
    authorization::{Guarded, browse},
    support::{bowline, run, soon},
};
use bowline_testkit::Dir;
use std::os::unix::fs::PermissionsExt as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::test]
async fn one_login_and_no_second_one() {
    let server = Guarded::start().await;
    let dir = Dir::new();
    let file = dir.join("credentials.json");
    let args = ["list", &server.url(), "--no-browser", "--credentials", file.to_str().unwrap()];
    let mut child = bowline(&args).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = soon("the address", async {
        loop {
            let line = said.next_line().await.unwrap().expect("an address");
            if line.contains("/authorize?") {
                break line;
            }
        }
    })
    .await;
    let page = browse(&address).await;
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let output = soon("its end", child.wait_with_output()).await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"secret()\n"[..]));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_prints(&run(bowline(&args)).await, "secret()\n");
    assert_eq!(server.logins(), 1);
}

#[tokio::test]
async fn nobody_logs_in() {
    let server = Guarded::start().await;
    let dir = Dir::new();
    let file = dir.join("credentials.json");
    let args = [
        "list",
        &server.url(),
        "--no-browser",
        "--auth-timeout",
        "1",
        "--credentials",
        file.to_str().unwrap(),
    ];
    let ended = run(bowline(&args)).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("nobody finished the login"), "{}", ended.stderr);
}
