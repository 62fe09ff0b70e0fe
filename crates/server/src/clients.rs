//! What one client may take: requests in a time, requests at a time, sessions.
//!
//! A client is a principal, or where nobody authenticates, an address (of IPv6 the first 64 bits, which is what one subscriber has).
//! What is kept of each is a few numbers, for a bounded number of clients, and only while they differ from those of a stranger.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How many clients are told apart. Those beyond share one allowance in each shard until others are quiet.
const MAX_CLIENTS: usize = 65_536;

const SHARDS: usize = 16;

/// How many requests a client may send in a time, as a leaky bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many requests; at least 1.
    pub requests: u32,
    /// In which time.
    pub per: Duration,
    /// How many may come at once after a pause; at least 1.
    pub burst: u32,
}

impl Rate {
    /// The pause between two requests that go on for ever, in nanoseconds.
    fn interval(&self) -> u64 {
        nanos(self.per) / u64::from(self.requests.max(1))
    }
}

/// The bounds of each client. `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientLimits {
    pub(crate) rate: Option<Rate>,
    pub(crate) concurrent: Option<usize>,
}

/// Names a client, without saying who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientKey(u64);

/// Why a client has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// It sends too often; the seconds to wait.
    Rate(u32),
    /// It has too many requests at a time.
    Concurrent,
    /// It has too many sessions.
    Sessions,
}

pub(crate) struct Clients(Arc<Table>);

struct Table {
    limits: ClientLimits,
    max: usize,
    hash: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    origin: Instant,
}

#[derive(Default)]
struct Shard {
    clients: HashMap<u64, State>,
    /// When the shard was last swept because it was full.
    swept: u64,
}

/// What is known of a client.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When, in nanoseconds, everything it has sent will have been paid for.
    paid: u64,
    running: u32,
    sessions: u32,
}

impl State {
    fn is_idle(&self, now: u64) -> bool {
        self.running == 0 && self.sessions == 0 && self.paid <= now
    }
}

/// The client whose allowance those beyond the bound share. The hash is keyed, so nobody can aim at it.
const SHARED: u64 = 0;

impl Clients {
    pub(crate) fn new(limits: ClientLimits) -> Self {
        Self::bounded(limits, MAX_CLIENTS)
    }

    fn bounded(limits: ClientLimits, max: usize) -> Self {
        Self(Arc::new(Table {
            limits,
            max: (max / SHARDS).max(1),
            hash: RandomState::new(),
            shards: Default::default(),
            origin: Instant::now(),
        }))
    }

    /// The client of this principal, or of this address; `None` when neither is known.
    pub(crate) fn key(&self, principal: Option<&str>, address: Option<IpAddr>) -> Option<ClientKey> {
        let hash = match (principal, address) {
            (Some(principal), _) => self.0.hash.hash_one(principal),
            (None, Some(IpAddr::V4(address))) => self.0.hash.hash_one(address),
            (None, Some(IpAddr::V6(address))) => self.0.hash.hash_one(address.to_bits() >> 64),
            (None, None) => return None,
        };
        Some(ClientKey(hash.max(SHARED + 1)))
    }

    /// Whether anything is asked of clients before their requests are read.
    pub(crate) fn limits_requests(&self) -> bool {
        self.0.limits != ClientLimits::default()
    }

    /// How many clients something is known of.
    pub(crate) fn len(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.lock().clients.len()).sum()
    }

    /// Takes a request of a client, which runs until the guard is dropped. The second value says whether it shares its allowance.
    pub(crate) fn request(&self, key: ClientKey) -> Result<(Running, bool), Limited> {
        let ClientLimits { rate, concurrent } = self.0.limits;
        let now = self.0.now();
        let (key, merged) = self.0.change(key, now, |state| {
            if concurrent.is_some_and(|limit| state.running as usize >= limit) {
                return Err(Limited::Concurrent);
            }
            if let Some(rate) = rate {
                state.pay(&rate, now)?;
            }
            state.running += 1;
            Ok(())
        })?;
        Ok((Running(self.0.clone(), key), merged))
    }

    /// Charges a client for a request that is refused anyway: guesses of tokens are limited like anything else.
    pub(crate) fn charge(&self, key: ClientKey) -> Result<(), Limited> {
        let Some(rate) = self.0.limits.rate else { return Ok(()) };
        let now = self.0.now();
        self.0.change(key, now, |state| state.pay(&rate, now)).map(drop)
    }

    /// Takes one of a client's `limit` places for sessions, until the guard is dropped.
    pub(crate) fn session(&self, key: ClientKey, limit: usize) -> Result<SessionPlace, Limited> {
        let (key, _) = self.0.change(key, self.0.now(), |state| {
            if state.sessions as usize >= limit {
                return Err(Limited::Sessions);
            }
            state.sessions += 1;
            Ok(())
        })?;
        Ok(SessionPlace(self.0.clone(), key))
    }

    /// Forgets clients that have become strangers again; a part of them with each call.
    pub(crate) fn sweep(&self, round: usize) {
        let now = self.0.now();
        self.0.shards[round % SHARDS].lock().clients.retain(|_, state| !state.is_idle(now));
    }
}

impl State {
    fn pay(&mut self, rate: &Rate, now: u64) -> Result<(), Limited> {
        let interval = rate.interval();
        let credit = interval.saturating_mul(u64::from(rate.burst.max(1)) - 1);
        let paid = self.paid.max(now);
        let wait = (paid - now).saturating_sub(credit);
        if wait > 0 {
            let seconds = wait.div_ceil(1_000_000_000).max(1);
            return Err(Limited::Rate(u32::try_from(seconds).unwrap_or(u32::MAX)));
        }
        self.paid = paid.saturating_add(interval);
        Ok(())
    }
}

impl Table {
    fn now(&self) -> u64 {
        nanos(Instant::now().duration_since(self.origin))
    }

    fn shard(&self, key: u64) -> &Mutex<Shard> {
        &self.shards[(key >> 32) as usize % SHARDS]
    }

    /// Changes what is known of a client. Returns whose state was changed, and whether that is the shared one.
    fn change(
        &self,
        key: ClientKey,
        now: u64,
        change: impl FnOnce(&mut State) -> Result<(), Limited>,
    ) -> Result<((u64, u64), bool), Limited> {
        let mut guard = self.shard(key.0).lock();
        let shard = &mut *guard;
        let mut name = key.0;
        if !shard.clients.contains_key(&name) && shard.clients.len() >= self.max {
            // Once a second at most: a flood of strangers must not pay for itself with our time.
            if now.saturating_sub(shard.swept) >= 1_000_000_000 {
                shard.swept = now;
                shard.clients.retain(|_, state| !state.is_idle(now));
            }
            if shard.clients.len() >= self.max {
                name = SHARED;
            }
        }
        let mut state = shard.clients.get(&name).copied().unwrap_or_default();
        change(&mut state)?;
        shard.clients.insert(name, state);
        Ok(((key.0, name), name == SHARED))
    }

    fn release(&self, (key, name): (u64, u64), release: impl FnOnce(&mut State)) {
        let now = self.now();
        let mut shard = self.shard(key).lock();
        if let Some(state) = shard.clients.get_mut(&name) {
            release(state);
            if state.is_idle(now) {
                shard.clients.remove(&name);
            }
        }
    }
}

/// A request of a client runs while this exists.
pub(crate) struct Running(Arc<Table>, (u64, u64));

impl Drop for Running {
    fn drop(&mut self) {
        self.0.release(self.1, |state| state.running = state.running.saturating_sub(1));
    }
}

/// A session of a client lives while this exists.
pub(crate) struct SessionPlace(Arc<Table>, (u64, u64));

impl Drop for SessionPlace {
    fn drop(&mut self) {
        self.0.release(self.1, |state| state.sessions = state.sessions.saturating_sub(1));
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(requests: u32, burst: u32) -> ClientLimits {
        let rate = Rate { requests, per: Duration::from_secs(1), burst };
        ClientLimits { rate: Some(rate), concurrent: None }
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn who_is_one_client() {
        let clients = Clients::new(ClientLimits::default());
        let key = |principal, text| clients.key(principal, address(text));
        assert_eq!(key(Some("a"), "192.0.2.1"), key(Some("a"), "192.0.2.2"));
        assert_ne!(key(Some("a"), "192.0.2.1"), key(Some("b"), "192.0.2.1"));
        assert_ne!(key(None, "192.0.2.1"), key(None, "192.0.2.2"));
        assert_eq!(key(None, "2001:db8::1"), key(None, "2001:db8::ffff"));
        assert_ne!(key(None, "2001:db8::1"), key(None, "2001:db8:0:1::1"));
        assert_eq!(clients.key(None, None), None);
        assert!(!clients.limits_requests());
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_the_rate_then_a_stranger_again() {
        let clients = Clients::new(rate(10, 3));
        let key = clients.key(Some("a"), None).unwrap();
        let other = clients.key(Some("b"), None).unwrap();
        let ask = |key| clients.request(key).map(drop);
        for _ in 0..3 {
            assert_eq!(ask(key), Ok(()));
        }
        assert_eq!(ask(key), Err(Limited::Rate(1)));
        assert_eq!(ask(other), Ok(()));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(ask(key), Ok(()));
        assert_eq!(ask(key), Err(Limited::Rate(1)));
        assert_eq!(clients.charge(key), Err(Limited::Rate(1)));
        assert_eq!(clients.len(), 2);
        tokio::time::advance(Duration::from_secs(1)).await;
        (0..SHARDS).for_each(|round| clients.sweep(round));
        assert_eq!(clients.len(), 0);
        for _ in 0..3 {
            assert_eq!(ask(key), Ok(()));
        }
        assert!(ask(key).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn over_a_long_time_the_rate_is_exact() {
        let clients = Clients::new(rate(7, 7));
        let key = clients.key(Some("a"), None).unwrap();
        let mut passed = 0;
        for _ in 0..10_000 {
            passed += u32::from(clients.request(key).is_ok());
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!((700..=707).contains(&passed), "{passed} in 100 s");
    }

    #[tokio::test]
    async fn places_come_back() {
        let limits = ClientLimits { rate: None, concurrent: Some(2) };
        let clients = Clients::new(limits);
        let key = clients.key(Some("a"), None).unwrap();
        let (one, two) = (clients.request(key), clients.request(key));
        assert_eq!(clients.request(key).map(drop), Err(Limited::Concurrent));
        drop(one);
        assert!(clients.request(key).is_ok());
        let sessions: Vec<_> = (0..3).map(|_| clients.session(key, 2)).collect();
        assert_eq!(sessions.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
        drop((two, sessions));
        assert_eq!(clients.len(), 0, "nothing is kept of a client that holds nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_strangers_is_bounded_and_shares() {
        let clients = Clients::bounded(rate(1, 1), SHARDS * 4);
        let mut merged = 0;
        for n in 0..10_000_u32 {
            let key = clients.key(None, Some(IpAddr::V4(n.into()))).unwrap();
            merged += u32::from(clients.request(key).is_ok_and(|(_, merged)| merged));
        }
        // Each shard keeps four and one that the others share.
        assert_eq!(clients.len(), SHARDS * 5);
        assert_eq!(merged, SHARDS as u32, "the shared allowance is one client's");
        // Who was known before keeps an allowance of its own.
        tokio::time::advance(Duration::from_secs(2)).await;
        let known = clients.key(None, Some(IpAddr::V4(0.into()))).unwrap();
        assert!(matches!(clients.request(known), Ok((_, false))));
    }
}
