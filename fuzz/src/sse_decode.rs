//! Any bytes as an event stream: no panic, the same events however the bytes are cut, the events that the standard says,
//! nothing held beyond the limits; and whatever is encoded is one event.

use arbitrary::{Result, Unstructured};
use bowline_proto::sse::{DecodeError, Decoder, Event, Limits, MAX_RETRY_MS, encode};
use bytes::BytesMut;

pub fn run(data: &[u8]) {
    let _ = checked(&mut Unstructured::new(data));
}

fn checked(u: &mut Unstructured<'_>) -> Result<()> {
    let limits = match u.arbitrary::<u8>()? {
        small @ 0..=63 => Limits { max_line_bytes: small.into(), max_event_bytes: usize::from(small) * 2 },
        _ => Limits::default(),
    };
    let mut cuts: u64 = u.arbitrary()?;
    let stream = u.bytes(u.len())?;

    let whole = read(limits, [stream]);
    let bytewise = read(limits, stream.chunks(1));
    assert_eq!(bytewise, whole, "cut after each byte");
    let mut pieces = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        cuts = cuts.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (piece, left) = rest.split_at(((cuts >> 33) as usize % 9).min(rest.len()));
        pieces.push(piece);
        rest = left;
    }
    assert_eq!(read(limits, pieces), whole, "cut anywhere");

    // U+FFFD has three bytes and stands for one.
    let bound = |bytes: usize| bytes.saturating_mul(3);
    for event in &whole.events {
        assert!(event.data.as_ref().is_none_or(|data| data.len() <= bound(limits.max_event_bytes)));
        assert!(event.id.as_ref().is_none_or(|id| id.len() <= bound(limits.max_line_bytes)));
        assert!(event.retry_ms.is_none_or(|ms| ms <= MAX_RETRY_MS));
    }
    if whole.error.is_none() {
        assert_eq!(whole.events, by_the_standard(stream), "what the standard says");
    }
    encoded(stream);
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Read {
    events: Vec<Event>,
    error: Option<DecodeError>,
    last_event_id: Option<String>,
    retry_ms: Option<u64>,
}

fn read<'a>(limits: Limits, chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut decoder = Decoder::new(limits);
    let mut read = Read { events: Vec::new(), error: None, last_event_id: None, retry_ms: None };
    for mut chunk in chunks {
        loop {
            let before = chunk.len();
            match decoder.next_event(&mut chunk) {
                Ok(Some(event)) => {
                    assert!(chunk.len() < before, "an event out of nothing");
                    read.events.push(event);
                }
                Ok(None) => {
                    assert!(chunk.is_empty(), "bytes were left");
                    break;
                }
                Err(error) => {
                    assert_eq!(
                        decoder.next_event(&mut &b"data: x\n\n"[..]),
                        Err(error.clone()),
                        "it is final"
                    );
                    read.error = Some(error);
                    break;
                }
            }
        }
        if read.error.is_some() {
            break;
        }
    }
    read.last_event_id = decoder.last_event_id().map(str::to_owned);
    read.retry_ms = decoder.retry_ms();
    read
}

/// The algorithm of the standard, on the whole text, as plainly as possible.
fn by_the_standard(stream: &[u8]) -> Vec<Event> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => lines.push(std::mem::take(&mut line)),
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                lines.push(std::mem::take(&mut line));
            }
            other => line.push(other),
        }
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut events = Vec::new();
    let mut id = String::new();
    let mut event = Event::default();
    let mut data: Option<Vec<u8>> = None;
    for line in lines {
        if line.is_empty() {
            event.data = data.take().map(|data| text(&data));
            let said = event.data.is_some() || event.sets_id || event.retry_ms.is_some();
            let mut done = std::mem::take(&mut event);
            done.id = (!id.is_empty()).then(|| id.as_str().into());
            if said {
                events.push(done);
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (&line[..], &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            b"event" => event.event_type = Some(text(value)).filter(|name| !name.is_empty()),
            b"id" if !value.contains(&0) => {
                id = text(value);
                event.sets_id = true;
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let ms = text(value).parse().unwrap_or(u64::MAX);
                event.retry_ms = Some(ms.min(MAX_RETRY_MS));
            }
            _ => {}
        }
    }
    events
}

/// Whatever the id and the payload are, each block that is written is read as one.
fn encoded(stream: &[u8]) {
    let (id, payload) = stream.split_at(stream.len().min(8));
    let id = String::from_utf8_lossy(id);
    let mut out = BytesMut::new();
    encode::message(&mut out, &id, payload);
    encode::comment(&mut out, &id);
    encode::priming(&mut out, "p", Some(7));
    encode::retry_only(&mut out, 9);
    encode::data(&mut out, payload);
    let read = read(Limits::default(), [&out[..]]);
    assert_eq!(read.error, None);
    let [message, priming, retry, data] = &read.events[..] else { panic!("{:?} of {out:?}", read.events) };
    let clean: String = id.chars().filter(|c| !matches!(c, '\r' | '\n' | '\0')).collect();
    assert_eq!(message.id.as_deref().unwrap_or_default(), clean);
    assert_eq!((&message.data, data.sets_id), (&data.data, false));
    assert_eq!(
        (priming.id.as_deref(), priming.data.as_deref(), priming.retry_ms),
        (Some("p"), Some(""), Some(7))
    );
    assert_eq!((retry.sets_id, &retry.data, retry.retry_ms), (false, &None, Some(9)));
}
