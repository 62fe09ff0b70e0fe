//! HTTPS: a certificate and its key, exchanged while they are in use. Nothing here ever shows a key.

use super::reload::Reload;
use bowline_server::Secure;
use parking_lot::RwLock;
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, InconsistentKeys, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject as _},
        },
    },
    server::TlsStream,
};

/// Why HTTPS cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{option} {} cannot be read: {source}", path.display())]
    Read { option: &'static str, path: PathBuf, source: io::Error },
    #[error("--tls-cert {}: there is no certificate in it; a PEM file has lines -----BEGIN CERTIFICATE-----", .0.display())]
    NoCertificate(PathBuf),
    #[error(
        "--tls-key {}: there is no private key in it; a PEM file has a line -----BEGIN PRIVATE KEY----- (an encrypted key cannot be used: decrypt it with `openssl pkey`)",
        .0.display()
    )]
    NoKey(PathBuf),
    #[error("{option} {}: not a usable PEM file: {source}", path.display())]
    Pem { option: &'static str, path: PathBuf, source: pem::Error },
    #[error("the key in {} is not the one of the first certificate in {}", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("{} and {} cannot be used: {source}", cert.display(), key.display())]
    Unusable { cert: PathBuf, key: PathBuf, source: rustls::Error },
}

/// The TLS side of a listener.
pub(crate) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn new(cert: PathBuf, key: PathBuf) -> Result<Arc<Self>, TlsError> {
        let current = RwLock::new(Arc::new(load(&cert, &key)?));
        Ok(Arc::new(Self { cert, key, current }))
    }

    fn current(&self) -> Arc<ServerConfig> {
        self.current.read().clone()
    }
}

fn load(cert: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let read = |option, path: &Path| {
        fs::read(path).map_err(|source| TlsError::Read { option, path: path.into(), source })
    };
    let chain = CertificateDer::pem_slice_iter(&read("--tls-cert", cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::Pem { option: "--tls-cert", path: cert.into(), source })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(cert.into()));
    }
    let private = PrivateKeyDer::from_pem_slice(&read("--tls-key", key)?).map_err(|source| match source {
        pem::Error::NoItemsFound => TlsError::NoKey(key.into()),
        source => TlsError::Pem { option: "--tls-key", path: key.into(), source },
    })?;
    let unusable = |source| match source {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsError::Mismatch { cert: cert.into(), key: key.into() }
        }
        source => TlsError::Unusable { cert: cert.into(), key: key.into(), source },
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

impl Secure for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn secure(&self, stream: TcpStream) -> io::Result<Self::Stream> {
        TlsAcceptor::from(self.current()).accept(stream).await
    }
}

impl Reload for Tls {
    fn what(&self) -> &'static str {
        "the certificate and its key"
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.cert.clone(), self.key.clone()]
    }

    fn reload(&self) -> Result<(), String> {
        let config = load(&self.cert, &self.key).map_err(|error| error.to_string())?;
        *self.current.write() = Arc::new(config);
        Ok(())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).field("key", &self.key).finish_non_exhaustive()
    }
}
