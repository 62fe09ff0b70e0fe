//! Stands where `bowline_gateway::{Gateway, GatewayOptions, Sharing}` will be: the same names, and no child behind them.

use bowline_gateway::child::{ChildSpec, Guard};
use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, code};
use bowline_server::{BoxFuture, Call, Hello, Peer, RawHandler};
use std::{sync::Arc, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    PerSession,
    Shared,
}

#[derive(Debug)]
pub(crate) struct GatewayOptions {
    pub(crate) child: ChildSpec,
    pub(crate) sharing: Sharing,
    pub(crate) init_timeout: Duration,
    pub(crate) max_children: usize,
}

impl GatewayOptions {
    pub(crate) fn new(child: ChildSpec) -> Self {
        Self {
            child,
            sharing: Sharing::PerSession,
            init_timeout: Duration::from_secs(60),
            max_children: 1000,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Gateway {
    options: GatewayOptions,
    _guard: Guard,
}

impl Gateway {
    pub(crate) fn new(options: GatewayOptions, guard: Guard) -> Arc<Self> {
        Arc::new(Self { options, _guard: guard })
    }

    pub(crate) async fn shutdown(&self) {}

    fn refusal(&self) -> ErrorObject {
        ErrorObject::new(
            code::INTERNAL_ERROR,
            format!("{} is not connected in this build", self.options.child.name),
        )
    }
}

impl RawHandler for Gateway {
    fn initialize(&self, _: Hello) -> BoxFuture<Result<Raw, ErrorObject>> {
        let refusal = self.refusal();
        Box::pin(async { Err(refusal) })
    }

    fn call(&self, _: Call) -> BoxFuture<Reply> {
        let refusal = self.refusal();
        Box::pin(async { refusal.into() })
    }

    fn notified(&self, _: &Peer, _: Notification) {}

    fn ended(&self, _: &Peer) {}
}
