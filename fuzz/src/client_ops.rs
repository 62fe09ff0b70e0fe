//! A client and any server: one that behaves (each message once and in order, an end in bounded attempts), and one that
//! sends anything at all (never a second response, never a wait of nothing, never anything after the end).

use arbitrary::{Result, Unstructured};
use bowline_proto::{
    client::{Action, CallStream, ClientErrorKind, ReconnectPolicy, StreamEnd},
    jsonrpc::{Message, RequestId},
    time::Millis,
};

const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;

pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let _ = match u.arbitrary() {
        Ok(true) => a_server_that_behaves(&mut u),
        _ => a_server_that_says_anything(&mut u),
    };
}

/// What the actions so far have come to.
#[derive(Debug, Default)]
struct Seen {
    delivered: Vec<String>,
    responses: usize,
    done: usize,
    failed: Option<ClientErrorKind>,
    reconnect: Option<(Millis, String)>,
}

impl Seen {
    /// Takes every action that is there, and checks each.
    fn take(&mut self, stream: &mut CallStream, policy: &ReconnectPolicy, now: Millis) {
        for polled in 0.. {
            assert!(polled < 4096, "it spins");
            let Some(action) = stream.poll() else { break };
            assert!(self.done == 0 && self.failed.is_none(), "{action:?} after the end: {self:?}");
            match action {
                Action::Deliver { text, message } => {
                    assert_eq!(self.responses, 0, "something after the response");
                    self.delivered.push(String::from_utf8(text.to_vec()).expect("an event is UTF-8"));
                    let answers = |message: &Message| matches!(message, Message::Response(response) if response.id == RequestId::from(7));
                    self.responses += usize::from(message.as_ref().is_ok_and(answers));
                }
                Action::Reconnect { at, last_event_id } => {
                    assert!(!last_event_id.is_empty(), "a resume from nowhere");
                    let wait = at.since(now);
                    assert!(
                        (millis(policy.min_wait)..=millis(policy.max_wait)).contains(&wait),
                        "a wait of {wait} ms"
                    );
                    assert!(self.reconnect.replace((at, last_event_id)).is_none(), "two resumes at once");
                }
                Action::Fail(error) => {
                    assert_eq!(self.responses, 0, "a failure after the response");
                    self.failed = Some(error.kind);
                }
                Action::Done => {
                    assert_eq!(self.responses, 1);
                    self.done += 1;
                }
            }
        }
        let over = self.done > 0 || self.failed.is_some();
        assert_eq!(stream.is_over(), over, "{self:?}");
        assert!(!over || self.reconnect.is_none(), "a resume of a call that is over");
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    duration.as_millis().try_into().expect("a few minutes")
}

/// One log, read from where the cursor says, on connections that break anywhere.
fn a_server_that_behaves(u: &mut Unstructured<'_>) -> Result<()> {
    let policy = ReconnectPolicy { max_attempts: u.int_in_range(1..=12)?, ..ReconnectPolicy::default() };
    let length = u.int_in_range(0..=12)?;
    let mut log: Vec<String> =
        (0..length).map(|n| format!(r#"{{"jsonrpc":"2.0","method":"n{n}"}}"#)).collect();
    log.push(RESPONSE.to_owned());
    let repeats_the_presented_event = u.arbitrary()?;
    let primes = u.ratio(3, 4)?;

    let mut now = Millis(u.int_in_range(0..=1_000)?);
    let mut stream = CallStream::new(policy, RequestId::from(7));
    let mut seen = Seen::default();
    let mut poll = 0_u64;
    // Ids are "offset.poll", of which the offset counts.
    let mut from: Option<usize> = None;
    for connection in 0.. {
        assert!(connection < 2_000, "it never gives up");
        // Once the input is used up, the server does what it should: then the call has to end.
        let at_its_best = u.is_empty();
        let status = if from.is_none() || at_its_best || u.ratio(3, 4)? {
            200
        } else {
            *u.choose(&[503, 409, 429, 0])?
        };
        if status == 0 {
            stream.on_end(now, StreamEnd::Error, u.arbitrary()?);
        } else {
            stream.on_status(now, status, *u.choose(&[None, Some(0), Some(3_000)])?, u.arbitrary()?);
        }
        if status == 200 {
            let start = from.unwrap_or(0);
            let told = if at_its_best { log.len() } else { u.int_in_range(0..=log.len())? };
            poll += 1;
            if primes {
                stream.on_event(
                    Some(&format!("{start}.{poll}")),
                    Some(""),
                    *u.choose(&[None, Some(0), Some(2_000)])?,
                );
            } else if repeats_the_presented_event && from.is_some_and(|from| from > 0) {
                // The id as it was presented, and the data that came with it.
                let presented = seen.reconnect.take().expect("this is a resume").1;
                stream.on_event(Some(&presented), Some(&log[start - 1]), None);
            }
            seen.reconnect = None;
            for (offset, text) in log.iter().enumerate().skip(start).take(told) {
                stream.on_event(Some(&format!("{}.{poll}", offset + 1)), Some(text), None);
                seen.take(&mut stream, &policy, now);
            }
            if !stream.is_over() {
                stream.on_end(now, *u.choose(&[StreamEnd::Graceful, StreamEnd::Error])?, u.arbitrary()?);
            }
        } else {
            seen.reconnect = None;
        }
        seen.take(&mut stream, &policy, now);
        assert!(log.starts_with(&seen.delivered), "{:?} of {log:?}", seen.delivered);
        if seen.done > 0 {
            assert_eq!(seen.delivered, log);
            break;
        }
        if let Some(failed) = &seen.failed {
            let fair = matches!(failed, ClientErrorKind::NotResumable | ClientErrorKind::GaveUp { .. });
            assert!(fair, "{failed:?}");
            break;
        }
        let (at, cursor) = seen.reconnect.clone().expect("a call that is not over goes on");
        let offset = cursor.split('.').next().and_then(|offset| offset.parse().ok());
        from = Some(offset.unwrap_or_else(|| panic!("{cursor:?} is no id of this server")));
        assert!(from >= Some(seen.delivered.len().min(1)) || primes, "it forgot its place");
        now = at;
    }
    Ok(())
}

/// Any call in any order: nothing that a shell or a server does wrong leads to a second answer or to spinning.
fn a_server_that_says_anything(u: &mut Unstructured<'_>) -> Result<()> {
    let policy = ReconnectPolicy { max_attempts: u.int_in_range(0..=12)?, ..ReconnectPolicy::default() };
    let mut stream = CallStream::new(policy, RequestId::from(7));
    let mut seen = Seen::default();
    let mut now = Millis(0);
    while !u.is_empty() {
        now = now.after(u.int_in_range(0..=2_000)?);
        let asked = *u.choose(&[None, Some(0), Some(5), Some(4_000), Some(u64::MAX)])?;
        match u.int_in_range(0..=4)? {
            0 => {
                let status =
                    *u.choose(&[200, 202, 204, 301, 400, 404, 405, 408, 409, 425, 429, 500, 503, 999, 0])?;
                stream.on_status(now, status, asked, u.arbitrary()?);
            }
            1 | 2 => {
                let id = *u.choose(&[None, Some(""), Some("a"), Some("b"), Some("c")])?;
                let data = match u.int_in_range(0..=7)? {
                    0 => None,
                    1 => Some(RESPONSE.to_owned()),
                    2 => Some(format!("[{RESPONSE},{RESPONSE}]")),
                    3 => Some(r#"{"jsonrpc":"2.0","id":"7","result":1}"#.to_owned()),
                    4 => Some("not JSON".to_owned()),
                    5 => Some(String::new()),
                    6 => Some(format!(r#"[1,{{"jsonrpc":"2.0","method":"x"}},{RESPONSE}]"#)),
                    _ => Some(u.arbitrary::<&str>()?.to_owned()),
                };
                stream.on_event(id, data.as_deref(), asked);
            }
            3 => {
                // A shell does not end what it is only to begin: the resume is under way then.
                stream.on_end(now, *u.choose(&[StreamEnd::Graceful, StreamEnd::Error])?, u.arbitrary()?);
            }
            _ => stream.on_unreachable(),
        }
        seen.reconnect = None;
        seen.take(&mut stream, &policy, now);
    }
    Ok(())
}
