//! Whom the load goes to.

use crate::LoadError;
use bowline_proto::http::address_shown;
use std::{fmt, net::SocketAddr};

/// An endpoint.
#[derive(Clone)]
pub struct Target {
    /// Where its connections go.
    pub address: SocketAddr,
    /// `Host`, and after it every other header that goes with each request: whole lines.
    head: String,
    path: String,
}

impl Target {
    /// Finds the endpoint that `url` names: `http://HOST[:PORT][/PATH]`. `headers` go with every request.
    ///
    /// # Errors
    /// When the URL is of another form, its host is not known, or a header would break the request.
    pub async fn find(url: &str, headers: &[(String, String)]) -> Result<Self, LoadError> {
        let wrong = |why| LoadError::Url { url: address_shown(url), why };
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(wrong(if url.starts_with("https://") {
                "TLS is not spoken here; measure the endpoint behind what ends TLS"
            } else {
                "it does not begin with http://"
            }));
        };
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(wrong("a user name or password in it is not sent; use a header"));
        }
        if authority.is_empty() || authority.starts_with(':') {
            return Err(wrong("the host is missing, as in http://HOST:8000/mcp"));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains('#') {
            return Err(wrong("it has characters that a URL does not have"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let named = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let mut found = tokio::net::lookup_host(named)
            .await
            .map_err(|error| LoadError::Io { doing: "looking the host up", error })?;
        let address = found.next().ok_or_else(|| wrong("its host has no address"))?;
        let mut head = format!("Host: {authority}\r\n");
        for (name, value) in headers {
            let fits = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            if name.is_empty() || name.contains([' ', ':']) || !fits(name) || !fits(value) {
                return Err(wrong("a header for it is not one line of printable ASCII characters"));
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Ok(Self { address, head, path: path.to_owned() })
    }

    /// The bytes of a request: `lines` are further header lines, each with its end.
    pub(crate) fn request(&self, method: &str, lines: &str, body: &str) -> Vec<u8> {
        let Self { head, path, .. } = self;
        let sized = if method == "POST" {
            format!(
                "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
                body.len()
            )
        } else {
            "Accept: text/event-stream\r\n".to_owned()
        };
        format!("{method} {path} HTTP/1.1\r\n{head}{sized}{lines}\r\n{body}").into_bytes()
    }
}

impl fmt::Debug for Target {
    /// The address alone: headers are secrets, and so may be what stands behind the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Target {
    /// The bytes of a request of `session`, for a caller that writes and reads them itself.
    #[must_use]
    pub fn post(&self, session: &crate::Session, template: &crate::Template) -> Vec<u8> {
        session.post(self, template).stamp(0, 0).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        for (url, why) in [
            ("http://", "the host is missing"),
            ("http://:8000/mcp?k=hunter2", "the host is missing"),
            ("http://u:hunter2@a/", "a user name or password"),
            ("http://u:x?hunter2@a/", "a user name or password"),
            ("https://a/?k=hunter2", "TLS is not spoken here"),
            ("ftp://a/", "does not begin with http://"),
        ] {
            let error = Target::find(url, &[]).await.unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[tokio::test]
    async fn debug_shows_no_secret() {
        let headers = [("Authorization".to_owned(), "Bearer hunter2".to_owned())];
        let target = Target::find("http://127.0.0.1:9/mcp?k=hunter2", &headers).await.unwrap();
        let shown = format!("{target:?}");
        assert!(shown.contains("127.0.0.1:9") && !shown.contains("hunter2"), "{shown}");
        let session = crate::Session { id: Some("hunter2".into()), revision: "2025-11-25".into() };
        let shown = format!("{session:?}");
        assert!(shown.contains("2025-11-25") && !shown.contains("hunter2"), "{shown}");
    }
}
