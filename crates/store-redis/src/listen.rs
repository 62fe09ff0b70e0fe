//! The one connection on which other backends' wake-ups come.
//!
//! It proves its life on the path that it serves: what this store publishes to itself has to come back. Whenever it was made
//! anew, everybody is woken.

use crate::{connect, link::State, store::Inner};
use bowline_proto::cursor::StreamId;
use futures_util::StreamExt as _;
use redis::{RedisResult, cmd};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// How often a message is sent to itself, and after how much silence the connection is given up.
const HEARTBEAT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(16);

const PULSE: &[u8] = b"pulse";

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Pulse,
    /// The stream has something new.
    News(StreamId),
    /// A reader is ahead of the log: its writer should see whether something got lost.
    Lost(StreamId),
}

impl Message {
    fn read(payload: &[u8]) -> Option<Self> {
        match payload {
            PULSE => Some(Self::Pulse),
            [b'!', id @ ..] => Some(Self::Lost(read_id(id)?)),
            id => Some(Self::News(read_id(id)?)),
        }
    }
}

/// Reads an id in hexadecimal digits.
pub(crate) fn read_id(text: &[u8]) -> Option<StreamId> {
    if text.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(StreamId::from_bytes(bytes))
}

/// What asks a writer to look after its stream.
pub(crate) fn lost(stream: StreamId) -> String {
    format!("!{stream:?}")
}

/// Listens for ever.
pub(crate) async fn listen(inner: Arc<Inner>) {
    let mut complained = false;
    loop {
        if let Err(error) = listen_once(&inner).await
            && !std::mem::replace(&mut complained, true)
        {
            tracing::warn!(%error, "no wake-ups from other backends: readers look again from time to time only");
        }
        inner.link.pause(Duration::from_millis(300)).await;
    }
}

async fn listen_once(inner: &Arc<Inner>) -> RedisResult<()> {
    let mut state = inner.link.watch();
    let Ok(up) = state.wait_for(|state| matches!(state, State::Up(_))).await.map(|state| state.clone())
    else {
        return Ok(());
    };
    let State::Up(up) = up else { return Ok(()) };
    state.mark_unchanged();
    let limit = inner.link.options.connect_timeout;
    let (mut sink, mut messages) = connect::listen(&inner.link.some_node(&up), limit).await?.split();
    let silent = |_| redis::RedisError::from((redis::ErrorKind::Io, "no answer in time"));
    timeout(limit, sink.subscribe(&inner.channel)).await.map_err(silent)??;
    inner.link.counts.listens.add(1);
    inner.waiters.start_over();
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            message = messages.next() => {
                let Some(message) = message else {
                    // The other connection may be gone too.
                    inner.link.probe().await;
                    return Ok(());
                };
                heard = Instant::now();
                match Message::read(message.get_payload_bytes()) {
                    Some(Message::News(stream)) => {
                        inner.link.counts.wakeups.add(1);
                        inner.waiters.wake(stream);
                    }
                    Some(Message::Lost(stream)) => inner.ask_for(stream),
                    Some(Message::Pulse) | None => {}
                }
            }
            _ = heartbeat.tick() => {
                if Instant::now().duration_since(heard) > SILENCE {
                    return Ok(());
                }
                let inner = Arc::clone(inner);
                tokio::spawn(async move {
                    let mut pulse = cmd("PUBLISH");
                    pulse.arg(&inner.channel).arg(PULSE);
                    // Where it fails, its silence is noticed.
                    let _ = inner.link.send(pulse).await;
                });
            }
            changed = state.changed() => {
                // Another primary: messages are published there now.
                if changed.is_err() || matches!(&*state.borrow_and_update(), State::Up(now) if now.generation != up.generation) {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let id = StreamId::from_bytes(*b"0123456789abcdef");
        let text = format!("{id:?}");
        assert_eq!(Message::read(text.as_bytes()), Some(Message::News(id)));
        assert_eq!(Message::read(lost(id).as_bytes()), Some(Message::Lost(id)));
        assert_eq!(Message::read(b"pulse"), Some(Message::Pulse));
        for strange in [&b""[..], b"!", &text.as_bytes()[1..], "\u{e9}".repeat(16).as_bytes()] {
            assert_eq!(Message::read(strange), None);
        }
    }
}
