//! The proxy in front: for every request it picks a backend at random. It takes time, cuts connections at any byte, and closes idle ones.

use crate::{
    chance::Chance,
    fleet::{Fleet, Reach, SOCKET},
    host::Process,
    plan::{Mutation, Plan},
};
use bowline_server::simulation::Admission;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, split},
    sync::watch,
};

/// How long the proxy waits for a connection to a backend, and for one that has fallen silent.
const CONNECT: Duration = Duration::from_secs(2);
const STALLED: Duration = Duration::from_secs(10);

/// The answer of a proxy that reaches nobody.
const BAD_GATEWAY: &[u8] =
    b"HTTP/1.1 502 Bad Gateway\r\nx-sim-proxy: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

pub(crate) struct Network {
    fleet: Arc<Fleet>,
    cuts: u64,
    idle_limit: Option<Duration>,
    latency: (u64, u64),
    mutation: Mutation,
    chance: Mutex<Chance>,
    connections: AtomicU64,
}

/// A client's connection.
pub(crate) struct Line {
    pub(crate) io: DuplexStream,
    pub(crate) number: u64,
    /// Whether the simulation broke it.
    pub(crate) injured: Arc<AtomicBool>,
}

/// Where a connection is cut, if it is.
#[derive(Clone, Copy)]
struct Cut {
    request: Option<u64>,
    response: Option<u64>,
}

impl Network {
    pub(crate) fn new(plan: &Plan, fleet: &Arc<Fleet>) -> Arc<Self> {
        Arc::new(Self {
            fleet: fleet.clone(),
            cuts: plan.cuts,
            idle_limit: plan.idle_limit,
            latency: plan.latency,
            mutation: plan.mutation,
            chance: Mutex::new(Chance::of(plan.seed, "network")),
            connections: AtomicU64::new(0),
        })
    }

    /// Connects to the proxy.
    pub(crate) fn dial(self: &Arc<Self>) -> Line {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let (io, theirs) = tokio::io::duplex(SOCKET);
        let injured = Arc::new(AtomicBool::new(false));
        let (network, mark) = (self.clone(), injured.clone());
        tokio::spawn(async move { network.carry(theirs, &mark).await });
        Line { io, number, injured }
    }

    fn cut(&self) -> Cut {
        let mut chance = self.chance.lock();
        if !chance.percent(self.cuts) {
            return Cut { request: None, response: None };
        }
        let far = chance.one_of(&[200, 600, 3_000]);
        let at = chance.below(far);
        if chance.percent(25) {
            Cut { request: Some(at), response: None }
        } else {
            Cut { request: None, response: Some(at) }
        }
    }

    async fn travel(&self) {
        let pause = self.chance.lock().ms(self.latency.0, self.latency.1);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    async fn carry(&self, client: DuplexStream, injured: &AtomicBool) {
        let (mut from_client, mut to_client) = split(client);
        let mut first = vec![0; 4096];
        let Ok(read) = from_client.read(&mut first).await else { return };
        if read == 0 {
            return;
        }
        first.truncate(read);
        self.travel().await;
        let Some((backend, server, process)) = self.choose().await else {
            injured.store(true, Ordering::Relaxed);
            let _ = to_client.write_all(BAD_GATEWAY).await;
            return;
        };
        self.send_twice(backend, &first);
        let (from_server, to_server) = split(server);
        let cut = self.cut();
        let mut reach = self.fleet.reach(backend);
        let broken = {
            let mut request = std::pin::pin!(self.request(first, from_client, to_server, cut.request));
            let mut response =
                std::pin::pin!(self.response(from_server, to_client, cut.response, reach.clone()));
            tokio::select! {
                biased;
                broken = &mut request => broken,
                broken = &mut response => broken,
                _ = reach.wait_for(|reach| *reach == Reach::Refused) => true,
            }
        };
        if broken || process.admission() == Admission::Dead {
            injured.store(true, Ordering::Relaxed);
        }
    }

    /// A backend that takes the connection.
    async fn choose(&self) -> Option<(usize, DuplexStream, Arc<Process>)> {
        let mut left = self.fleet.ready();
        while !left.is_empty() {
            let at = self.chance.lock().below(left.len() as u64) as usize;
            let backend = left.swap_remove(at);
            let mut reach = self.fleet.reach(backend);
            let reached =
                tokio::time::timeout(CONNECT, reach.wait_for(|reach| *reach != Reach::Silent)).await;
            if !matches!(reached, Ok(Ok(reach)) if *reach == Reach::Open) {
                continue;
            }
            if let Some((io, process)) = self.fleet.connect(backend) {
                return Some((backend, io, process));
            }
        }
        None
    }

    /// What a bad proxy does: a POST that it is not sure of goes to another backend too.
    fn send_twice(&self, backend: usize, bytes: &[u8]) {
        if self.mutation != Mutation::Resend || !bytes.starts_with(b"POST") || self.fleet.backends() < 2 {
            return;
        }
        let other = (backend + 1) % self.fleet.backends();
        if let Some((mut io, _)) = self.fleet.connect(other) {
            let bytes = bytes.to_vec();
            tokio::spawn(async move {
                let _ = io.write_all(&bytes).await;
                let mut ignored = vec![0; 1024];
                while matches!(io.read(&mut ignored).await, Ok(read) if read > 0) {}
            });
        }
    }

    /// Carries what the client sends. Returns whether the connection was broken on purpose.
    async fn request(
        &self,
        first: Vec<u8>,
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
        cut: Option<u64>,
    ) -> bool {
        let mut left = cut;
        let mut bytes = first;
        loop {
            if let Some(left) = &mut left {
                if (bytes.len() as u64) >= *left {
                    let _ = to.write_all(&bytes[..*left as usize]).await;
                    return true;
                }
                *left -= bytes.len() as u64;
            }
            if to.write_all(&bytes).await.is_err() {
                // The other direction says how it ended.
                return std::future::pending().await;
            }
            let mut next = vec![0; 4096];
            match from.read(&mut next).await {
                Ok(0) | Err(_) => return false,
                Ok(read) => next.truncate(read),
            }
            self.travel().await;
            bytes = next;
        }
    }

    /// Carries what the backend sends.
    async fn response(
        &self,
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
        cut: Option<u64>,
        mut reach: watch::Receiver<Reach>,
    ) -> bool {
        let mut left = cut;
        let mut bytes = vec![0; 4096];
        loop {
            let reading = from.read(&mut bytes);
            let read = match self.idle_limit {
                Some(limit) => match tokio::time::timeout(limit, reading).await {
                    Ok(read) => read,
                    Err(_) => return true,
                },
                None => reading.await,
            };
            let read = match read {
                Ok(0) | Err(_) => {
                    let _ = to.shutdown().await;
                    return false;
                }
                Ok(read) => read,
            };
            self.travel().await;
            let open = reach.wait_for(|reach| *reach != Reach::Silent);
            let stalled = tokio::time::timeout(STALLED, open).await.is_err();
            if stalled {
                return true;
            }
            let mut chunk = &bytes[..read];
            let cut_here = left.is_some_and(|left| read as u64 >= left);
            if let Some(left) = &mut left {
                if cut_here {
                    chunk = &chunk[..*left as usize];
                } else {
                    *left -= read as u64;
                }
            }
            let at = self.chance.lock().below(chunk.len() as u64 + 1) as usize;
            for part in [&chunk[..at], &chunk[at..]] {
                if to.write_all(part).await.is_err() {
                    return false;
                }
                tokio::task::yield_now().await;
            }
            if cut_here {
                return true;
            }
        }
    }
}
