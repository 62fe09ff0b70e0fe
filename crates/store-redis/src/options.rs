//! What can be set about the store.

use std::time::Duration;

/// How actions run inside Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scripting {
    /// As Functions; where the server forbids those, as scripts.
    #[default]
    Auto,
    /// As Functions (`FCALL`), or not at all.
    Functions,
    /// As scripts (`EVALSHA`).
    Scripts,
}

/// Options of a [`RedisStore`](crate::RedisStore).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What all keys and channels start with: several deployments can share one server. No braces, at most 64 bytes.
    /// Default `bowline`.
    pub prefix: String,
    /// Into how many parts keys are divided, each of which a cluster may move to another node. The same for all backends of a
    /// deployment, for good. 1 to 4,096, default 64.
    pub partitions: usize,
    /// How actions run inside Redis. Default [`Scripting::Auto`].
    pub scripting: Scripting,
    /// How long one action may take, with waiting for a connection and with repetitions. Default 800 ms: a server can still
    /// answer within a second.
    pub deadline: Duration,
    /// How long an attempt to connect may take, name look-up and TLS included. Default 2 s.
    pub connect_timeout: Duration,
    /// So many actions without an answer in time, and none with one between them, open the circuit breaker: from then on
    /// actions fail at once, until a probe is answered. Default 3.
    pub breaker_failures: u32,
    /// The longest pause between two attempts to connect or two probes. The first is 50 ms; each next one is twice as long;
    /// all are jittered. Default 1 s.
    pub probe_pause: Duration,
    /// How often every waiter is woken although nothing was heard, for wake-ups that got lost. 0 = never. Default 10 s.
    pub backstop: Duration,
    /// How long a backend is told of changes of a stream after it last said that it waits. Renewed at half of it.
    /// Default 10 min.
    pub interest: Duration,
    /// How long a writer remembers what it appended, to append it again when a failover lost it. The time starts anew
    /// with each loss of the connection. Default 30 s; 0 remembers nothing.
    pub tail: Duration,
    /// The most bytes of payload that are remembered of one stream. Default 1 MiB.
    pub tail_stream_bytes: usize,
    /// The most bytes of payload that are remembered of all streams. Default 64 MiB.
    pub tail_bytes: usize,
    /// How long a reader whose position is after the end of the log waits for the writer to append the rest again.
    /// Default 400 ms, within `deadline`.
    pub lost_patience: Duration,
    /// How long after a loss of the connection (or another primary in a cluster) such a reader is told that the store is
    /// unavailable, not that its events are lost: their writer may need as long to come back. Default 5 s.
    pub settle: Duration,
    /// The most bytes of payload in one event. A larger one is refused, whatever it is. Default 16 MiB.
    pub event_bytes: usize,
    /// The most letters in one mailbox. At the bound one more is refused. Default 1,000.
    pub letters: u64,
    /// The most bytes in one mailbox, keys and payloads. At the bound one more letter is refused. Default 32 MiB.
    pub letter_bytes: u64,
    /// The most streams for which hints (delivered, trim, keep) wait to be sent. What comes at the bound is dropped, and counted.
    /// Default 100,000.
    pub pending_hints: usize,
    /// The certificates of the authorities that `rediss://` trusts, as PEM; `None` trusts those of the system.
    pub root_certificates: Option<Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "bowline".to_owned(),
            partitions: 64,
            scripting: Scripting::Auto,
            deadline: Duration::from_millis(800),
            connect_timeout: Duration::from_secs(2),
            breaker_failures: 3,
            probe_pause: Duration::from_secs(1),
            backstop: Duration::from_secs(10),
            interest: Duration::from_mins(10),
            tail: Duration::from_secs(30),
            tail_stream_bytes: 1 << 20,
            tail_bytes: 64 << 20,
            lost_patience: Duration::from_millis(400),
            settle: Duration::from_secs(5),
            event_bytes: 16 << 20,
            letters: 1_000,
            letter_bytes: 32 << 20,
            pending_hints: 100_000,
            root_certificates: None,
        }
    }
}

impl Options {
    /// What is wrong with them.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.prefix.is_empty() || self.prefix.len() > 64 || self.prefix.contains(['{', '}', '\r', '\n']) {
            return Err(format!(
                "the prefix {:?} is empty, longer than 64 bytes, or has braces",
                self.prefix
            ));
        }
        if !(1..=4096).contains(&self.partitions) {
            return Err(format!("{} partitions: 1 to 4096 are possible", self.partitions));
        }
        if self.deadline < Duration::from_millis(10) {
            return Err(format!("a deadline of {:?}: at least 10 ms are needed", self.deadline));
        }
        if self.interest < Duration::from_secs(2) {
            return Err(format!("an interest of {:?}: at least 2 s are needed", self.interest));
        }
        if self.breaker_failures == 0 {
            return Err("a circuit breaker that opens after 0 failures".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        Options::default().check().expect("the defaults are fine");
        let mut options = Options { prefix: "a{b}".to_owned(), ..Options::default() };
        assert!(options.check().unwrap_err().contains("a{b}"));
        options = Options { partitions: 4097, ..Options::default() };
        assert!(options.check().unwrap_err().contains("4097"));
    }
}
