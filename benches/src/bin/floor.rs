//! The floor: a bare hyper server that finds the JSON-RPC id and sends the arguments back.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::value::RawValue;

#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    params: &'a RawValue,
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let envelope: Envelope<'_> = match serde_json::from_slice(&body) {
        Ok(envelope) => envelope,
        Err(_) => return Ok(Response::builder().status(400).body(Full::default()).unwrap_or_default()),
    };
    let (id, params) = (envelope.id.get(), envelope.params.get());
    let mut out = Vec::with_capacity(64 + params.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(params.as_bytes());
    out.push(b'}');
    let mut response = Response::new(Full::new(out.into()));
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port())).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

fn port() -> u16 {
    std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(9001)
}
