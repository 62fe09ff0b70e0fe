//! HTTPS: what is served, what is refused, and how a certificate is exchanged.

use crate::support::{Served, bowline, run, soon};
use bowline_testkit::{Dir, initialize};
use rustix::process::Signal;
use std::{net::SocketAddr, path::Path, process::Command, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

/// Makes a certificate for this machine, and its key.
fn certificate(dir: &Path, name: &str) {
    let config = dir.join("openssl.cnf");
    std::fs::write(
        &config,
        "[req]\nprompt = no\ndistinguished_name = dn\nx509_extensions = ext\n[dn]\nCN = localhost\n[ext]\n\
         basicConstraints = critical, CA:FALSE\nsubjectAltName = DNS:localhost, IP:127.0.0.1\n",
    )
    .unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-config"])
        .arg(&config)
        .arg("-keyout")
        .arg(dir.join(format!("{name}.key")))
        .arg("-out")
        .arg(dir.join(format!("{name}.crt")))
        .output()
        .expect("openssl is needed here");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn der(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}

/// Connects, trusting one certificate alone.
async fn connect(
    address: SocketAddr,
    trusted: &Path,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(der(trusted)).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// One request, and everything up to the end of the connection.
async fn exchange(mut stream: TlsStream<TcpStream>, request: &str) -> String {
    soon("an answer", async {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    })
    .await
}

async fn start(dir: &Dir, options: &[&str]) -> Served {
    std::fs::copy(dir.join("one.crt"), dir.join("crt")).unwrap();
    std::fs::copy(dir.join("one.key"), dir.join("key")).unwrap();
    let (crt, key) = (dir.join("crt"), dir.join("key"));
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/fixture_server.py");
    let paths = ["--tls-cert", crt.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    Served::start(&[&paths[..], options, &["--", "python3", "-B", fixture]].concat()).await
}

#[tokio::test]
async fn https_is_served_and_ends_in_order() {
    let dir = Dir::new();
    certificate(dir.path(), "one");
    let served = start(&dir, &[]).await;
    assert!(served.said.contains(&format!("https://{}/mcp", served.address)), "{}", served.said);
    let body = initialize("2025-11-25").to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for alpn in [&[][..], &[&b"http/1.1"[..]], &[b"h2", b"http/1.1"]] {
        let stream = connect(served.address, &dir.join("one.crt"), alpn).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed, (!alpn.is_empty()).then(|| b"http/1.1".to_vec()));
        let answer = exchange(stream, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("mcp-session-id"), "{answer}");
    }
    // Plain HTTP is no handshake: the connection ends, and others are served.
    let plain = served.http(&["GET /healthz HTTP/1.1", "Host: localhost"]).await;
    assert!(!plain.contains("200 OK"), "{plain}");
    let stream = connect(served.address, &dir.join("one.crt"), &[]).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = exchange(stream, request).await;
    assert!(answer.contains("bowline_handshakes_failed_total 1\n"), "{answer}");
    // A connection that is kept does not hold the end up.
    let kept = connect(served.address, &dir.join("one.crt"), &[]).await.unwrap();
    served.signal(Signal::TERM);
    let ended = served.end().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    drop(kept);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_not_waited_for() {
    let dir = Dir::new();
    certificate(dir.path(), "one");
    let served = start(&dir, &["--handshake-timeout", "300ms"]).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut nothing = Vec::new();
    let before = tokio::time::Instant::now();
    let _ = soon("the end", silent.read_to_end(&mut nothing)).await;
    let took = tokio::time::Instant::now() - before;
    assert!(nothing.is_empty() && took >= Duration::from_millis(250), "{took:?}");
}

#[tokio::test]
async fn a_certificate_is_exchanged_without_a_restart() {
    let dir = Dir::new();
    certificate(dir.path(), "one");
    certificate(dir.path(), "two");
    let mut served = start(&dir, &[]).await;
    let kept = connect(served.address, &dir.join("one.crt"), &[]).await.unwrap();
    // On change, one file after the other.
    std::fs::copy(dir.join("two.key"), dir.join("key")).unwrap();
    std::fs::copy(dir.join("two.crt"), dir.join("crt")).unwrap();
    served.says("the certificate and its key were read again").await;
    let stream = connect(served.address, &dir.join("two.crt"), &[]).await.unwrap();
    assert_eq!(stream.get_ref().1.peer_certificates().unwrap()[0], der(&dir.join("two.crt")));
    assert!(connect(served.address, &dir.join("one.crt"), &[]).await.is_err());
    // On SIGHUP, at once; what does not fit stays out.
    std::fs::copy(dir.join("one.key"), dir.join("key")).unwrap();
    served.signal(Signal::HUP);
    served.says("is not the one of the first certificate").await;
    connect(served.address, &dir.join("two.crt"), &[]).await.unwrap();
    std::fs::copy(dir.join("one.crt"), dir.join("crt")).unwrap();
    served.signal(Signal::HUP);
    served.says("were read again").await;
    connect(served.address, &dir.join("one.crt"), &[]).await.unwrap();
    // Connections from before go on.
    let answer = exchange(kept, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn wrong_files_are_explained() {
    let dir = Dir::new();
    certificate(dir.path(), "one");
    certificate(dir.path(), "two");
    std::fs::write(dir.join("empty"), "").unwrap();
    std::fs::write(dir.join("broken"), "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n")
        .unwrap();
    for (cert, key, message) in [
        ("missing", "one.key", "missing cannot be read"),
        ("one.crt", "missing", "missing cannot be read"),
        ("empty", "one.key", "there is no certificate in it"),
        ("broken", "one.key", "not a usable PEM file"),
        ("one.crt", "empty", "there is no private key in it"),
        ("one.crt", "one.crt", "there is no private key in it"),
        ("one.crt", "two.key", "is not the one of the first certificate"),
    ] {
        let (cert, key) = (dir.join(cert), dir.join(key));
        let args = [
            "serve",
            "--port",
            "0",
            "--tls-cert",
            cert.to_str().unwrap(),
            "--tls-key",
            key.to_str().unwrap(),
            "--",
            "cat",
        ];
        let ended = run(bowline(&args)).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{cert:?} {key:?}: {}", ended.stderr);
    }
}
