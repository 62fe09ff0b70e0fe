//! A request that is sent again and again under other ids.

/// What stands for the id in a template.
const PLACE: &str = "$ID";

/// How many digits an id has, so that one length fits all.
const DIGITS: usize = 10;

/// A JSON-RPC request with places for its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

impl Template {
    /// A request with this method. `$ID` in `params` becomes the request's id, a number of ten digits.
    #[must_use]
    pub fn new(method: &str, params: &str) -> Self {
        let method = serde_json::Value::from(method);
        Self(format!(r#"{{"jsonrpc":"2.0","id":{PLACE},"method":{method},"params":{params}}}"#))
    }

    /// A call of a tool with these arguments, a JSON object.
    #[must_use]
    pub fn tool(name: &str, arguments: &str) -> Self {
        let name = serde_json::Value::from(name);
        Self::new("tools/call", &format!(r#"{{"name":{name},"arguments":{arguments}}}"#))
    }

    /// The same with a progress token, without which servers do not report progress.
    #[must_use]
    pub fn tool_with_progress(name: &str, arguments: &str) -> Self {
        let name = serde_json::Value::from(name);
        Self::new(
            "tools/call",
            &format!(r#"{{"name":{name},"arguments":{arguments},"_meta":{{"progressToken":{PLACE}}}}}"#),
        )
    }

    /// The body, with `0000000000` for the id.
    pub(crate) fn body(&self) -> String {
        self.0.replace(PLACE, &"0".repeat(DIGITS))
    }

    /// Where the id stands in a request that ends with [`Template::body`].
    pub(crate) fn places(&self, request: &[u8]) -> Vec<usize> {
        let body = self.body().len();
        let start = request.len().saturating_sub(body);
        let mut places = Vec::new();
        let mut grown = 0;
        for (at, _) in self.0.match_indices(PLACE) {
            places.push(start + at + grown);
            grown += DIGITS - PLACE.len();
        }
        places
    }
}

/// The bytes of a request whose id can be changed in place.
#[derive(Clone, Debug)]
pub(crate) struct Stamped {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Stamped {
    pub(crate) fn new(template: &Template, bytes: Vec<u8>) -> Self {
        Self { places: template.places(&bytes), bytes }
    }

    /// The request under the `n`-th id of the `worker`-th worker. Ids come again after a million.
    pub(crate) fn stamp(&mut self, worker: usize, n: u64) -> &[u8] {
        let id = 1_000_000_000 + (worker as u64 % 8_000) * 1_000_000 + n % 1_000_000;
        for at in &self.places {
            let mut left = id;
            for digit in self.bytes[*at..*at + DIGITS].iter_mut().rev() {
                *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
                left /= 10;
            }
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_gets_the_id_and_the_length_stays() {
        let template = Template::tool_with_progress("a \"b\"", "{}");
        let body = template.body();
        let head = b"POST / HTTP/1.1\r\n\r\n";
        let mut request = Stamped::new(&template, [head, body.as_bytes()].concat());
        let text = String::from_utf8(request.stamp(2, 34).to_vec()).unwrap();
        assert_eq!(text.len(), head.len() + body.len());
        let sent: serde_json::Value = serde_json::from_str(&text[head.len()..]).unwrap();
        assert_eq!(sent["id"], 1_002_000_034_u64);
        assert_eq!(sent["params"]["_meta"]["progressToken"], 1_002_000_034_u64);
        assert_eq!(sent["params"]["name"], "a \"b\"");
        let text = String::from_utf8(request.stamp(0, 1_000_001).to_vec()).unwrap();
        assert!(text.contains("\"id\":1000000001,"), "{text}");
    }
}
