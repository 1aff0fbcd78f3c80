//! How long, and by whom, a modern result may be reused.

use std::time::Duration;

use crate::json::Object;

/// Caching hints: `ttlMs` and `cacheScope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    ttl: Duration,
    public: bool,
}

impl Cache {
    /// Fresh every time.
    pub const NONE: Cache = Cache { ttl: Duration::ZERO, public: false };

    /// Reusable by the same caller for `ttl`.
    pub const fn private(ttl: Duration) -> Self {
        Self { ttl, public: false }
    }

    /// Reusable by anybody for `ttl`: only for what is the same for all callers.
    pub const fn public(ttl: Duration) -> Self {
        Self { ttl, public: true }
    }

    pub(crate) fn write(self, result: &mut Object<'_>) {
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let scope = if self.public { "public" } else { "private" };
        result.field("ttlMs", &ttl).field("cacheScope", scope);
    }
}
