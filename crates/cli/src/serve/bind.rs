//! Takes the address, or says who has it.

use super::{address::Address, blame};
use listenfd::ListenFd;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket, lookup_host};

/// How many connections may wait to be accepted (the kernel may allow fewer). With the usual 128, a burst of clients that come back at
/// once has some wait for a second each.
const BACKLOG: u32 = 4_096;

/// Why the address cannot be listened on. Exit code 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error(
        "{address} is in use{by}. Stop that program, or take another port with {option} (0 takes a free one)."
    )]
    InUse {
        address: Address,
        /// What sets the port.
        option: &'static str,
        /// ` by NAME (pid N)`, or nothing.
        by: String,
    },
    #[error(
        "{address} may not be listened on: ports below 1024 need a privilege. Take another with {option}, or allow it (CAP_NET_BIND_SERVICE)."
    )]
    Refused { address: Address, option: &'static str },
    #[error(
        "{0} is not an address of this machine. Take one that `ip address` shows, 127.0.0.1, or 0.0.0.0 for all."
    )]
    NotOurs(Address),
    #[error("{address} cannot be listened on: {source}")]
    Other { address: Address, source: io::Error },
    #[error("LISTEN_FDS hands over {0} sockets, and one is served here: give the unit one ListenStream=")]
    TooMany(usize),
    #[error(
        "LISTEN_FDS hands over what is no listening TCP socket: {0}. Give the unit a ListenStream= with a port"
    )]
    HandedOver(#[source] io::Error),
}

/// Where the endpoint listens.
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    /// Whether another process may listen there too.
    pub(crate) shared: bool,
}

/// Takes the socket that was handed over (`LISTEN_FDS`, as systemd does it), else listens on `address`; with `reuse_port`, beside others
/// that do so too.
pub(crate) async fn endpoint(address: &Address, reuse_port: bool) -> Result<Bound, BindError> {
    if let Some(listener) = handed_over()? {
        return Ok(Bound { listener, shared: true });
    }
    let listener = bind_with(address, "--port N", reuse_port).await?;
    Ok(Bound { listener, shared: reuse_port })
}

/// The socket of `LISTEN_FDS`, where that is meant for this process.
fn handed_over() -> Result<Option<TcpListener>, BindError> {
    let mut sockets = ListenFd::from_env();
    match sockets.len() {
        0 => Ok(None),
        1 => {
            let socket = sockets.take_tcp_listener(0).map_err(BindError::HandedOver)?;
            let listener = socket.map(|socket| {
                socket.set_nonblocking(true)?;
                TcpListener::from_std(socket)
            });
            listener.transpose().map_err(BindError::HandedOver)
        }
        more => Err(BindError::TooMany(more)),
    }
}

/// Listens on `address`, whose port `option` sets; where a name has several addresses, on the first that is free.
pub(crate) async fn bind(address: &Address, option: &'static str) -> Result<TcpListener, BindError> {
    bind_with(address, option, false).await
}

async fn bind_with(
    address: &Address,
    option: &'static str,
    reuse_port: bool,
) -> Result<TcpListener, BindError> {
    let bound = first_free(address, reuse_port).await;
    bound.map_err(|source| {
        let address = address.clone();
        match source.kind() {
            io::ErrorKind::AddrInUse => {
                let by =
                    blame::listener(address.port).map(|process| format!(" by {process}")).unwrap_or_default();
                BindError::InUse { address, option, by }
            }
            io::ErrorKind::PermissionDenied => BindError::Refused { address, option },
            io::ErrorKind::AddrNotAvailable => BindError::NotOurs(address),
            _ => BindError::Other { address, source },
        }
    })
}

async fn first_free(address: &Address, reuse_port: bool) -> io::Result<TcpListener> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host((address.host.as_str(), address.port)).await? {
        match listen(address, reuse_port) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn listen(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections of the last run to be forgotten.
    socket.set_reuseaddr(true)?;
    if reuse_port {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.into(), port }
    }

    #[tokio::test]
    async fn a_port_in_use_names_the_program() {
        let taken = bind(&address("127.0.0.1", 0), "--port N").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(&address("127.0.0.1", port), "--port N").await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("127.0.0.1:{port} is in use")), "{error}");
        #[cfg(target_os = "linux")]
        assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
    }

    #[tokio::test]
    async fn a_port_is_shared_with_who_shares_it_too() {
        let first = bind_with(&address("127.0.0.1", 0), "--port N", true).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let second = endpoint(&address("127.0.0.1", port), true).await.unwrap();
        assert!(second.shared);
        assert!(matches!(endpoint(&address("127.0.0.1", port), false).await, Err(BindError::InUse { .. })));
    }

    #[tokio::test]
    async fn an_address_of_another_machine() {
        let error = bind(&address("192.0.2.1", 0), "--port N").await.unwrap_err();
        assert!(matches!(error, BindError::NotOurs(_)), "{error}");
    }
}
