//! A TCP proxy that does what networks do to connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp::ReadHalf, tcp::WriteHalf},
    sync::watch,
    task::JoinHandle,
    time::Instant,
};

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each is reset so long after it was accepted.
    ResetAfter(Duration),
    /// Each is reset once so many bytes have gone to the client.
    CutAfter(u64),
    /// Nothing passes any more, in either direction, and nobody is told.
    Freeze,
    /// What comes from the server is handed on so much later.
    Delay(Duration),
    /// New connections are refused and the open ones reset.
    Refuse,
}

/// The proxy. Ends with its last connection when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    resets: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts one in front of `upstream`, on a free port.
    pub async fn start(upstream: SocketAddr, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, receiver) = watch::channel(fault);
        let resets = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, address, upstream, receiver, resets.clone()));
        Self { address, fault: sender, resets, task }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL with the path `/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// From now on, for open connections too.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// How many connections it has reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    upstream: SocketAddr,
    mut fault: watch::Receiver<Fault>,
    resets: Arc<AtomicU64>,
) {
    let mut connections = tokio::task::JoinSet::new();
    let mut listener = Some(listener);
    loop {
        while connections.try_join_next().is_some() {}
        if *fault.borrow_and_update() == Fault::Refuse {
            listener = None;
            if fault.wait_for(|fault| *fault != Fault::Refuse).await.is_err() {
                return;
            }
        }
        let open = match listener.take() {
            Some(open) => open,
            None => TcpListener::bind(address).await.expect("the port was ours a moment ago"),
        };
        tokio::select! {
            changed = fault.changed() => if changed.is_err() { return },
            accepted = open.accept() => if let Ok((client, _)) = accepted {
                connections.spawn(connection(client, upstream, fault.clone(), resets.clone()));
            },
        }
        listener = Some(open);
    }
}

async fn connection(
    mut client: TcpStream,
    upstream: SocketAddr,
    fault: watch::Receiver<Fault>,
    resets: Arc<AtomicU64>,
) {
    let accepted = Instant::now();
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = pump(from_client, to_server, fault.clone(), false);
        let down = pump(from_server, to_client, fault.clone(), true);
        tokio::select! {
            ended = async { tokio::try_join!(up, down) } => ended.is_err(),
            () = cut(fault, accepted) => true,
        }
    };
    if reset {
        resets.fetch_add(1, Ordering::Relaxed);
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Ready when the connection has to be reset whatever passes on it.
async fn cut(mut fault: watch::Receiver<Fault>, accepted: Instant) {
    loop {
        let now = *fault.borrow_and_update();
        match now {
            Fault::Refuse => return,
            Fault::ResetAfter(age) => tokio::select! {
                () = tokio::time::sleep_until(accepted + age) => return,
                changed = fault.changed() => if changed.is_err() { return },
            },
            _ => {
                if fault.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Why a pump did not come to an orderly end: the connection has to be reset.
#[derive(Debug)]
struct Cut;

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut fault: watch::Receiver<Fault>,
    down: bool,
) -> Result<(), Cut> {
    let mut buffer = vec![0; 64 * 1024];
    let mut passed = 0_u64;
    loop {
        let Ok(read) = from.read(&mut buffer).await else { return Err(Cut) };
        let now = match fault.wait_for(|fault| *fault != Fault::Freeze).await {
            Ok(now) => *now,
            Err(_) => return Err(Cut),
        };
        let mut take = read;
        match now {
            Fault::Delay(delay) if down => tokio::time::sleep(delay).await,
            Fault::CutAfter(limit) if down => {
                take = usize::try_from(limit.saturating_sub(passed)).unwrap_or(usize::MAX).min(read);
            }
            _ => {}
        }
        if read == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        if to.write_all(&buffer[..take]).await.is_err() || take < read {
            return Err(Cut);
        }
        passed += take as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patiently;

    /// A server that says everything back.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn say(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.write_all(text).await?;
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).await?;
        Ok(back)
    }

    #[tokio::test]
    async fn every_fault() {
        let proxy = FaultProxy::start(echo().await, Fault::None).await;
        let mut open = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(say(&mut open, b"hello").await.unwrap(), b"hello");

        proxy.set(Fault::Freeze);
        let frozen = tokio::time::timeout(Duration::from_millis(100), say(&mut open, b"there")).await;
        assert!(frozen.is_err());
        proxy.set(Fault::None);
        let mut back = [0; 5];
        patiently("what was held", open.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, b"there");

        proxy.set(Fault::Delay(Duration::from_millis(50)));
        let began = Instant::now();
        say(&mut open, b"slow").await.unwrap();
        assert!(Instant::now() - began >= Duration::from_millis(50));

        proxy.set(Fault::ResetAfter(Duration::ZERO));
        let error = patiently("a reset", open.read(&mut back)).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

        proxy.set(Fault::CutAfter(3));
        let mut open = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(patiently("a cut", say(&mut open, b"12345")).await.is_err());

        proxy.set(Fault::Refuse);
        let refused = async {
            while TcpStream::connect(proxy.address()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        patiently("a refusal", refused).await;
        proxy.set(Fault::None);
        let served = async {
            loop {
                if let Ok(mut open) = TcpStream::connect(proxy.address()).await {
                    return say(&mut open, b"again").await;
                }
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(patiently("service again", served).await.unwrap(), b"again");
        assert!(proxy.resets() >= 2);
    }
}
