//! Who hears what a shared process says (SEMANTICS 6, "In front of a stdio server"). Pure.

use bowline_server::bridge::Subject;

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
