//! The proxies that people put in front, run with the configurations that `docs/proxies.md` tells them to use.

use crate::{
    daemon::{Daemon, program},
    nginx, repository,
};
use std::net::SocketAddr;
use tokio::process::Command;

/// A kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// nginx.
    Nginx,
    /// Caddy.
    Caddy,
    /// `HAProxy`.
    HaProxy,
}

impl ProxyKind {
    /// The configuration in `docs/proxies.md`: the one code block that is marked with the proxy's language.
    #[must_use]
    pub fn documented(self) -> String {
        self.documented_in("docs/proxies.md")
    }

    fn documented_in(self, page: &str) -> String {
        let file = repository().join(page);
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        let fence = match self {
            Self::Nginx => "```nginx\n",
            Self::Caddy => "```caddyfile\n",
            Self::HaProxy => "```haproxy\n",
        };
        let mut blocks = text.split(fence).skip(1);
        let block = blocks.next().unwrap_or_else(|| panic!("{page} has no block {fence:?}"));
        assert!(blocks.next().is_none(), "{page} has two blocks {fence:?}: which is to be tested?");
        block.split("```").next().expect("a split has a first part").to_owned()
    }

    /// What makes the proxy write the backend's name over `Host`, given a configuration that passes it on.
    #[must_use]
    pub fn rewriting_host(self, config: &str) -> String {
        match self {
            Self::Nginx => {
                replace(config, "proxy_set_header Host $host;", "proxy_set_header Host $proxy_host;")
            }
            Self::Caddy => replace(
                config,
                "reverse_proxy 127.0.0.1:8000 {",
                "reverse_proxy 127.0.0.1:8000 {\n        header_up Host {upstream_hostport}",
            ),
            Self::HaProxy => replace(
                config,
                "    server bowline",
                "    http-request set-header Host localhost\n    server bowline",
            ),
        }
    }

    /// Starts it in front of a backend. `config` is as in the documentation: the public address and that of the backend are
    /// exchanged for real ones here, and nothing else.
    pub async fn start(self, config: &str, backend: SocketAddr) -> Proxy {
        self.launch(&replace(config, "127.0.0.1:8000", &backend.to_string())).await
    }

    /// Starts it in front of three backends, with the configuration in `docs/deploy.md`.
    pub async fn fleet(self, backends: [SocketAddr; 3]) -> Proxy {
        let mut config = self.documented_in("docs/deploy.md");
        for (backend, written) in backends.iter().zip(["127.0.0.1:8001", "127.0.0.1:8002", "127.0.0.1:8003"])
        {
            config = replace(&config, written, &backend.to_string());
        }
        self.launch(&config).await
    }

    async fn launch(self, config: &str) -> Proxy {
        let daemon = match self {
            Self::Nginx => {
                let whole = |address: SocketAddr| {
                    nginx::around(&replace(config, "listen 80;", &format!("listen {address};")))
                };
                Daemon::start("nginx", whole, nginx::command).await
            }
            Self::Caddy => {
                // In the clear, and for whatever name, so that it is the backend that refuses strange ones.
                let whole = |address: SocketAddr| {
                    let site = format!("http://:{} {{\n    bind {}", address.port(), address.ip());
                    let config = replace(config, "mcp.example.com {", &site);
                    format!("{{\n    admin off\n}}\n{config}")
                };
                Daemon::start("caddy", whole, |file| {
                    let mut command = Command::new(program("BOWLINE_TEST_CADDY"));
                    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
                    let folder = file.parent().expect("it is in a folder");
                    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
                        command.env(variable, folder);
                    }
                    command
                })
                .await
            }
            Self::HaProxy => {
                // The rest is what Debian's package has in its file, without its log and its user.
                let whole = |address: SocketAddr| {
                    let config = replace(config, "bind :80", &format!("bind {address}"));
                    format!(
                        "defaults\n    mode http\n    timeout connect 5s\n    timeout client 50s\n    timeout server 50s\n\n{config}"
                    )
                };
                Daemon::start("haproxy", whole, |file| {
                    let mut command = Command::new(program("BOWLINE_TEST_HAPROXY"));
                    command.arg("-db").arg("-f").arg(file);
                    command
                })
                .await
            }
        };
        Proxy { daemon }
    }
}

/// Exchanges the one place where `config` has `from`. Panics when there is none, or another: then the documentation and the
/// tests do not mean the same any more.
#[must_use]
pub fn replace(config: &str, from: &str, to: &str) -> String {
    assert_eq!(config.matches(from).count(), 1, "{from:?} should be there once:\n{config}");
    config.replacen(from, to, 1)
}

/// A running proxy in front of one backend. Dropped, it is killed.
#[derive(Debug)]
pub struct Proxy {
    daemon: Daemon,
}

impl Proxy {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }
}
