//! nginx in front of several backends, as people run it.

use crate::{Dir, PATIENCE};
use parking_lot::Mutex;
use std::{fmt::Write as _, net::SocketAddr, path::PathBuf, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

/// How nginx is configured. What is not said here is as nginx comes, buffering of answers included.
#[derive(Clone, Copy, Debug)]
pub struct NginxOptions {
    /// How long a backend may be silent in the middle of an answer (`proxy_read_timeout`). nginx comes with 60 s.
    pub read_timeout: Duration,
    /// How many idle connections to backends are kept; 0 = each request has one of its own.
    pub keep_alive: u32,
}

impl Default for NginxOptions {
    fn default() -> Self {
        Self { read_timeout: Duration::from_secs(60), keep_alive: 0 }
    }
}

/// A running nginx that gives each request to a backend that it draws by lot. Dropped, it is killed.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    address: SocketAddr,
    dir: Dir,
    log: Arc<Mutex<Vec<String>>>,
}

impl Nginx {
    /// Starts one and waits until it listens.
    pub async fn start(backends: &[SocketAddr], options: NginxOptions) -> Self {
        let program = std::env::var_os("BOWLINE_TEST_NGINX").map(PathBuf::from).unwrap_or_else(|| {
            panic!("BOWLINE_TEST_NGINX is not set: run `cargo xtask test`, which finds or unpacks nginx and sets it")
        });
        let dir = Dir::new();
        // nginx takes no port 0. The port is free now; should somebody be quicker, another one is tried.
        for _ in 0..5 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            std::fs::write(dir.join("nginx.conf"), config(address, backends, options)).unwrap();
            let mut child = Command::new(&program)
                .arg("-p")
                .arg(dir.path())
                .args(["-c", "nginx.conf", "-e", "stderr"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
            let log = Arc::new(Mutex::new(Vec::new()));
            let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
            let said = log.clone();
            tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    said.lock().push(line);
                }
            });
            let limit = tokio::time::Instant::now() + PATIENCE;
            loop {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                if TcpStream::connect(address).await.is_ok() {
                    return Self { child, address, dir, log };
                }
                assert!(tokio::time::Instant::now() < limit, "nginx does not listen: {:?}", log.lock());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let said = log.lock().join("\n");
            assert!(said.contains("Address already in use"), "nginx ended: {said}");
        }
        panic!("nginx found no free port")
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL with the path `/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Its requests so far: for each the status that the client got, and the backend that gave it.
    #[must_use]
    pub fn requests(&self) -> Vec<(u16, String)> {
        let text = std::fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
        let request = |line: &str| {
            let (status, backend) = line.split_once(' ')?;
            Some((status.parse().ok()?, backend.to_owned()))
        };
        text.lines().filter_map(request).collect()
    }

    /// What it has written to its error log.
    #[must_use]
    pub fn said(&self) -> String {
        self.log.lock().join("\n")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- nginx said:\n{}\n---", self.said());
        }
        let _ = self.child.start_kill();
    }
}

fn config(address: SocketAddr, backends: &[SocketAddr], options: NginxOptions) -> String {
    let mut upstream = String::new();
    for backend in backends {
        // Not taken out of the lot after a failure: a test wants to see each one.
        let _ = writeln!(upstream, "    server {backend} max_fails=0;");
    }
    let (keep_alive, connection) = match options.keep_alive {
        0 => (String::new(), "close"),
        connections => (format!("    keepalive {connections};\n"), ""),
    };
    let read_timeout = options.read_timeout.as_millis();
    format!(
        r#"daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  log_format short '$status $upstream_addr';
  access_log access.log short;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream backends {{
    random;
{upstream}{keep_alive}  }}
  server {{
    listen {address};
    location / {{
      proxy_pass http://backends;
      proxy_http_version 1.1;
      proxy_set_header Connection "{connection}";
      proxy_set_header Host $http_host;
      proxy_read_timeout {read_timeout}ms;
    }}
  }}
}}
"#
    )
}
