//! Texts in as few bytes as they take: those that heads of requests are made of take one.

/// What most heads of MCP requests consist of: method, path, names of fields, values. In order, to be searched; their places are
/// never stored for longer than a call lives, so words may come and go.
const WORDS: [&str; 78] = [
    "*",
    "*/*",
    "/",
    "/mcp",
    "/mcp/",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    ": session",
    "DELETE",
    "GET",
    "POST",
    "accept",
    "accept-encoding",
    "accept-language",
    "application/json",
    "application/json, */*",
    "application/json, text/event-stream",
    "application/json,text/event-stream",
    "authorization",
    "baggage",
    "br, gzip, deflate",
    "cache-control",
    "cf-connecting-ip",
    "cf-ray",
    "close",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "cors",
    "cross-site",
    "dpop",
    "empty",
    "forwarded",
    "gzip",
    "gzip, br",
    "gzip, deflate",
    "gzip, deflate, br",
    "gzip, deflate, br, zstd",
    "gzip, deflate, zstd",
    "gzip,deflate",
    "host",
    "http",
    "https",
    "identity",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "no-cache",
    "node",
    "origin",
    "pragma",
    "priority",
    "referer",
    "same-origin",
    "same-site",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "te",
    "text/event-stream",
    "text/event-stream, application/json",
    "tools/call",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

/// The first byte of a text is the place of its word, or its length behind all of those, or this, with its length in four bytes after it.
const LONG: u8 = 0xff;

/// The longest text whose length fits into the first byte.
const SHORT: usize = LONG as usize - 1 - WORDS.len();

/// Writes a text behind others.
pub(super) fn put(out: &mut Vec<u8>, text: &[u8]) {
    // There are fewer words and short lengths than bytes, and a head is bounded by the listener far below 4 GiB: nothing is cut off.
    if let Ok(word) = WORDS.binary_search_by(|word| word.as_bytes().cmp(text)) {
        out.push(word as u8);
        return;
    }
    if text.len() <= SHORT {
        out.push((WORDS.len() + text.len()) as u8);
    } else {
        out.push(LONG);
        out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(text);
}

/// Takes the first text; `None` where there is none.
pub(super) fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&first, mut after) = rest.split_first()?;
    let text = match WORDS.get(usize::from(first)) {
        Some(word) => word.as_bytes(),
        None => {
            let len = if first == LONG {
                let (len, behind) = after.split_first_chunk::<4>()?;
                after = behind;
                u32::from_le_bytes(*len) as usize
            } else {
                usize::from(first) - WORDS.len()
            };
            let (text, behind) = after.split_at_checked(len)?;
            after = behind;
            text
        }
    };
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_in_order_and_take_a_byte() {
        assert!(WORDS.is_sorted());
        for word in WORDS {
            let mut out = Vec::new();
            put(&mut out, word.as_bytes());
            assert_eq!(out.len(), 1, "{word}");
            assert_eq!(take(&mut &*out), Some(word.as_bytes()));
        }
    }

    #[test]
    fn texts_come_out_as_they_went_in() {
        let texts: Vec<Vec<u8>> =
            [0, 1, 9, SHORT - 1, SHORT, SHORT + 1, 254, 255, 256, 70_000].map(|len| vec![b'a'; len]).into();
        let mut out = Vec::new();
        texts.iter().for_each(|text| put(&mut out, text));
        let mut rest = &out[..];
        for text in &texts {
            assert_eq!(take(&mut rest), Some(&text[..]));
        }
        assert_eq!(take(&mut rest), None);
    }
}
