//! Which scopes are asked for (MCP 2026-07-28, authorization: scope selection strategy, step-up).

/// What the choice is made from.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScopeSources<'a> {
    /// `scope` of the challenge: what the request at hand needs.
    pub challenge: &'a [String],
    /// `scopes_supported` of the resource's metadata.
    pub supported: &'a [String],
    /// What the owner configured; takes the place of `supported`.
    pub configured: &'a [String],
    /// What was asked for before at the same authorization server: kept, so that a step-up does not lose it.
    pub before: &'a [String],
    /// Whether the authorization server lists `offline_access` and a refresh token is wanted.
    pub offline: bool,
}

/// The scopes to ask for; empty means that the parameter is left out.
#[must_use]
pub fn choose(sources: ScopeSources<'_>) -> Vec<String> {
    let first = match (sources.challenge, sources.configured) {
        ([], []) => sources.supported,
        ([], configured) => configured,
        (challenge, _) => challenge,
    };
    // Of `before`, `offline_access` counts no more than the server's metadata of today says.
    let before = sources.before.iter().filter(|scope| *scope != OFFLINE);
    let mut chosen: Vec<String> = Vec::new();
    for scope in before.chain(first) {
        if !chosen.contains(scope) {
            chosen.push(scope.clone());
        }
    }
    if sources.offline && !chosen.iter().any(|scope| scope == OFFLINE) {
        chosen.push(OFFLINE.to_owned());
    }
    chosen
}

/// The scope that asks for a refresh token.
pub const OFFLINE: &str = "offline_access";

/// Whether all of `needed` are among `granted`.
#[must_use]
pub fn covers(granted: &[String], needed: &[String]) -> bool {
    needed.iter().all(|scope| granted.contains(scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_order_of_sources() {
        // challenge, supported, configured, before, offline -> asked
        let table = [
            ("", "", "", "", false, ""),
            ("a", "s t", "", "", false, "a"),
            ("", "s t", "", "", false, "s t"),
            ("", "s t", "c", "", false, "c"),
            ("a", "s t", "c", "", false, "a"),
            ("w", "p", "", "r", false, "r w"),
            ("r w", "p", "", "r", false, "r w"),
            ("", "s", "", "", true, "s offline_access"),
            ("", "", "", "", true, "offline_access"),
            ("", "s", "", "s offline_access", false, "s"),
            ("", "s offline_access", "", "", false, "s offline_access"),
        ];
        for (challenge, supported, configured, before, offline, asked) in table {
            let (challenge, supported, configured, before) =
                (list(challenge), list(supported), list(configured), list(before));
            let chosen = choose(ScopeSources {
                challenge: &challenge,
                supported: &supported,
                configured: &configured,
                before: &before,
                offline,
            });
            assert_eq!(
                chosen,
                list(asked),
                "{challenge:?} {supported:?} {configured:?} {before:?} {offline}"
            );
        }
    }

    #[test]
    fn covering() {
        assert!(covers(&list("a b"), &list("b")));
        assert!(covers(&list("a"), &[]));
        assert!(!covers(&list("a"), &list("a b")));
    }
}
