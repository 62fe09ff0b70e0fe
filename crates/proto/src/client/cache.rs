//! Lists and resources that need not be asked for again: `ttlMs`, `cacheScope`, `list_changed`.

use crate::jsonrpc::Raw;
use crate::time::Millis;
use std::collections::BTreeMap;

/// How long a result is good for: its `ttlMs` and `cacheScope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Milliseconds; 0: not at all.
    pub ttl_ms: u64,
    /// Whether it belongs to whoever is logged in.
    pub private: bool,
}

impl Freshness {
    /// Reads the hints of a result. Absent and negative hints mean: stale at once. What is not said to be public is private.
    #[must_use]
    pub fn of(result: &Raw) -> Self {
        Self {
            ttl_ms: result.member("ttlMs").and_then(|ttl| ttl.to().ok()).unwrap_or(0),
            private: result.member("cacheScope").and_then(|scope| scope.string()).as_deref()
                != Some("public"),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    value: Raw,
    stale_at: Millis,
    private: bool,
}

/// Results under their method and the parameters that matter.
#[derive(Clone, Debug)]
pub struct ListCache {
    max_entries: usize,
    entries: BTreeMap<(String, String), Entry>,
    /// Changes whenever something is forgotten: an answer that was asked for before that is not kept.
    generation: u64,
}

impl ListCache {
    /// An empty cache of at most so many entries.
    #[must_use]
    pub const fn new(max_entries: usize) -> Self {
        Self { max_entries, entries: BTreeMap::new(), generation: 0 }
    }

    /// The result that is still fresh.
    #[must_use]
    pub fn get(&self, method: &str, key: &str, now: Millis) -> Option<Raw> {
        let entry = self.entries.get(&(method.to_owned(), key.to_owned()))?;
        (now < entry.stale_at).then(|| entry.value.clone())
    }

    /// What to give to [`put`](Self::put) with an answer that is asked for now.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Keeps a result, if its hints allow that and nothing was forgotten since `generation`.
    pub fn put(&mut self, generation: u64, method: &str, key: &str, now: Millis, value: &Raw) {
        let Freshness { ttl_ms, private } = Freshness::of(value);
        if ttl_ms == 0 || generation != self.generation {
            return;
        }
        if self.entries.len() >= self.max_entries {
            self.entries.retain(|_, entry| now < entry.stale_at);
        }
        if self.entries.len() < self.max_entries {
            let entry = Entry { value: value.detached(), stale_at: now.after(ttl_ms), private };
            self.entries.insert((method.to_owned(), key.to_owned()), entry);
        }
    }

    /// A notification arrived: forgets what it makes stale.
    pub fn on_notification(&mut self, method: &str, params: Option<&Raw>) {
        let stale: &[&str] = match method {
            "notifications/tools/list_changed" => &["tools/list"],
            "notifications/prompts/list_changed" => &["prompts/list"],
            "notifications/resources/list_changed" => &["resources/list", "resources/templates/list"],
            "notifications/resources/updated" => {
                let uri = params.and_then(|params| params.member("uri")).and_then(|uri| uri.string());
                self.forget(|method, key| {
                    method == "resources/read" && uri.as_deref().is_none_or(|uri| uri == key)
                });
                return;
            }
            _ => return,
        };
        self.forget(|method, _| stale.contains(&method));
    }

    /// Somebody else may be logged in: forgets what is private.
    pub fn forget_private(&mut self) {
        self.generation += 1;
        self.entries.retain(|_, entry| !entry.private);
    }

    /// Another server may be there: forgets everything.
    pub fn clear(&mut self) {
        self.forget(|_, _| true);
    }

    fn forget(&mut self, which: impl Fn(&str, &str) -> bool) {
        self.generation += 1;
        self.entries.retain(|(method, key), _| !which(method, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn fresh_for_its_time_and_not_longer() {
        let mut cache = ListCache::new(10);
        let list = result(r#"{"tools":[],"ttlMs":100,"cacheScope":"public"}"#);
        cache.put(0, "tools/list", "", Millis(5), &list);
        assert_eq!(cache.get("tools/list", "", Millis(104)), Some(list.clone()));
        assert_eq!(cache.get("tools/list", "", Millis(105)), None);
        assert_eq!(cache.get("tools/list", "page2", Millis(5)), None);
        for hints in ["{}", r#"{"ttlMs":0}"#, r#"{"ttlMs":-5}"#, r#"{"ttlMs":"x"}"#] {
            cache.put(0, "prompts/list", "", Millis(0), &result(hints));
            assert_eq!(cache.get("prompts/list", "", Millis(0)), None);
        }
    }

    #[test]
    fn changes_and_logins_forget_what_they_concern() {
        let mut cache = ListCache::new(10);
        let public = result(r#"{"ttlMs":100,"cacheScope":"public"}"#);
        let private = result(r#"{"ttlMs":100,"cacheScope":"private"}"#);
        cache.put(0, "tools/list", "", Millis(0), &public);
        cache.put(0, "resources/read", "a", Millis(0), &private);
        cache.put(0, "resources/read", "b", Millis(0), &private);
        cache.on_notification("notifications/resources/updated", Some(&result(r#"{"uri":"a"}"#)));
        assert_eq!(cache.get("resources/read", "a", Millis(1)), None);
        assert!(cache.get("resources/read", "b", Millis(1)).is_some());
        cache.forget_private();
        assert_eq!(cache.get("resources/read", "b", Millis(1)), None);
        assert!(cache.get("tools/list", "", Millis(1)).is_some());
        cache.on_notification("notifications/tools/list_changed", None);
        assert_eq!(cache.get("tools/list", "", Millis(1)), None);
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_kept() {
        let mut cache = ListCache::new(10);
        let asked = cache.generation();
        cache.on_notification("notifications/tools/list_changed", None);
        cache.put(asked, "tools/list", "", Millis(0), &result(r#"{"ttlMs":100}"#));
        assert_eq!(cache.get("tools/list", "", Millis(0)), None);
    }

    #[test]
    fn is_bounded() {
        let mut cache = ListCache::new(2);
        for key in ["a", "b", "c"] {
            cache.put(0, "resources/read", key, Millis(0), &result(r#"{"ttlMs":10}"#));
        }
        assert_eq!(cache.get("resources/read", "c", Millis(0)), None);
        cache.put(0, "resources/read", "d", Millis(20), &result(r#"{"ttlMs":10}"#));
        assert!(cache.get("resources/read", "d", Millis(20)).is_some(), "stale entries make room");
    }
}
