//! Takes the address, or says who has it.

use super::{address::Address, blame};
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
}

/// Listens on `address`, whose port `option` sets; where a name has several addresses, on the first that is free.
pub(crate) async fn bind(address: &Address, option: &'static str) -> Result<TcpListener, BindError> {
    let bound = first_free(address).await;
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

async fn first_free(address: &Address) -> io::Result<TcpListener> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host((address.host.as_str(), address.port)).await? {
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections of the last run to be forgotten.
    socket.set_reuseaddr(true)?;
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
    async fn an_address_of_another_machine() {
        let error = bind(&address("192.0.2.1", 0), "--port N").await.unwrap_err();
        assert!(matches!(error, BindError::NotOurs(_)), "{error}");
    }
}
