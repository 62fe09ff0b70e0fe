//! The network in between: a proxy for each client that now and then resets, reads slowly, or does not read at all. What it
//! does it decides from a seed and writes down.

use crate::{
    chance::Chance,
    journal::{Event, FaultKind, Journal},
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream, tcp::ReadHalf, tcp::WriteHalf},
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// How bad the network is: in a hundred connections, so many meet each fault.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Reset after some bytes to the client.
    pub cut_down: u64,
    /// Reset after some bytes to the server.
    pub cut_up: u64,
    /// Reset after a time.
    pub cut_after: u64,
    /// Read slowly for a while.
    pub slow: u64,
    /// Not read for a while.
    pub stall: u64,
    /// The longest while, in milliseconds.
    pub longest_ms: u64,
}

/// What is going to happen to one connection.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Clean,
    CutDown(u64),
    CutUp(u64),
    CutAfter(Duration),
    /// So many bytes a second, until so long after it was accepted.
    Slow(u64, Duration),
    /// After so many bytes to the client nothing is read for so long.
    Stall(u64, Duration),
}

impl Weather {
    fn fate(&self, chance: &mut Chance) -> Fate {
        let mut roll = chance.below(100);
        let mut is = |percent: u64| {
            let hit = roll < percent;
            roll = roll.wrapping_sub(percent);
            hit
        };
        if is(self.cut_down) {
            Fate::CutDown(chance.scaled(1, 100_000))
        } else if is(self.cut_up) {
            Fate::CutUp(chance.between(1, 700))
        } else if is(self.cut_after) {
            Fate::CutAfter(chance.ms(1, self.longest_ms))
        } else if is(self.slow) {
            Fate::Slow(chance.scaled(20, 4_000), chance.ms(self.longest_ms / 4, self.longest_ms))
        } else if is(self.stall) {
            Fate::Stall(chance.scaled(1, 20_000), chance.ms(self.longest_ms / 4, self.longest_ms))
        } else {
            Fate::Clean
        }
    }
}

/// A client's way to the program.
#[derive(Debug)]
pub struct Network {
    /// Where the client connects.
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Network {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a connection needs to know.
struct Way {
    client: String,
    upstream: SocketAddr,
    journal: Journal,
}

impl Network {
    /// Opens one for a client.
    ///
    /// # Errors
    /// No free port.
    pub async fn open(
        client: &str,
        upstream: SocketAddr,
        weather: Weather,
        chance: Chance,
        journal: Journal,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let way = Arc::new(Way { client: client.to_owned(), upstream, journal });
        let task = tokio::spawn(accept(listener, way, weather, chance));
        Ok(Self { address, task })
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>, weather: Weather, mut chance: Chance) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                let fate = weather.fate(&mut chance);
                connections.spawn(connection(client, way.clone(), fate));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// What the answer at hand has shown.
#[derive(Default)]
struct Shown {
    /// When its first event id passed to the client.
    id: Option<Instant>,
    /// The end of what passed last, so that an id is found across two reads.
    tail: Vec<u8>,
}

impl Shown {
    /// The client sends: what was shown belongs to an earlier request on the connection.
    fn asked(&mut self) {
        *self = Self::default();
    }

    fn see(&mut self, bytes: &[u8]) {
        const MARK: &[u8] = b"\nid:";
        if self.id.is_some() {
            return;
        }
        self.tail.extend_from_slice(bytes);
        if self.tail.windows(MARK.len()).any(|window| window == MARK) {
            self.id = Some(Instant::now());
        }
        let keep = self.tail.len().min(MARK.len() - 1);
        self.tail.drain(..self.tail.len() - keep);
    }
}

async fn connection(mut client: TcpStream, way: Arc<Way>, fate: Fate) {
    let accepted = Instant::now();
    let Ok(mut server) = connect(way.upstream, fate).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let shown = parking_lot::Mutex::new(Shown::default());
    let note = |kind: FaultKind| {
        let id_ms = shown.lock().id.map(|id| (Instant::now() - id).as_millis());
        let id_ms = id_ms.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
        way.journal.note(Event::Fault { client: way.client.clone(), kind, id_ms });
    };
    let cut = Notify::new();
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = up(from_client, to_server, fate, &shown, &note, &cut);
        let down = down(from_server, to_client, fate, accepted, &shown, &note);
        let timed = async {
            match fate {
                Fate::CutAfter(time) => {
                    sleep_until(accepted + time).await;
                    note(FaultKind::CutAfter);
                }
                _ => cut.notified().await,
            }
        };
        tokio::select! {
            ended = async { tokio::try_join!(up, down) } => ended.is_err(),
            () = timed => true,
        }
    };
    if reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

async fn connect(upstream: SocketAddr, fate: Fate) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if matches!(fate, Fate::Slow(..) | Fate::Stall(..)) {
        // Else the kernel would read in our place.
        socket.set_recv_buffer_size(4_096)?;
    }
    socket.connect(upstream).await
}

/// The connection has to be reset.
struct Broken;

async fn up(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    fate: Fate,
    shown: &parking_lot::Mutex<Shown>,
    note: &impl Fn(FaultKind),
    cut: &Notify,
) -> Result<(), Broken> {
    let mut buffer = vec![0; 16 * 1024];
    let mut passed = 0;
    loop {
        let read = from.read(&mut buffer).await.map_err(|_| Broken)?;
        if read == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        shown.lock().asked();
        let take = match fate {
            Fate::CutUp(limit) => read.min(usize::try_from(limit - passed).unwrap_or(usize::MAX)),
            _ => read,
        };
        to.write_all(&buffer[..take]).await.map_err(|_| Broken)?;
        passed += take as u64;
        if matches!(fate, Fate::CutUp(limit) if passed >= limit) {
            note(FaultKind::CutUp);
            cut.notify_one();
            return Err(Broken);
        }
    }
}

async fn down(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    fate: Fate,
    accepted: Instant,
    shown: &parking_lot::Mutex<Shown>,
    note: &impl Fn(FaultKind),
) -> Result<(), Broken> {
    let mut buffer = vec![0; 64 * 1024];
    let mut passed = 0_u64;
    let mut noted = false;
    loop {
        let mut most = buffer.len();
        match fate {
            Fate::Slow(rate, time) if Instant::now() < accepted + time => {
                if !std::mem::replace(&mut noted, true) {
                    note(FaultKind::Slow);
                }
                most = usize::try_from(rate.div_ceil(5)).unwrap_or(most);
                sleep(Duration::from_millis(200)).await;
            }
            Fate::Stall(after, time) if passed >= after && !noted => {
                noted = true;
                note(FaultKind::Stall);
                sleep(time).await;
            }
            Fate::Stall(after, _) if !noted => {
                most = usize::try_from(after - passed).unwrap_or(most).min(most);
            }
            Fate::CutDown(limit) => most = usize::try_from(limit - passed).unwrap_or(most).min(most),
            _ => {}
        }
        let read = from.read(&mut buffer[..most]).await.map_err(|_| Broken)?;
        if read == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        to.write_all(&buffer[..read]).await.map_err(|_| Broken)?;
        shown.lock().see(&buffer[..read]);
        passed += read as u64;
        if matches!(fate, Fate::CutDown(limit) if passed >= limit) {
            note(FaultKind::CutDown);
            return Err(Broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_seen_across_reads_and_nothing_else_is() {
        let mut shown = Shown::default();
        for part in ["{\"id\":1}\n", "data\ni", "d", ": 7"] {
            assert!(shown.id.is_none(), "before {part:?}");
            shown.see(part.as_bytes());
        }
        assert!(shown.id.is_some());
        shown.asked();
        shown.see(b"{}\n");
        assert!(shown.id.is_none(), "what a connection showed for another request does not count");
    }

    const CALM: Weather =
        Weather { cut_down: 0, cut_up: 0, cut_after: 0, slow: 0, stall: 0, longest_ms: 100 };

    /// What a client gets of 200 kB after its request of 2 kB through such a network, what the server gets of the request, and
    /// what the journal has.
    async fn exchange(weather: Weather, seed: u64) -> (io::Result<usize>, usize, Vec<(FaultKind, bool)>) {
        let dir = bowline_testkit::Dir::new();
        let journal = Journal::open(&dir.join("driver.jsonl")).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = server.local_addr().unwrap();
        let network = Network::open("raw-0.0", upstream, weather, Chance::new(seed), journal).await.unwrap();
        let serving = async {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut got = vec![0; 2_000];
            let mut count = 0;
            while count < got.len() {
                match stream.read(&mut got[count..]).await {
                    Ok(read @ 1..) => count += read,
                    _ => return count,
                }
            }
            let mut answer = b"\nid: 1\n".to_vec();
            answer.resize(200_000, b'x');
            let _ = stream.write_all(&answer).await;
            count
        };
        let asking = async {
            let mut stream = TcpStream::connect(network.address).await?;
            stream.write_all(&[b'?'; 2_000]).await?;
            let mut got = Vec::new();
            match stream.read_to_end(&mut got).await {
                Ok(count) => Ok(count),
                Err(error) => Err(error),
            }
        };
        let (asked, served) =
            bowline_testkit::patiently("an exchange", async { tokio::join!(asking, serving) }).await;
        let lines = crate::journal::read(dir.path()).unwrap();
        let faults = lines.into_iter().map(|line| match line.event {
            Event::Fault { kind, id_ms, .. } => (kind, id_ms.is_some()),
            other => panic!("{other:?}"),
        });
        (asked, served, faults.collect())
    }

    #[tokio::test]
    async fn each_fault_does_what_it_says_and_is_written_down() {
        let (asked, served, faults) = exchange(CALM, 1).await;
        assert_eq!((asked.unwrap(), served, faults), (200_000, 2_000, vec![]));
        let (asked, _, faults) = exchange(Weather { cut_down: 100, ..CALM }, 3).await;
        assert_eq!(asked.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert!(matches!(faults[..], [(FaultKind::CutDown, _)]), "{faults:?}");
        let (asked, served, faults) = exchange(Weather { cut_up: 100, ..CALM }, 4).await;
        assert_eq!(asked.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert!((1..=700).contains(&served), "{served} bytes of half a request");
        assert_eq!(faults, [(FaultKind::CutUp, false)]);
        for weather in [Weather { slow: 100, ..CALM }, Weather { stall: 100, ..CALM }] {
            let (asked, served, faults) = exchange(weather, 5).await;
            assert_eq!((asked.unwrap(), served), (200_000, 2_000));
            assert!(matches!(faults[..], [(FaultKind::Slow | FaultKind::Stall, _)]), "{faults:?}");
        }
    }

    #[test]
    fn the_weather_is_as_it_is_forecast() {
        let weather =
            Weather { cut_down: 10, cut_up: 5, cut_after: 5, slow: 10, stall: 10, longest_ms: 1_000 };
        let mut chance = Chance::new(1);
        let clean = (0..10_000).filter(|_| matches!(weather.fate(&mut chance), Fate::Clean)).count();
        assert!((5_700..6_300).contains(&clean), "{clean}");
    }
}
