//! What a production user needs in the first hour: who may call, what is seen, what is bounded, what is encrypted.

mod admin;
mod auth;
mod crowds;
mod limits;
mod logs;
mod tls;

use bowline_testkit::{Answer, Program, Raw};
use std::{collections::BTreeMap, net::SocketAddr};

/// A GET on a new connection.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    Answer::to(Raw::connect(address).await, request).await
}

/// The samples of `/metrics`, their labels included.
pub(crate) async fn metrics_at(address: SocketAddr) -> BTreeMap<String, u64> {
    let mut answer = get(address, "/metrics").await;
    assert_eq!(answer.status(), 200, "{}", answer.head.text);
    let text = answer.text().await;
    assert!(text.ends_with("# EOF\n"), "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(sample, value)| (sample.to_owned(), value.parse().unwrap()))
        .collect()
}

pub(crate) async fn metrics(program: &Program) -> BTreeMap<String, u64> {
    metrics_at(program.address()).await
}

/// The memory of the program that is in use, in MiB.
pub(crate) fn resident(program: &Program) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
