//! `rediss://`, with a user and a password.

use crate::support::{ALL, at, connect, event, expected, made, options};
use bowline_store::{Appended, StreamLog as _, WakeBus as _};
use bowline_store_redis::{ConnectError, Options, RedisStore};
use bowline_testkit::{Dir, Redis, free_port};
use std::{path::Path, process::Command, time::Duration};
use tokio::time::timeout;

/// Makes a certificate for this machine, and its key.
fn certificate(dir: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(dir.join("key"))
        .arg("-out")
        .arg(dir.join("crt"))
        .output()
        .expect("openssl is needed here");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[tokio::test]
async fn everything_goes_over_tls() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = Dir::new();
    certificate(dir.path());
    let port = free_port();
    let (key, crt) = (dir.join("key"), dir.join("crt"));
    let server = Redis::start(&format!(
        "tls-port {port}\ntls-auth-clients no\ntls-key-file {}\ntls-cert-file {}\ntls-ca-cert-file {}\n\
         user app on >sec%ret ~bowline:* &bowline:* +@all",
        key.display(),
        crt.display(),
        crt.display()
    ))
    .await;
    let url = format!("rediss://app:sec%25ret@localhost:{port}");
    let pem = std::fs::read(&crt).expect("the certificate");
    let trusting = || options(|o| o.root_certificates = Some(pem.clone()));
    let [store, other] = [connect(&url, trusting()).await, connect(&url, trusting()).await];
    let id = made(&store, 2).await;
    let mut wakeups = other.subscribe(id);
    while timeout(Duration::from_millis(200), wakeups.changed()).await.is_ok() {}
    assert_eq!(store.append(at(id, 1, 3), event(3)).await, Ok(Appended::New));
    timeout(Duration::from_secs(10), wakeups.changed()).await.expect("a wake-up");
    assert_eq!(other.read_after(id, 0, ALL).await.map(|page| page.events), Ok(expected(0, 3)));
    // Somebody whom nobody vouches for.
    let error = RedisStore::connect(&url, Options::default()).await.expect_err("no trust");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    drop(server);
}
