//! The resources a session is subscribed to, bounded in number and in bytes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Subscriptions one session may hold.
pub const MAX_SUBSCRIPTIONS: usize = 1024;
/// Bytes of the URIs one session may be subscribed to.
pub const MAX_SUBSCRIPTION_BYTES: usize = 256 << 10;
/// Bytes of the URIs all sessions of an endpoint may be subscribed to.
const MAX_ENDPOINT_BYTES: usize = 64 << 20;

/// Counts the bytes of all subscriptions of an endpoint.
#[derive(Debug, Default)]
pub(super) struct SubscriptionBudget(AtomicUsize);

/// What one session is subscribed to.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    uris: BTreeSet<String>,
    bytes: usize,
    budget: Arc<SubscriptionBudget>,
}

impl Subscriptions {
    pub(super) fn new(budget: Arc<SubscriptionBudget>) -> Self {
        Self { uris: BTreeSet::new(), bytes: 0, budget }
    }

    /// Adds a resource; `false` when that would be too many, or too many bytes.
    pub(super) fn add(&mut self, uri: &str) -> bool {
        if self.uris.contains(uri) {
            return true;
        }
        let bytes = self.bytes + uri.len();
        if self.uris.len() >= MAX_SUBSCRIPTIONS || bytes > MAX_SUBSCRIPTION_BYTES {
            return false;
        }
        let total = &self.budget.0;
        if total.fetch_add(uri.len(), Ordering::Relaxed) + uri.len() > MAX_ENDPOINT_BYTES {
            total.fetch_sub(uri.len(), Ordering::Relaxed);
            return false;
        }
        self.bytes = bytes;
        self.uris.insert(uri.to_owned())
    }

    pub(super) fn remove(&mut self, uri: &str) {
        if self.uris.remove(uri) {
            self.bytes -= uri.len();
            self.budget.0.fetch_sub(uri.len(), Ordering::Relaxed);
        }
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.uris.contains(uri)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bounded_for_a_session_and_for_all_and_come_back() {
        let budget = Arc::new(SubscriptionBudget::default());
        let full = || {
            let mut one = Subscriptions::new(Arc::clone(&budget));
            for at in 0..MAX_SUBSCRIPTION_BYTES / 8192 {
                assert!(one.add(&format!("{at:08192}")));
            }
            assert!(!one.add("x"), "256 KiB are subscribed to");
            assert!(one.add(&format!("{:08192}", 0)), "it is held already");
            one
        };
        let mut all: Vec<_> =
            (0..MAX_ENDPOINT_BYTES / MAX_SUBSCRIPTION_BYTES).map(|_| full()).collect();
        let mut another = Subscriptions::new(Arc::clone(&budget));
        assert!(!another.add("x"), "64 MiB are subscribed to");
        all[0].remove(&format!("{:08192}", 0));
        assert!(another.add("x"));
        drop(all);
        drop(another);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
