//! Connections: hyper's pooling client, with or without TLS.

use super::trouble::trouble;
use crate::{ClientOptions, ConnectError, target::shown};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use std::time::Duration;

/// How often the system asks whether a silent peer is there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// A request that got no status.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// No connection could be made: not a byte left.
    pub(crate) unreachable: bool,
    /// It is no use to try again soon: the server is there, and is not what it has to be.
    pub(crate) lasts: bool,
    pub(crate) message: String,
}

#[derive(Clone)]
pub(crate) enum Agent {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Agent {
    /// Connections to where `uri` leads.
    pub(crate) fn new(uri: &Uri, options: &ClientOptions) -> Result<Self, ConnectError> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(options.socket_timeout));
        http.set_keepalive(Some(TCP_KEEPALIVE));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(options.keep_alive);
        if uri.scheme_str() == Some("http") {
            return Ok(Self::Plain(builder.build(http)));
        }
        http.enforce_http(false);
        let bad = |message: String| ConnectError::BadUrl { url: shown(&uri.to_string()), message };
        let tls = HttpsConnectorBuilder::new();
        let tls = match &options.tls {
            Some(config) => tls.with_tls_config((**config).clone()),
            None => {
                let Some(provider) = rustls::crypto::CryptoProvider::get_default() else {
                    return Err(bad(
                        "HTTPS needs a cryptography provider: install one with rustls' CryptoProvider::install_default, or set ClientOptions::tls"
                            .into(),
                    ));
                };
                tls.with_provider_and_native_roots(provider.clone())
                    .map_err(|error| bad(format!("the system's root certificates cannot be read: {error}")))?
            }
        };
        Ok(Self::Tls(builder.build(tls.https_only().enable_http1().wrap_connector(http))))
    }

    pub(crate) async fn request(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let uri = request.uri().clone();
        let answer = match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        };
        answer.map_err(|error| {
            let (message, lasts) = trouble(&uri, &error);
            Unanswered { unreachable: error.is_connect(), lasts, message }
        })
    }
}
