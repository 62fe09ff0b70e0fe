//! Redis and Valkey: single servers, primaries with replicas, sentinels, clusters; killed, started again, put to sleep.

use crate::{Dir, PATIENCE, daemon::program, processes};
use parking_lot::Mutex;
use rustix::process::Signal;
use std::{collections::BTreeSet, net::SocketAddr, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisKind {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// A running server with a folder of its own, on a port that it keeps when it is started again. Dropped, it is killed, and what it
/// said is shown if the test failed.
#[derive(Debug)]
pub struct Redis {
    kind: RedisKind,
    address: SocketAddr,
    config: String,
    sentinel: bool,
    dir: Dir,
    child: Option<Child>,
    log: Arc<Mutex<Vec<String>>>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// Nothing.
    Nil,
    /// A number.
    Number(i64),
    /// A text, or a status.
    Text(String),
    /// A refusal.
    Error(String),
    /// Several of them.
    List(Vec<Self>),
}

impl RedisReply {
    /// The text; panics where it is something else.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    /// The number; panics where it is something else.
    #[must_use]
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The list; panics where it is something else.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }
}

/// A port that is free now.
#[must_use]
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Redis {
    /// Starts a Redis that keeps nothing on disk. `config` are lines of its configuration beside that.
    pub async fn start(config: &str) -> Self {
        Self::start_kind(RedisKind::Redis, config).await
    }

    /// Starts a server of a kind.
    pub async fn start_kind(kind: RedisKind, config: &str) -> Self {
        Self::begin(kind, config, false).await
    }

    async fn begin(kind: RedisKind, config: &str, sentinel: bool) -> Self {
        for _ in 0..5 {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let mut server = Self {
                kind,
                address,
                config: config.to_owned(),
                sentinel,
                dir: Dir::new(),
                child: None,
                log: Arc::default(),
            };
            if server.launch().await {
                return server;
            }
            let said = server.log.lock().join("\n");
            assert!(said.contains("Address already in use"), "the server ended: {said}");
        }
        panic!("no free port for a server")
    }

    /// Starts the process; returns whether it listens.
    async fn launch(&mut self) -> bool {
        let file = self.dir.join("config");
        let port = self.address.port();
        let keep = if self.sentinel || self.config.contains("appendonly yes") { "" } else { "save \"\"" };
        if !(self.sentinel && file.exists()) {
            // A sentinel writes into its own.
            let config = format!(
                "port {port}\nbind 127.0.0.1\nlogfile \"\"\ndir {}\n{keep}\n{}\n",
                self.dir.path().display(),
                self.config
            );
            std::fs::write(&file, config).unwrap();
        }
        let mut command = Command::new(program(match self.kind {
            RedisKind::Redis => "BOWLINE_TEST_REDIS",
            RedisKind::Valkey => "BOWLINE_TEST_VALKEY",
        }));
        command.arg(&file);
        if self.sentinel {
            command.arg("--sentinel");
        }
        let mut child = command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said = self.log.clone();
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                said.lock().push(line);
            }
        });
        let limit = tokio::time::Instant::now() + PATIENCE;
        loop {
            if child.try_wait().unwrap().is_some() {
                let _ = crate::patiently("the last words", reading).await;
                return false;
            }
            if let Ok(RedisReply::Text(_)) = self.try_ask(&["PING"]).await {
                self.child = Some(child);
                return true;
            }
            assert!(tokio::time::Instant::now() < limit, "no answer: {:?}", self.log.lock());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Its folder.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).expect("the server runs")
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.unwrap();
        }
    }

    /// Starts it again, at the same place, with what it kept.
    pub async fn restart(&mut self) {
        self.kill().await;
        assert!(self.launch().await, "the server did not come back: {}", self.log.lock().join("\n"));
    }

    /// Puts it to sleep (SIGSTOP): it listens, and says nothing.
    pub fn pause(&self) {
        processes::signal(self.pid(), Signal::STOP);
    }

    /// Wakes it (SIGCONT).
    pub fn resume(&self) {
        processes::signal(self.pid(), Signal::CONT);
    }

    /// Sends a command on a connection of its own; panics when there is no answer.
    pub async fn ask(&self, command: &[&str]) -> RedisReply {
        match self.try_ask(command).await {
            Ok(reply) => reply,
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    async fn try_ask(&self, command: &[&str]) -> std::io::Result<RedisReply> {
        let mut stream = TcpStream::connect(self.address).await?;
        let mut request = format!("*{}\r\n", command.len());
        for word in command {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(request.as_bytes()).await?;
        let mut reader = BufReader::new(stream);
        crate::patiently("an answer of the server", read_reply(&mut reader)).await
    }

    /// A field of what `INFO` tells.
    pub async fn info(&self, field: &str) -> String {
        let info = self.ask(&["INFO"]).await;
        let line = info.text().lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field} in {info:?}")).trim().to_owned()
    }

    /// All keys that match a pattern.
    pub async fn keys(&self, pattern: &str) -> BTreeSet<String> {
        let keys = self.ask(&["KEYS", pattern]).await;
        keys.list().iter().map(|key| key.text().to_owned()).collect()
    }

    /// Starts a replica of it and waits until it follows.
    pub async fn replica(&self, config: &str) -> Self {
        let config = format!("replicaof 127.0.0.1 {}\n{config}", self.address.port());
        let replica = Self::start_kind(self.kind, &config).await;
        let limit = tokio::time::Instant::now() + PATIENCE;
        while replica.info("master_link_status").await != "up" {
            assert!(tokio::time::Instant::now() < limit, "the replica does not follow");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        replica
    }

    /// Starts a sentinel that watches it under the name `main`, and waits until it has seen `replicas` replicas. It takes half a
    /// second of silence for a death.
    pub async fn sentinel(&self, replicas: usize) -> Self {
        let config = format!(
            "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n",
            self.address.port()
        );
        let sentinel = Self::begin(self.kind, &config, true).await;
        let limit = tokio::time::Instant::now() + PATIENCE;
        while sentinel.ask(&["SENTINEL", "REPLICAS", "main"]).await.list().len() < replicas {
            assert!(tokio::time::Instant::now() < limit, "the sentinel does not see the replicas");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        sentinel
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log.lock();
            let last = &log[log.len().saturating_sub(40)..];
            eprintln!("--- {:?} at {} said:\n{}\n---", self.kind, self.address, last.join("\n"));
        }
        if let Some(child) = &mut self.child {
            let _ = child.start_kill();
        }
    }
}

async fn read_reply(reader: &mut BufReader<TcpStream>) -> std::io::Result<RedisReply> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let (kind, rest) = line.trim_end().split_at(1);
    Ok(match kind {
        "+" => RedisReply::Text(rest.to_owned()),
        "-" => RedisReply::Error(rest.to_owned()),
        ":" => RedisReply::Number(rest.parse().unwrap()),
        "$" if rest == "-1" => RedisReply::Nil,
        "*" if rest == "-1" => RedisReply::Nil,
        "$" => {
            let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
            reader.read_exact(&mut bytes).await?;
            bytes.truncate(bytes.len() - 2);
            RedisReply::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        "*" => {
            let mut list = Vec::new();
            for _ in 0..rest.parse::<usize>().unwrap() {
                list.push(Box::pin(read_reply(reader)).await?);
            }
            RedisReply::List(list)
        }
        _ => panic!("not an answer of Redis: {line:?}"),
    })
}

/// A cluster on this machine.
#[derive(Debug)]
pub struct RedisCluster {
    /// The primaries, which share the slots, and then as many replicas, if any.
    pub nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts `primaries` that share all slots, each with a replica where `replicated`, and waits until all agree.
    pub async fn start(primaries: u16, replicated: bool) -> Self {
        let count = if replicated { 2 * primaries } else { primaries };
        let mut nodes = Vec::new();
        for _ in 0..count {
            // The port for the other nodes comes beside the usual one by 10,000, which is too far from a free one.
            let config = format!(
                "cluster-enabled yes\ncluster-node-timeout 1000\ncluster-port {}\ncluster-replica-validity-factor 0\n",
                free_port()
            );
            nodes.push((Redis::start(&config).await, config));
        }
        let first = &nodes[0];
        for (index, (node, _)) in (1_u16..).zip(&nodes) {
            let epoch = index.to_string();
            assert_eq!(node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await.text(), "OK");
            if index <= primaries {
                let [start, end] = [index - 1, index].map(|n| u32::from(n) * 16_384 / u32::from(primaries));
                let range = [start.to_string(), (end - 1).to_string()];
                let answer = node.ask(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]).await;
                assert_eq!(answer.text(), "OK");
            }
            let bus = first.1.lines().find_map(|line| line.strip_prefix("cluster-port ")).unwrap();
            let port = first.0.address().port().to_string();
            assert_eq!(node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]).await.text(), "OK");
        }
        let cluster = Self { nodes: nodes.into_iter().map(|(node, _)| node).collect() };
        cluster.settle(count).await;
        if replicated {
            let (of, by) = cluster.nodes.split_at(primaries.into());
            for (primary, replica) in of.iter().zip(by) {
                let id = primary.ask(&["CLUSTER", "MYID"]).await;
                let limit = tokio::time::Instant::now() + PATIENCE;
                while replica.ask(&["CLUSTER", "REPLICATE", id.text()]).await
                    != RedisReply::Text("OK".to_owned())
                {
                    assert!(tokio::time::Instant::now() < limit, "a node does not become a replica");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            for replica in by {
                let limit = tokio::time::Instant::now() + PATIENCE;
                while replica.info("role").await != "slave"
                    || replica.info("master_link_status").await != "up"
                {
                    assert!(tokio::time::Instant::now() < limit, "a replica does not follow");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            cluster.settle(count).await;
        }
        cluster
    }

    /// Waits until every node says that all is well and knows `count` nodes.
    async fn settle(&self, count: u16) {
        let limit = tokio::time::Instant::now() + PATIENCE;
        for node in &self.nodes {
            loop {
                let info = node.ask(&["CLUSTER", "INFO"]).await;
                let known = format!("cluster_known_nodes:{count}\r");
                if info.text().contains("cluster_state:ok") && info.text().contains(&known) {
                    break;
                }
                assert!(tokio::time::Instant::now() < limit, "the cluster does not agree: {info:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// A URL with all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }
}

/// Waits until a server says of itself that it is this: `master` or `slave`.
pub async fn has_role(server: &Redis, role: &str) {
    let limit = tokio::time::Instant::now() + PATIENCE;
    while server.info("role").await != role {
        assert!(tokio::time::Instant::now() < limit, "the server does not become a {role}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
