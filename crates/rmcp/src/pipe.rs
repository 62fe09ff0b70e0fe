//! The transport that rmcp's service speaks through: messages in memory.

use crate::link::Link;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    sync::Arc,
};
use tokio::sync::mpsc;

/// The service's end of a [`Link`].
pub(crate) struct Pipe {
    pub(crate) link: Arc<Link>,
    pub(crate) messages: mpsc::Receiver<ClientJsonRpcMessage>,
}

impl Transport<RoleServer> for Pipe {
    type Error = Infallible;

    /// Everything is done before this returns: rmcp runs the futures of several messages in any order.
    #[allow(refining_impl_trait, reason = "the future is nothing but an answer")]
    fn send(&mut self, message: ServerJsonRpcMessage) -> Ready<Result<(), Infallible>> {
        self.link.said(&message);
        ready(Ok(()))
    }

    fn receive(&mut self) -> impl Future<Output = Option<ClientJsonRpcMessage>> + Send {
        self.messages.recv()
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.messages.close();
        Ok(())
    }
}
