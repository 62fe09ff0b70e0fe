//! Addresses as errors and logs may show them.

/// A URL without a password, and without a query or a fragment, which may be keys. What is no URL is shown as far as it cannot be one of
/// these.
#[must_use]
pub fn address_shown(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find('/').map_or(url.len(), |at| begin + at);
    // What has a slash in its password is no address: then it may go as far as to the last such sign of all.
    let shown = match url[begin..end].rfind('@').or_else(|| url[begin..].rfind('@')) {
        Some(at) => format!("{}***{}", &url[..begin], &url[begin + at..]),
        None => url.to_owned(),
    };
    shown.split(['?', '#']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        for (url, shown) in [
            ("http://a:1/mcp", "http://a:1/mcp"),
            ("http://u:secret@a/mcp?k=secret#secret", "http://***@a/mcp"),
            ("u:secret@a", "***@a"),
            ("http://u:sec/ret@a/b@c", "http://***@c"),
            ("http://u:x?secret@a/", "http://***@a/"),
            ("", ""),
        ] {
            assert_eq!(address_shown(url), shown);
        }
    }
}
