//! `WWW-Authenticate` (RFC 9110 11.6.1): several schemes in one header or in several, and what of them matters here.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// Challenges read from one answer at most; what is beyond is not looked at.
const MAX_CHALLENGES: usize = 16;
/// Parameters read of one challenge at most.
const MAX_PARAMS: usize = 32;
/// Scopes taken from one challenge at most.
const MAX_SCOPES: usize = 64;

/// One challenge: a scheme and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The scheme in lower case.
    pub scheme: String,
    /// Parameters in their order, names in lower case.
    pub params: Vec<(String, String)>,
}

impl Challenge {
    /// The first parameter of that name (in lower case).
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// All challenges of an answer, in their order. What cannot be read is left out; nothing here fails.
#[must_use]
pub fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let mut found = Vec::new();
    for value in headers.get_all(WWW_AUTHENTICATE) {
        parse(&String::from_utf8_lossy(value.as_bytes()), &mut found);
    }
    found
}

/// What the challenges of an answer say about authorization with tokens (`Bearer` and `DPoP`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// RFC 9728 5.1: where the metadata of the resource is.
    pub resource_metadata: Option<String>,
    /// RFC 6750 3: the scopes that the request needs, each once, in their order.
    pub scopes: Vec<String>,
    /// `invalid_token`, `insufficient_scope`, `use_dpop_nonce`...
    pub error: Option<String>,
    /// Whether there is a challenge with the scheme `DPoP`.
    pub dpop: bool,
}

impl Hints {
    /// Reads the challenges of an answer. Of parameters that occur twice, the first counts.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Self {
        let mut hints = Self::default();
        for challenge in challenges(headers) {
            match challenge.scheme.as_str() {
                "dpop" => hints.dpop = true,
                "bearer" => {}
                _ => continue,
            }
            let take = |name: &str| challenge.param(name).map(str::to_owned);
            hints.resource_metadata = hints.resource_metadata.or_else(|| take("resource_metadata"));
            hints.error = hints.error.or_else(|| take("error"));
            if hints.scopes.is_empty() {
                hints.scopes = scopes(challenge.param("scope").unwrap_or_default());
            }
        }
        hints
    }
}

/// Splits a list of scopes (RFC 6749 3.3): each once, at most 64; what has other characters than the grammar allows is left out.
#[must_use]
pub fn scopes(list: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for scope in list.split(' ').filter(|s| !s.is_empty()) {
        let legal = scope.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
        if legal && found.len() < MAX_SCOPES && !found.iter().any(|known| known == scope) {
            found.push(scope.to_owned());
        }
    }
    found
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

const fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
}

/// A reader over the bytes of one header value.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        self.at - start
    }

    /// The bytes that match: ASCII in every use here, so the ends are ends of characters.
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        self.skip(wanted);
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn spaces(&mut self) -> usize {
        self.skip(|b| matches!(b, b' ' | b'\t'))
    }

    /// Skips a token68 (credentials without names, as `Negotiate` has them) if there is one.
    fn token68(&mut self) {
        let start = self.at;
        let some = self.skip(is_token68);
        self.skip(|b| b == b'=');
        let end = self.at;
        self.spaces();
        if some == 0 || self.peek().is_some_and(|b| b != b',') {
            self.at = start;
        } else {
            self.at = end;
        }
    }

    /// The value behind `=`: a quoted string, or a token; other characters up to a comma or a space are put up with.
    fn value(&mut self) -> String {
        if self.peek() != Some(b'"') {
            let start = self.at;
            self.skip(|b| !matches!(b, b',' | b' ' | b'\t'));
            return self.text.get(start..self.at).unwrap_or_default().to_owned();
        }
        self.at += 1;
        let mut value = String::new();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut escaped = false;
        for (offset, c) in rest.char_indices() {
            match c {
                _ if escaped => {
                    value.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    self.at += offset + 1;
                    return value;
                }
                c => value.push(c),
            }
        }
        self.at = self.text.len(); // the quotation never ends: what there is counts
        value
    }
}

fn parse(text: &str, found: &mut Vec<Challenge>) {
    let mut reader = Reader { text, at: 0 };
    let mut open = false; // whether the last challenge of `found` is one of this header
    while reader.at < text.len() {
        reader.skip(|b| matches!(b, b' ' | b'\t' | b','));
        let name = reader.take(is_token);
        if name.is_empty() {
            // Not the grammar: over to the next comma, so that one bad piece does not hide the others.
            reader.skip(|b| b != b',');
            continue;
        }
        let spaces = reader.spaces();
        if reader.peek() == Some(b'=') {
            reader.at += 1;
            reader.spaces();
            let value = reader.value();
            if let Some(challenge) = found.last_mut().filter(|c| open && c.params.len() < MAX_PARAMS) {
                challenge.params.push((name.to_ascii_lowercase(), value));
            }
            continue;
        }
        if found.len() == MAX_CHALLENGES {
            return;
        }
        found.push(Challenge { scheme: name.to_ascii_lowercase(), params: Vec::new() });
        open = true;
        if spaces > 0 {
            reader.token68();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Vec<(String, Vec<(String, String)>)> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        }
        challenges(&headers).into_iter().map(|c| (c.scheme, c.params)).collect()
    }

    fn expect(list: &[(&str, &[(&str, &str)])]) -> Vec<(String, Vec<(String, String)>)> {
        list.iter()
            .map(|(s, p)| {
                ((*s).to_owned(), p.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect())
            })
            .collect()
    }

    #[test]
    fn the_grammar() {
        type Expected<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];
        let table: &[(&[&str], Expected<'_>)] = &[
            (&["Bearer"], &[("bearer", &[])]),
            (
                &["Bearer realm=\"a, b\", scope=\"x y\""],
                &[("bearer", &[("realm", "a, b"), ("scope", "x y")])],
            ),
            (
                &["Bearer error=invalid_token,scope=x"],
                &[("bearer", &[("error", "invalid_token"), ("scope", "x")])],
            ),
            (
                &["Basic realm=\"x\", DPoP algs=\"ES256\", error=\"use_dpop_nonce\", Bearer"],
                &[
                    ("basic", &[("realm", "x")]),
                    ("dpop", &[("algs", "ES256"), ("error", "use_dpop_nonce")]),
                    ("bearer", &[]),
                ],
            ),
            (&["Negotiate YWJj==, Bearer scope=\"x\""], &[("negotiate", &[]), ("bearer", &[("scope", "x")])]),
            (
                &["Negotiate", "Bearer Realm = \"q\\\"q\""],
                &[("negotiate", &[]), ("bearer", &[("realm", "q\"q")])],
            ),
            (
                &["Bearer resource_metadata=https://a.b/c?d=e"],
                &[("bearer", &[("resource_metadata", "https://a.b/c?d=e")])],
            ),
            (&["Bearer scope=\"never ends"], &[("bearer", &[("scope", "never ends")])]),
            (&["@@@, Bearer scope=a"], &[("bearer", &[("scope", "a")])]),
            (&["scope=a"], &[]),
            (&["Basic realm=x", "scope=a"], &[("basic", &[("realm", "x")])]),
            (&[", ,"], &[]),
        ];
        for (values, expected) in table {
            assert_eq!(read(values), expect(expected), "{values:?}");
        }
    }

    #[test]
    fn what_matters_is_read_from_token_schemes_only() {
        let mut headers = HeaderMap::new();
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=x, scope=\"no\""));
        headers.append(
            WWW_AUTHENTICATE,
            HeaderValue::from_static(
                "Bearer error=\"insufficient_scope\", scope=\"a b a\", resource_metadata=\"https://x/m\"",
            ),
        );
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("DPoP scope=\"c\""));
        let hints = Hints::read(&headers);
        assert_eq!(hints.scopes, ["a", "b"]);
        assert_eq!(hints.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(hints.resource_metadata.as_deref(), Some("https://x/m"));
        assert!(hints.dpop);
    }

    #[test]
    fn scopes_are_cleaned() {
        assert_eq!(scopes("  a  b a \"c\" d\\e mcp:read"), ["a", "b", "mcp:read"]);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_all_is_bounded(text in "[ -~\\t]{0,400}") {
            let mut found = Vec::new();
            parse(&text, &mut found);
            prop_assert!(found.len() <= MAX_CHALLENGES);
            prop_assert!(found.iter().all(|c| c.params.len() <= MAX_PARAMS));
        }

        #[test]
        fn quoted_values_come_back(value in "[ -~é]{0,60}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let mut found = Vec::new();
            parse(&format!("DPoP x=y, Bearer a=\"{quoted}\", b=c"), &mut found);
            prop_assert_eq!(found[1].param("a"), Some(value.as_str()));
            prop_assert_eq!(found[1].param("b"), Some("c"));
        }
    }
}
