//! nginx in front of several backends, as people run it.

use crate::daemon::{Daemon, program};
use std::{fmt::Write as _, net::SocketAddr, path::Path, time::Duration};
use tokio::process::Command;

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
    daemon: Daemon,
}

impl Nginx {
    /// Starts one and waits until it listens.
    pub async fn start(backends: &[SocketAddr], options: NginxOptions) -> Self {
        let daemon = Daemon::start("nginx", |address| config(address, backends, options), command).await;
        Self { daemon }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// The same as a URL with the path `/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address())
    }

    /// Its requests so far: for each the status that the client got, and the backend that gave it.
    #[must_use]
    pub fn requests(&self) -> Vec<(u16, String)> {
        let text = std::fs::read_to_string(self.daemon.dir().join("access.log")).unwrap_or_default();
        let request = |line: &str| {
            let (status, backend) = line.split_once(' ')?;
            Some((status.parse().ok()?, backend.to_owned()))
        };
        text.lines().filter_map(request).collect()
    }

    /// What it has written to its error log.
    #[must_use]
    pub fn said(&self) -> String {
        self.daemon.said()
    }
}

/// The command for a configuration.
pub(crate) fn command(config: &Path) -> Command {
    let mut command = Command::new(program("BOWLINE_TEST_NGINX"));
    let folder = config.parent().expect("it is in a folder");
    command.arg("-p").arg(folder).arg("-c").arg(config).args(["-e", "stderr"]);
    command
}

/// A whole configuration around servers and groups of backends. Nothing is written outside its folder.
pub(crate) fn around(servers: &str) -> String {
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
{servers}
}}
"#
    )
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
    around(&format!(
        r#"  upstream backends {{
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
  }}"#
    ))
}
