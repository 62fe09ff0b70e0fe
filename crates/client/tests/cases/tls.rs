//! HTTPS, with the roots and the provider that the program hands in.

use crate::kit::*;
use bowline_client::{Client, ConnectError, Target};
use bowline_testkit::{
    Dir,
    scripted::{Scripted, on},
};
use std::{net::SocketAddr, path::Path, process::Command, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
        time_provider::TimeProvider,
    },
};

/// A certificate for 127.0.0.1 that signs itself: `cert.pem` and `key.pem`.
fn certificate(dir: &Path) {
    let config = dir.join("openssl.cnf");
    let text = "[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN=test\n[ext]\n\
                subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n";
    std::fs::write(&config, text).unwrap();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .arg("-config")
        .arg(&config)
        .arg("-keyout")
        .arg(dir.join("key.pem"))
        .arg("-out")
        .arg(dir.join("cert.pem"))
        .output()
        .expect("openssl is needed here");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// TLS in front of `to`.
async fn terminate(dir: &Path, to: SocketAddr) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_file(dir.join("cert.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(stream).await else { return };
                let mut inner = TcpStream::connect(to).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut outer, &mut inner).await);
            });
        }
    });
    address
}

fn trusting(roots: &[CertificateDer<'static>]) -> Arc<ClientConfig> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    Arc::new(config)
}

#[tokio::test]
async fn https_works_with_the_roots_that_are_trusted_and_with_no_others() {
    let dir = Dir::new();
    certificate(dir.path());
    let primed = on("POST", "tools/call").stream().raw("id: p\nretry: 10\ndata:\n\n").close();
    let done = on("GET", "").stream().raw(format!("data: {}\n\n", RESULT.replace("$ID", "2"))).close();
    let server = Scripted::start(with_session([primed, done])).await;
    let address = terminate(dir.path(), server.address()).await;
    let target = || Target::http(&format!("https://{address}/mcp")).unwrap();

    let mut options = options();
    options.tls = Some(trusting(&[CertificateDer::from_pem_file(dir.path().join("cert.pem")).unwrap()]));
    let client = Client::connect(target(), options.clone()).await.unwrap();
    assert_eq!(text(call(&client).await), "done");

    options.tls = Some(trusting(&[]));
    let refused = Client::connect(target(), options).await;
    let Err(ConnectError::Failed { message, .. }) = refused else { panic!("{refused:?}") };
    let wanted = format!("the certificate of {address} is signed by nobody whom this machine trusts");
    assert!(message.contains(&wanted) && message.contains("SSL_CERT_FILE"), "{message}");
    assert_eq!(server.count("POST", "initialize"), 1);

    // A redirect to the clear is not followed.
    let away = on("POST", "initialize").answer(307, &format!("location: http://{address}/mcp\r\n"), "");
    server.prepend([away]);
    let mut options = crate::kit::options();
    options.tls = Some(trusting(&[CertificateDer::from_pem_file(dir.path().join("cert.pem")).unwrap()]));
    let refused = Client::connect(target(), options).await;
    let Err(ConnectError::Failed { message, .. }) = refused else { panic!("{refused:?}") };
    assert!(message.contains("in the clear"), "{message}");
}

/// A web server that makes nothing of what it is sent.
async fn in_the_clear() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(stream.read(&mut [0; 16]).await);
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await);
        }
    });
    address
}

/// A clock that stands.
#[derive(Debug)]
struct Clock(u64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

/// What a person is told, at once and without the words of a library, whatever the outage that is waited for.
#[tokio::test]
async fn trouble_with_tls_is_told_at_once_and_in_words() {
    let dir = Dir::new();
    certificate(dir.path());
    let own = CertificateDer::from_pem_file(dir.path().join("cert.pem")).unwrap();
    let server = Scripted::start(with_session([])).await;
    let address = terminate(dir.path(), server.address()).await;
    let at = |seconds| {
        let mut store = RootCertStore::empty();
        store.add(own.clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_details(provider, Arc::new(Clock(seconds)))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(store)
            .with_no_client_auth();
        Some(Arc::new(config))
    };
    let trusts = || Some(trusting(std::slice::from_ref(&own)));
    let (port, plain) = (address.port(), in_the_clear().await);
    for (url, tls, parts) in [
        (format!("https://{address}/"), at(0), ["is not valid yet", "clock"]),
        (format!("https://{address}/"), at(4_000_000_000), ["expired", "days ago"]),
        (format!("https://localhost:{port}/"), trusts(), ["for another name (127.0.0.1)", "localhost"]),
        (format!("https://{plain}/"), trusts(), ["does not answer in TLS", "begins with http://"]),
        (format!("http://{address}/"), None, ["not HTTP", "begins with https://"]),
    ] {
        let mut options = options();
        options.tls = tls;
        options.connect_outage = Duration::from_secs(60);
        let (refused, _) = timed(Client::connect(Target::http(&url).unwrap(), options)).await;
        let Err(ConnectError::Failed { message, .. }) = refused else { panic!("{url}: {refused:?}") };
        assert!(parts.iter().all(|part| message.contains(part)), "{url}: {message}");
    }
}

/// Web servers answer in the clear where somebody spoke to their TLS in the clear.
#[tokio::test]
async fn a_page_that_asks_for_https_is_understood() {
    for page in [
        "<title>400 The plain HTTP request was sent to HTTPS port</title>",
        "Client sent an HTTP request to an HTTPS server.\n",
        "Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />",
    ] {
        let server = Scripted::start([on("POST", "").always().answer(400, "", page)]).await;
        let mut options = options();
        options.connect_outage = Duration::from_secs(60);
        let (refused, _) = timed(Client::connect(Target::http(&server.url()).unwrap(), options)).await;
        let Err(ConnectError::Failed { message, .. }) = refused else { panic!("{page}: {refused:?}") };
        assert!(message.contains("begin with https://"), "{page}: {message}");
    }
}
