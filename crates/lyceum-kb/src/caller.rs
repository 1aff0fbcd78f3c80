//! Who a read is for, so that what one caller asks does not cost the others.

use std::sync::Arc;

/// Names a caller for fair scheduling. The default one is the knowledge base itself (the indexer, integrity checks,
/// the command line), whose reads have no deadline.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallerId(Option<Arc<str>>);

impl CallerId {
    /// The knowledge base itself.
    pub const INTERNAL: CallerId = CallerId(None);

    pub fn new(name: &str) -> CallerId {
        CallerId(Some(name.into()))
    }

    /// Whether the knowledge base itself is calling.
    pub fn is_internal(&self) -> bool {
        self.0.is_none()
    }
}

impl Default for CallerId {
    fn default() -> CallerId {
        CallerId::INTERNAL
    }
}
