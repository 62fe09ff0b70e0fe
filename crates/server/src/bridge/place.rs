//! Where a message goes that names no call.

use crate::{Ask, Call, Peer};
use bowline_proto::jsonrpc::{Notification, Request};

/// What a notification of a server is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The progress of the call that has its token.
    Progress,
    /// A request of the server's own that it gives up.
    Cancelled,
    /// A log message.
    Log,
    /// A list that changed.
    List,
    /// A resource that changed.
    Resource,
    /// Anything else.
    Other,
}

impl Subject {
    /// What a notification with this method is about.
    #[must_use]
    pub fn of(method: &str) -> Self {
        match method {
            "notifications/progress" => Self::Progress,
            "notifications/cancelled" => Self::Cancelled,
            "notifications/message" => Self::Log,
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => Self::List,
            "notifications/resources/updated" => Self::Resource,
            _ => Self::Other,
        }
    }
}

/// The stream that a message goes to.
#[derive(Clone, Debug)]
pub enum On {
    /// That of a call.
    Call(Call),
    /// The session's own.
    Standalone(Peer),
}

impl On {
    /// Where a log message or a request of the server goes, which names no request of the client: to the only running call;
    /// else to the standalone stream if it is read; else to the newest call; else to the standalone stream, which keeps it.
    #[must_use]
    pub fn choose(running: usize, newest: Option<Call>, peer: &Peer) -> Self {
        match newest {
            Some(call) if to_newest(running, peer.reads_standalone()) => Self::Call(call),
            _ => Self::Standalone(peer.clone()),
        }
    }

    /// Says something there.
    pub fn notify(&self, notification: &Notification) {
        match self {
            Self::Call(call) => drop(call.notify(notification)),
            Self::Standalone(peer) => peer.notify(notification),
        }
    }

    /// Asks the client there, with the method and the parameters of a request that has another id.
    pub fn ask(&self, request: &Request) -> Ask {
        match self {
            Self::Call(call) => call.ask(&request.method, request.params.clone()),
            Self::Standalone(peer) => peer.ask(&request.method, request.params.clone()),
        }
    }
}

const fn to_newest(running: usize, reads_standalone: bool) -> bool {
    running == 1 || (running > 1 && !reads_standalone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_requests_go_where_somebody_looks() {
        for (running, reads, newest) in [
            (0, false, false),
            (0, true, false),
            (1, false, true),
            (1, true, true),
            (2, false, true),
            (2, true, false),
            (64, false, true),
            (64, true, false),
        ] {
            assert_eq!(to_newest(running, reads), newest, "{running} running, standalone read: {reads}");
        }
    }
}
