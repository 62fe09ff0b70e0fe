//! The wire: a TCP relay between client and server that can cut a connection the hard way.

use super::happening::{Recorder, What};
use parking_lot::Mutex;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    task::JoinSet,
};

/// How many bytes are passed on at once.
const CHUNK: usize = 16 * 1024;

/// A relay that runs until the tasks it was started in end.
#[derive(Debug)]
pub(super) struct Relay {
    address: SocketAddr,
    wire: Arc<Wire>,
}

/// What went over the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// TCP connections that the client made.
    pub(super) connections: u64,
    /// Bytes from the client, HTTP included.
    pub(super) up: u64,
    /// Bytes that the client was sent, HTTP included.
    pub(super) down: u64,
}

#[derive(Debug, Default)]
struct Wire {
    servers: Mutex<Vec<SocketAddr>>,
    turn: AtomicUsize,
    connections: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    /// Whether the next message to the client is to be cut.
    armed: AtomicBool,
}

/// How a connection ended.
#[derive(PartialEq, Eq)]
enum End {
    Closed,
    Cut,
}

impl Relay {
    /// Listens on a free port and passes each connection on to one of `servers`, in turn; one that does not accept is passed over.
    pub(super) async fn start(
        servers: Vec<SocketAddr>,
        recorder: Recorder,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let relay = Self { address: listener.local_addr()?, wire: Arc::default() };
        relay.lead_to(servers);
        let wire = relay.wire.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                wire.connections.fetch_add(1, Ordering::Relaxed);
                let (wire, recorder) = (wire.clone(), recorder.clone());
                connections.spawn(async move {
                    if let Err(error) = wire.connect(client, &recorder).await {
                        tracing::debug!(%error, "a relayed connection ended early");
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(relay)
    }

    /// Where clients connect to.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where connections lead from now on.
    pub(super) fn lead_to(&self, servers: Vec<SocketAddr>) {
        *self.wire.servers.lock() = servers;
    }

    /// Passes on half of whatever the client is sent next, then resets that connection on both sides.
    pub(super) fn cut_the_next_message(&self) {
        self.wire.armed.store(true, Ordering::Relaxed);
    }

    /// What went over the wire until now.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            connections: self.wire.connections.load(Ordering::Relaxed),
            up: self.wire.up.load(Ordering::Relaxed),
            down: self.wire.down.load(Ordering::Relaxed),
        }
    }
}

impl Wire {
    async fn connect(&self, mut client: TcpStream, recorder: &Recorder) -> io::Result<()> {
        let mut server = self.server().await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let end = tokio::select! {
            end = self.pass_up(client_reads, server_writes) => end?,
            end = self.pass_down(server_reads, client_writes) => end?,
        };
        if end == End::Cut {
            recorder.note(What::Cut).await;
            // With nothing to linger for, closing sends a reset instead of a proper end.
            client.set_zero_linger()?;
            server.set_zero_linger()?;
        }
        Ok(())
    }

    /// A connection to the next server that accepts one.
    async fn server(&self) -> io::Result<TcpStream> {
        let servers = self.servers.lock().clone();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut refused = io::Error::from(io::ErrorKind::NotConnected);
        for other in 0..servers.len() {
            match TcpStream::connect(servers[turn.wrapping_add(other) % servers.len()]).await {
                Ok(server) => return Ok(server),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    async fn pass_up(&self, mut client: ReadHalf<'_>, mut server: WriteHalf<'_>) -> io::Result<End> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = client.read(&mut chunk).await?;
            if length == 0 {
                return Ok(End::Closed);
            }
            server.write_all(&chunk[..length]).await?;
            add(&self.up, length);
        }
    }

    async fn pass_down(&self, mut server: ReadHalf<'_>, mut client: WriteHalf<'_>) -> io::Result<End> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = server.read(&mut chunk).await?;
            if length == 0 {
                return Ok(End::Closed);
            }
            let cut = self.armed.swap(false, Ordering::Relaxed);
            let passed = if cut { length / 2 } else { length };
            client.write_all(&chunk[..passed]).await?;
            add(&self.down, passed);
            if cut {
                return Ok(End::Cut);
            }
        }
    }
}

fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
}
