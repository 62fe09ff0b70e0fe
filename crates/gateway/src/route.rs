//! Where a message of a process goes (SEMANTICS 6, "In front of a stdio server"). Pure.

/// What a notification of a server is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
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
    pub(crate) fn of(method: &str) -> Self {
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

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The stream of the newest running call.
    Newest,
    /// The session's standalone stream.
    Standalone,
}

/// Where a log message or a request of the server goes, which names no request of the client: to the only running call; else
/// to the standalone stream if it is read; else to the newest call; else to the standalone stream, which keeps it.
pub(crate) const fn place(running: usize, reads_standalone: bool) -> Place {
    match (running, reads_standalone) {
        (1, _) => Place::Newest,
        (0, _) | (_, true) => Place::Standalone,
        _ => Place::Newest,
    }
}

/// Who of the clients of a shared process hears a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearers {
    /// The call that has its token.
    TokenHolder,
    /// Every session.
    Everyone,
    /// The sessions that subscribed to its URI.
    Subscribers,
    /// Nobody: it could reach the wrong principal.
    Nobody,
}

impl Hearers {
    pub(crate) const fn of(subject: Subject) -> Self {
        match subject {
            Subject::Progress => Self::TokenHolder,
            Subject::List => Self::Everyone,
            Subject::Resource => Self::Subscribers,
            Subject::Cancelled | Subject::Log | Subject::Other => Self::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_requests_go_where_somebody_looks() {
        for (running, reads, expected) in [
            (0, false, Place::Standalone),
            (0, true, Place::Standalone),
            (1, false, Place::Newest),
            (1, true, Place::Newest),
            (2, false, Place::Newest),
            (2, true, Place::Standalone),
            (64, false, Place::Newest),
            (64, true, Place::Standalone),
        ] {
            assert_eq!(place(running, reads), expected, "{running} running, standalone read: {reads}");
        }
    }

    #[test]
    fn a_shared_process_speaks_only_to_whom_it_may() {
        for (method, expected) in [
            ("notifications/progress", Hearers::TokenHolder),
            ("notifications/tools/list_changed", Hearers::Everyone),
            ("notifications/prompts/list_changed", Hearers::Everyone),
            ("notifications/resources/list_changed", Hearers::Everyone),
            ("notifications/resources/updated", Hearers::Subscribers),
            ("notifications/message", Hearers::Nobody),
            ("notifications/cancelled", Hearers::Nobody),
            ("notifications/elicitation/complete", Hearers::Nobody),
            ("x/anything", Hearers::Nobody),
        ] {
            assert_eq!(Hearers::of(Subject::of(method)), expected, "{method}");
        }
    }
}
