//! A whole call against a server that does anything: [`Delivery`] and [`CallStream`] together, on virtual time.

use super::*;
use crate::jsonrpc::RequestId;
use crate::time::Millis;
use proptest::prelude::*;
use std::time::Duration;

/// What the server does next; what it means depends on what it is asked.
#[derive(Clone, Copy, Debug)]
struct Move {
    what: u8,
    later: u64,
    random: u64,
}

/// What came of a call.
#[derive(Debug, Default)]
struct Seen {
    /// When each request left.
    requests: Vec<u64>,
    /// POSTs that a server may have acted on.
    may_have_run: usize,
    /// Responses that the caller was given.
    responses: usize,
    /// How it ended: whether with a promise that it did not run.
    ended: Option<bool>,
}

struct World {
    script: std::vec::IntoIter<Move>,
    now: Millis,
    seen: Seen,
}

impl World {
    /// The next move; for ever "nothing", when the script is over.
    fn next(&mut self) -> Move {
        let dead = Move { what: 0, later: 0, random: 1 };
        let next = self.script.next().unwrap_or(dead);
        self.now = self.now.after(next.later);
        next
    }

    fn request(&mut self, at: Millis) {
        assert!(at >= self.now, "nothing is sent in the past");
        self.now = at;
        self.seen.requests.push(at.0);
    }

    /// Follows the stream of an answered POST. `None`: the response was given to the caller.
    fn follow(&mut self, resumable: bool) -> Option<ClientError> {
        let policy = ReconnectPolicy::default();
        let id = RequestId::from(7);
        let mut stream =
            if resumable { CallStream::new(policy, id) } else { CallStream::unresumable(policy, id) };
        stream.on_status(self.now, 200, None, 0);
        for _ in 0..100_000 {
            while let Some(action) = stream.poll() {
                match action {
                    Action::Deliver { text, .. } => {
                        if text.starts_with(br#"{"jsonrpc":"2.0","id":7,"result""#) {
                            self.seen.responses += 1;
                        }
                    }
                    Action::Done => return None,
                    Action::Fail(error) => return Some(error),
                    Action::Reconnect { at, .. } => {
                        self.request(at);
                        let Move { what, random, .. } = self.next();
                        let status = [0, 200, 200, 200, 204, 404, 400, 503, 429, 409][usize::from(what % 10)];
                        if status == 0 {
                            stream.on_end(self.now, StreamEnd::Error, random);
                        } else {
                            stream.on_status(self.now, status, Some(random % 5_000), random);
                        }
                    }
                }
            }
            let Move { what, random, .. } = self.next();
            let fresh = random.to_string();
            let response = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
            match what {
                1 => stream.on_event(Some(&fresh), Some(""), Some(random % 3_000)),
                2 => stream.on_event(Some("same"), None, None),
                3 => stream.on_event(None, Some(r#"{"jsonrpc":"2.0","method":"x"}"#), None),
                4 => stream.on_event(Some(&fresh), Some("no json"), Some(0)),
                5 | 6 => stream.on_event((what == 5).then_some("same"), Some(response), None),
                7 => stream.on_end(self.now, StreamEnd::Error, random),
                _ => stream.on_end(self.now, StreamEnd::Graceful, random),
            }
        }
        panic!("the stream never comes to an end");
    }

    fn call(&mut self, repeatable: bool, resumable: bool) {
        let mut delivery = Delivery::new(DeliveryPolicy {
            reconnect: ReconnectPolicy::default(),
            outage: Duration::from_secs(90),
            repeatable,
        });
        let mut at = self.now;
        for _ in 0..1_000 {
            self.request(at);
            let Move { what, random, .. } = self.next();
            let status = [0, 1, 200, 200, 404, 410, 502, 503, 429, 400][usize::from(what % 10)];
            self.seen.may_have_run += usize::from(matches!(status, 1 | 200 | 502 | 503));
            let mut step = match status {
                0 => delivery.on_unreachable(self.now, random),
                1 => delivery.on_lost(self.now, random),
                _ => {
                    let answer = Answer {
                        status,
                        had_session: true,
                        retry_after: None,
                        error: None,
                        error_is_ours: false,
                    };
                    delivery.on_answer(self.now, answer, random)
                }
            };
            if step == Step::Read {
                match self.follow(resumable) {
                    None => {
                        self.seen.ended = Some(false);
                        return;
                    }
                    Some(error) => step = delivery.on_stream_failed(self.now, error, random),
                }
            }
            if step == Step::Renew {
                step = delivery.on_renewed(self.now, random % 2 == 0, random);
            }
            match step {
                Step::Send { at: next } => at = next,
                Step::Fail(error) => {
                    self.seen.ended = Some(!error.may_have_run);
                    return;
                }
                step => panic!("{step:?} is no end of an attempt"),
            }
        }
        panic!("the call never comes to an end");
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let next = (0..10_u8, prop_oneof![Just(0), 0..20_000_u64], any::<u64>());
    prop::collection::vec(next.prop_map(|(what, later, random)| Move { what, later, random }), 0..400)
}

proptest! {
    /// Every call ends, is answered at most once, and sends no more than the wait allows; one that may not run twice leaves
    /// at most once for a server that could have run it, and "did not run" is never said of one that may have.
    #[test]
    fn a_call_ends_once_runs_once_and_never_spins(
        script in moves(),
        repeatable in any::<bool>(),
        resumable in any::<bool>(),
    ) {
        let mut world = World { script: script.into_iter(), now: Millis(0), seen: Seen::default() };
        world.call(repeatable, resumable);
        let Seen { requests, may_have_run, responses, ended } = world.seen;
        prop_assert!(responses <= 1);
        if !repeatable {
            prop_assert!(may_have_run <= 1, "ran up to {} times", may_have_run);
        }
        prop_assert!(ended == Some(false) || may_have_run == 0, "said not to have run, and may have");
        // The shortest wait is 100 ms.
        let mut start = 0;
        for end in 0..requests.len() {
            while requests[end] - requests[start] >= 60_000 {
                start += 1;
            }
            prop_assert!(end - start < 620, "{} requests in a minute", end - start);
        }
    }
}
