//! SEMANTICS 6 over a shared store: two or three endpoints, and any of them serves any request of any session.

mod away;
mod elsewhere;
mod found;
mod keys;
mod leaving;
mod link;
mod losses;
mod rerun;
mod routes;
mod standalone;
mod tasks;
mod vigil;

use crate::client::{Client, Server};
use bowline_server::{EndpointBuilder, Options};
use bowline_store::MemoryStore;
use link::Link;
use std::{sync::Arc, time::Duration};

/// One of the endpoints, with its way to the store.
pub(crate) struct Backend {
    pub(crate) server: Server,
    pub(crate) link: Link,
}

impl Backend {
    pub(crate) fn new(store: &MemoryStore) -> Self {
        Self::with(store, |builder| builder)
    }

    pub(crate) fn with(
        store: &MemoryStore,
        configure: impl FnOnce(EndpointBuilder) -> EndpointBuilder,
    ) -> Self {
        let link = Link::new(store.clone());
        let shared = Arc::new(link.clone());
        let server = Server::built(|builder| configure(builder).shared_store(shared));
        Self { server, link }
    }

    pub(crate) fn options(store: &MemoryStore, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::default();
        change(&mut options);
        Self::with(store, |builder| builder.options(options))
    }

    /// One that serves modern clients too.
    pub(crate) fn modern(store: &MemoryStore) -> Self {
        Self::modern_options(store, Options::default())
    }

    pub(crate) fn modern_options(store: &MemoryStore, options: Options) -> Self {
        let link = Link::new(store.clone());
        let shared = Arc::new(link.clone());
        Self { server: Server::modern_with(|builder| builder.options(options).shared_store(shared)), link }
    }

    /// The same client, at this backend.
    pub(crate) fn serves(&self, client: &Client) -> Client {
        Client { endpoint: self.server.endpoint.clone(), ..client.clone() }
    }
}

/// Several endpoints over one store.
pub(crate) fn backends<const N: usize>() -> (MemoryStore, [Backend; N]) {
    let store = MemoryStore::default();
    let all = std::array::from_fn(|_| Backend::new(&store));
    (store, all)
}

pub(crate) async fn pause(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}
