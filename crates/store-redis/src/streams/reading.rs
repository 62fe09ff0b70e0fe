//! Streams read: pages that are runs, and a writer that is asked where Redis may have lost the end.

use crate::{
    actions::Action,
    call::{Call, Reply, Strange, event},
    link::strange,
    listen,
    store::Inner,
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Attachment, BackendId, Page, ReadError, ReadLimit, Unavailable};
use redis::cmd;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// How often a reader that is ahead of the log looks whether the writer has completed it.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// After how many looks the writer is asked again.
const ASK_AGAIN: u32 = 4;

impl Inner {
    pub(super) async fn read_after(
        self: &Arc<Self>,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> Result<Page, ReadError> {
        let give_up = Instant::now() + self.link.options.lost_patience;
        let mut asked = 0_u32;
        loop {
            let call = Call::new(Action::Read)
                .key(self.names.record(stream))
                .key(self.names.events(stream))
                .arg(after)
                .arg(limit.events as u64)
                .arg(limit.bytes as u64);
            let mut reply = self.link.run(call).await?;
            let (tail, sealed, writer) = match read_page(&mut reply, after).map_err(|_| strange("read"))? {
                Read::Page(page) => return Ok(page),
                Read::Gone => return Err(ReadError::Gone),
                Read::Evicted { oldest } => return Err(ReadError::Evicted { oldest }),
                Read::Hole(error) => {
                    self.link.counts.holes.add(1);
                    return Err(error);
                }
                Read::Lost { tail, sealed, writer } => (tail, sealed, writer),
            };
            // Redis may have lost the end of it: then its writer completes it in a moment.
            let lost = ReadError::Lost { tail };
            if sealed || !self.ask_writer(stream, tail, &writer, asked.is_multiple_of(ASK_AGAIN)).await {
                return Err(lost);
            }
            if Instant::now() >= give_up {
                if self.link.is_unsettled() {
                    let why = format!("read: the log ends at {tail} and may be completed by its writer");
                    return Err(Unavailable(why).into());
                }
                return Err(lost);
            }
            asked += 1;
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Has the writer look after its stream, if it is time to; returns whether that may help.
    async fn ask_writer(self: &Arc<Self>, stream: StreamId, tail: u64, writer: &str, now: bool) -> bool {
        if writer == self.tag {
            let is_ahead = self.tails.lock().is_ahead(stream, tail);
            if is_ahead && now {
                self.ask_for(stream);
            }
            return is_ahead;
        }
        if now {
            let mut question = cmd("PUBLISH");
            question.arg(format!("{}{writer}", self.channels)).arg(listen::lost(stream));
            // The writer may be on its way back: that nobody hears it says nothing.
            let _ = self.link.send(question).await;
        }
        true
    }

    pub(super) async fn attach(&self, stream: StreamId) -> Result<Attachment, ReadError> {
        // What the former reader reported is told to the new one.
        if let Some(hint) = self.hints.take(stream) {
            self.send_hint(stream, hint).await;
        }
        let call = Call::new(Action::Attach).key(self.names.record(stream)).key(self.names.waiters(stream));
        let mut reply = self.link.run(self.introduce(call, stream)).await?;
        let mut read = || {
            Ok(match reply.text()?.as_str() {
                "ok" => Ok(Attachment {
                    generation: reply.number()?,
                    delivered: reply.number()?,
                    incarnation: hexadecimal(&reply.text()?)?,
                }),
                "gone" => Err(ReadError::Gone),
                _ => return Err(Strange),
            })
        };
        let attachment = read().unwrap_or_else(|_: Strange| Err(strange("attach").into()))?;
        self.waiters.wake(stream);
        Ok(attachment)
    }
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Page(Page),
    Gone,
    Evicted {
        oldest: u64,
    },
    Lost {
        tail: u64,
        sealed: bool,
        writer: String,
    },
    /// What is there is not a run.
    Hole(ReadError),
}

/// A number of 64 bits, which is more than is exact there.
fn hexadecimal(text: &str) -> Result<u64, Strange> {
    u64::from_str_radix(text, 16).map_err(|_| Strange)
}

fn read_page(reply: &mut Reply, after: u64) -> Result<Read, Strange> {
    match reply.text()?.as_str() {
        "gone" => return Ok(Read::Gone),
        "evicted" => return Ok(Read::Evicted { oldest: reply.number()? }),
        "lost" => {
            let (tail, sealed) = (reply.number()?, reply.number()? == 1);
            return Ok(Read::Lost { tail, sealed, writer: reply.text()? });
        }
        "page" => {}
        _ => return Err(Strange),
    }
    let (tail, sealed, epoch) = (reply.number()?, reply.number()? == 1, reply.number()?);
    let owner = hexadecimal(&reply.text()?)?;
    let generation = reply.number()?;
    let incarnation = hexadecimal(&reply.text()?)?;
    let mut events = Vec::new();
    let mut by = 0;
    for kept in reply {
        let expected = after + 1 + events.len() as u64;
        match event(&kept) {
            Some((its_epoch, offset, payload))
                if offset == expected && its_epoch >= by && its_epoch <= epoch =>
            {
                by = its_epoch;
                events.push(payload);
            }
            // What comes after a hole is there; what is somewhere else belongs to no run.
            Some((_, offset, _)) if offset > expected => {
                return Ok(Read::Hole(ReadError::Evicted { oldest: offset }));
            }
            _ => return Ok(Read::Hole(ReadError::Lost { tail: expected - 1 })),
        }
    }
    if events.is_empty() && after < tail {
        return Ok(Read::Hole(ReadError::Evicted { oldest: tail + 1 }));
    }
    Ok(Read::Page(Page { events, tail, sealed, epoch, incarnation, owner: BackendId(owner), generation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    fn page(after: u64, tail: i64, events: &[&str]) -> Read {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let mut parts = vec![text("page"), Value::Int(tail), Value::Int(0), Value::Int(2)];
        parts.extend([text("00000000000000b0"), Value::Int(4), text("ffffffffffffffff")]);
        parts.extend(events.iter().map(|event| text(event)));
        read_page(&mut Reply::new(Value::Array(parts)).expect("an array"), after).expect("a page")
    }

    #[test]
    fn a_run_is_a_page() {
        let Read::Page(page) = page(2, 5, &["1-3 a", "2-4 b b"]) else { panic!("no page") };
        assert_eq!(page.events, ["a", "b b"]);
        assert_eq!((page.tail, page.epoch, page.owner, page.generation), (5, 2, BackendId(0xb0), 4));
        assert_eq!(page.incarnation, u64::MAX);
        assert!(!page.sealed);
    }

    #[test]
    fn what_is_no_run_is_no_page() {
        let evicted = |oldest| Read::Hole(ReadError::Evicted { oldest });
        let lost = |tail| Read::Hole(ReadError::Lost { tail });
        assert_eq!(page(2, 5, &["1-3 a", "1-5 c"]), evicted(5));
        assert_eq!(page(2, 5, &["1-4 b"]), evicted(4));
        assert_eq!(page(2, 5, &[]), evicted(6));
        // Older ones, and one twice.
        assert_eq!(page(2, 5, &["1-2 x"]), lost(2));
        assert_eq!(page(2, 5, &["1-3 a", "1-3 a"]), lost(3));
        // An epoch that goes back, or is not there yet.
        assert_eq!(page(2, 5, &["2-3 a", "1-4 b"]), lost(3));
        assert_eq!(page(2, 5, &["3-3 a"]), lost(2));
        assert_eq!(page(2, 5, &["nonsense"]), lost(2));
    }
}
