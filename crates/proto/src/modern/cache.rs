//! How long clients may keep what they were told: the hints `ttlMs` and `cacheScope`.

/// Who may share a kept result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheScope {
    /// Only whoever asked with the same authorization.
    #[default]
    Private,
    /// Anybody: the result is the same for all callers.
    Public,
}

impl CacheScope {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

/// How long one kind of result may be kept, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    /// How long, in milliseconds; 0 is not at all.
    pub ttl_ms: u64,
    /// By whom.
    pub scope: CacheScope,
}

/// The hints of every kind of result that has any. All pages of a list have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachePolicy {
    /// `server/discover`. Default 5 min.
    pub discover: CacheHint,
    /// `tools/list`. Default 1 min.
    pub tools: CacheHint,
    /// `prompts/list`. Default 1 min.
    pub prompts: CacheHint,
    /// `resources/list`. Default 1 min.
    pub resources: CacheHint,
    /// `resources/templates/list`. Default 1 min.
    pub templates: CacheHint,
    /// `resources/read`. Default not at all.
    pub reads: CacheHint,
}

impl Default for CachePolicy {
    /// Short times, and nothing that is shared between callers: whether lists differ by caller only the author knows.
    fn default() -> Self {
        let minutes = |count: u64| CacheHint { ttl_ms: count * 60_000, scope: CacheScope::Private };
        Self {
            discover: minutes(5),
            tools: minutes(1),
            prompts: minutes(1),
            resources: minutes(1),
            templates: minutes(1),
            reads: CacheHint::default(),
        }
    }
}

impl CachePolicy {
    /// The hint for results of `method`; `None` where results of it have none.
    #[must_use]
    pub fn of(&self, method: &str) -> Option<CacheHint> {
        Some(match method {
            "server/discover" => self.discover,
            "tools/list" => self.tools,
            "prompts/list" => self.prompts,
            "resources/list" => self.resources,
            "resources/templates/list" => self.templates,
            "resources/read" => self.reads,
            _ => return None,
        })
    }
}
