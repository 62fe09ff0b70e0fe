//! The stream that belongs to no call, and how it is kept: SEMANTICS 7.1, 7.4 and 7.7.

use super::{ReconnectPolicy, StreamEnd};
use crate::time::{Millis, millis};
use std::time::Duration;

/// What grows between attempts in vain, at most: it is optional, so a slow poll for ever is fine and a quick one is not.
const MAX_BACKOFF_MS: u64 = 60_000;
/// The least wait after an answer that is no stream at all: whoever answers so will not change soon.
const NO_STREAM_MS: u64 = 30_000;
/// A connection that lasted this long was a success, even when nothing was said.
const STABLE_MS: u64 = 30_000;

/// What the shell is to do for the standalone stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandaloneAction {
    /// Nothing but to read on.
    Read,
    /// Send GET, not before `at`, with this `Last-Event-ID` where there is one.
    Open {
        /// When.
        at: Millis,
        /// The value of the header.
        last_event_id: Option<String>,
    },
    /// The session is gone: the shared re-initialize, which starts a stream of its own.
    SessionGone,
    /// There is no such stream. It is not asked for again in this session.
    Off,
}

/// The client's view of a session's standalone stream.
///
/// Its failures never touch a call.
#[derive(Clone, Debug)]
pub struct Standalone {
    policy: ReconnectPolicy,
    cursor: Option<String>,
    retry: Option<u64>,
    /// Connections in a row that were no success.
    in_vain: u32,
    opened: Option<Millis>,
    heard: bool,
    /// Whether a GET of this client was ever answered with a stream, in this session or an earlier one.
    was_served: bool,
    has_session: bool,
}

impl Standalone {
    /// The stream of a new session.
    ///
    /// - `has_session`: whether requests carry a session id. Without one 404 means: there is no such stream.
    /// - `may_mean_session`: whether a 404 before anything was served means that the session is gone. A session that was
    ///   made because of such a 404 has to say `false`, or a server that says 404 to every GET is asked for ever.
    #[must_use]
    pub const fn new(policy: ReconnectPolicy, has_session: bool, may_mean_session: bool) -> Self {
        Self {
            policy,
            cursor: None,
            retry: None,
            in_vain: 0,
            opened: None,
            heard: false,
            was_served: may_mean_session,
            has_session,
        }
    }

    /// The status of a GET; `is_stream`: whether it is `text/event-stream`.
    pub fn on_status(
        &mut self,
        now: Millis,
        status: u16,
        is_stream: bool,
        retry_after: Option<u64>,
        random: u64,
    ) -> StandaloneAction {
        match status {
            200..=299 if is_stream => {
                self.opened = Some(now);
                self.heard = false;
                self.was_served = true;
                StandaloneAction::Read
            }
            204 => StandaloneAction::Off,
            404 | 410 if self.has_session && self.was_served => StandaloneAction::SessionGone,
            // Timeouts, conflicts with a connection that the server has not given up yet, and proxies.
            408 | 409 | 425 | 429 | 500.. if status != 501 => {
                self.later(now, retry_after.max(self.retry), 0, random)
            }
            // No stream, called a success: pages of a web server, say.
            200..=299 => self.later(now, retry_after, NO_STREAM_MS, random),
            // The cursor is no good any more: without one the stream starts anew.
            400 if self.cursor.take().is_some() => self.later(now, self.retry, 0, random),
            _ => StandaloneAction::Off,
        }
    }

    /// An event, as [`CallStream::on_event`](super::CallStream::on_event). Whether its data is to be delivered.
    pub fn on_event(&mut self, id: Option<&str>, data: Option<&str>, retry: Option<u64>) -> bool {
        self.retry = retry.or(self.retry);
        let has_data = data.is_some_and(|data| !data.trim_ascii().is_empty());
        let id = id.filter(|id| !id.is_empty());
        let fresh = id.is_some() && id != self.cursor.as_deref();
        if let Some(id) = id {
            self.cursor = Some(id.to_owned());
        }
        // Progress is something said. A new id alone is not: servers make one for every connection.
        self.heard |= has_data;
        has_data && (id.is_none() || fresh)
    }

    /// The body ended, or no connection could be made.
    pub fn on_end(&mut self, now: Millis, _: StreamEnd, random: u64) -> StandaloneAction {
        let stable = self.opened.take().is_some_and(|opened| now.since(opened) >= STABLE_MS);
        if self.heard || stable {
            self.in_vain = 0;
        }
        self.heard = false;
        self.later(now, self.retry, 0, random)
    }

    fn later(&mut self, now: Millis, asked: Option<u64>, least: u64, random: u64) -> StandaloneAction {
        let policy = ReconnectPolicy { backoff_max: Duration::from_millis(MAX_BACKOFF_MS), ..self.policy };
        let wait = policy.wait(self.in_vain, asked, true, random).max(least << self.in_vain.min(4));
        self.in_vain = self.in_vain.saturating_add(1);
        let at = now.after(wait.min(millis(policy.max_wait)));
        StandaloneAction::Open { at, last_event_id: self.cursor.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream() -> Standalone {
        Standalone::new(ReconnectPolicy::default(), true, true)
    }

    /// The GETs of the first `within` of a server that answers every one with `status` and ends it at once.
    fn gets(status: u16, is_stream: bool, retry: Option<u64>, within: u64, random: u64) -> Vec<u64> {
        let mut stream = stream();
        let (mut now, mut sent) = (Millis(0), Vec::new());
        while now.0 < within {
            sent.push(now.0);
            let mut action = stream.on_status(now, status, is_stream, None, random);
            if action == StandaloneAction::Read {
                assert!(!stream.on_event(None, None, retry));
                action = stream.on_end(now, StreamEnd::Graceful, random);
            }
            let StandaloneAction::Open { at, .. } = action else { break };
            now = at;
        }
        sent
    }

    #[test]
    fn empty_closes_are_failures() {
        for random in [0, u64::MAX / 3, u64::MAX] {
            assert!(gets(200, true, None, 120_000, random).len() <= 12);
            let slow = gets(200, true, Some(2_000), 120_000, random);
            assert!(slow.windows(2).all(|pair| pair[1] - pair[0] >= 2_000), "{slow:?}");
            assert!(gets(200, false, None, 60_000, random).len() <= 3);
            assert!(gets(502, false, None, 60_000, random).len() <= 8);
        }
    }

    #[test]
    fn refusals_turn_it_off_and_404_means_the_session() {
        for status in [400, 401, 403, 405, 406, 501, 204] {
            let action = stream().on_status(Millis(0), status, false, None, 0);
            assert_eq!(action, StandaloneAction::Off, "{status}");
        }
        assert_eq!(stream().on_status(Millis(0), 404, false, None, 0), StandaloneAction::SessionGone);
        let no_session = Standalone::new(ReconnectPolicy::default(), false, true);
        assert_eq!(no_session.clone().on_status(Millis(0), 404, false, None, 0), StandaloneAction::Off);
        let renewed = Standalone::new(ReconnectPolicy::default(), true, false);
        assert_eq!(renewed.clone().on_status(Millis(0), 404, false, None, 0), StandaloneAction::Off);
    }

    #[test]
    fn what_was_heard_is_resumed_after() {
        let mut stream = stream();
        assert_eq!(stream.on_status(Millis(0), 200, true, None, 0), StandaloneAction::Read);
        assert!(!stream.on_event(Some("p"), Some(""), Some(500)));
        assert!(stream.on_event(Some("a"), Some("{}"), None));
        let action = stream.on_end(Millis(10), StreamEnd::Error, 0);
        assert_eq!(action, StandaloneAction::Open { at: Millis(510), last_event_id: Some("a".into()) });
        assert_eq!(stream.on_status(Millis(600), 200, true, None, 0), StandaloneAction::Read);
        assert!(
            !stream.on_event(Some("a"), Some("{}"), None),
            "the event that was presented is not delivered again"
        );
    }

    #[test]
    fn retry_after_is_kept_to() {
        let action = stream().on_status(Millis(0), 429, false, Some(3_000), 0);
        assert!(matches!(action, StandaloneAction::Open { at, .. } if at.0 >= 3_000), "{action:?}");
    }

    proptest! {
        /// Whatever a server does: not more than so many requests a minute.
        #[test]
        fn never_spins(script in prop::collection::vec((0..8_u8, any::<u64>()), 1..400)) {
            let mut stream = stream();
            let (mut now, mut sent) = (Millis(0), Vec::new());
            for (what, random) in script {
                sent.push(now.0);
                let status = match what { 0 => 503, 1 => 429, 2 => 409, _ => 200 };
                let mut action = stream.on_status(now, status, what != 3, None, random);
                if action == StandaloneAction::Read {
                    let id = random.to_string();
                    stream.on_event((what % 2 == 0).then_some(&*id), Some(""), (what == 7).then_some(0));
                    action = stream.on_end(now, StreamEnd::Graceful, random);
                }
                let StandaloneAction::Open { at, .. } = action else { break };
                now = at;
            }
            for start in &sent {
                let minute = sent.iter().filter(|at| **at >= *start && **at - *start < 60_000).count();
                prop_assert!(minute <= 10, "{minute} in a minute: {sent:?}");
            }
        }
    }
}
