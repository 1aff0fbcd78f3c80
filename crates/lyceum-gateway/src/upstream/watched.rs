//! [`Watched`]: which resources of an upstream somebody wants to hear about.
//!
//! Modern clients watch for as long as their listening stream runs; legacy sessions until they say
//! otherwise or are gone. The upstream is asked once for each resource, whoever watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lyceum_http::Session;
use tokio::sync::Notify;

/// Resources of one upstream that are watched at once.
const MAX_WATCHED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// By the upstream's own URI.
    watchers: Mutex<HashMap<String, Watchers>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Watchers {
    n_streams: usize,
    /// Sessions, and the URI they know the resource by.
    sessions: Vec<(Weak<Session>, String)>,
}

/// A stream that watches some resources, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Arc<Watched>,
    uris: Vec<String>,
}

impl Watched {
    /// Watches `uris` for a stream.
    pub(crate) fn stream(self: &Arc<Self>, uris: Vec<String>) -> Watch {
        let mut watchers = self.lock();
        let mut kept = Vec::with_capacity(uris.len());
        for uri in uris {
            if watchers.len() < MAX_WATCHED || watchers.contains_key(&uri) {
                watchers.entry(uri.clone()).or_default().n_streams += 1;
                kept.push(uri);
            }
        }
        drop(watchers);
        self.changed.notify_one();
        Watch { watched: Arc::clone(self), uris: kept }
    }

    /// Watches `uri`, which the session calls `public`. It ends by itself when the session is no
    /// longer subscribed to `public`.
    pub(crate) fn session(&self, uri: &str, public: &str, session: &Arc<Session>) {
        let mut watchers = self.lock();
        if watchers.len() >= MAX_WATCHED && !watchers.contains_key(uri) {
            return;
        }
        let sessions = &mut watchers.entry(uri.to_owned()).or_default().sessions;
        sessions.retain(|(known, _)| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(session)));
        sessions.push((Arc::downgrade(session), public.to_owned()));
        drop(watchers);
        self.changed.notify_one();
    }

    /// Somebody may have stopped watching.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// What is watched at the moment.
    pub(crate) fn uris(&self) -> BTreeSet<String> {
        let mut watchers = self.lock();
        watchers.retain(|_, watchers| {
            watchers.sessions.retain(|(session, public)| {
                session.upgrade().is_some_and(|session| session.is_subscribed(public))
            });
            watchers.n_streams > 0 || !watchers.sessions.is_empty()
        });
        watchers.keys().cloned().collect()
    }

    /// Whether nothing is watched at the moment.
    pub(crate) fn is_empty(&self) -> bool {
        self.uris().is_empty()
    }

    /// Returns when what is watched may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watchers>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.watched.lock();
        for uri in &self.uris {
            if let Some(watchers) = watchers.get_mut(uri) {
                watchers.n_streams -= 1;
            }
        }
        drop(watchers);
        self.watched.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_watched_as_long_as_any_stream_watches_it() {
        let watched = Arc::new(Watched::default());
        let uris = |watched: &Watched| watched.uris().into_iter().collect::<Vec<_>>();
        let one = watched.stream(vec!["a".into(), "b".into()]);
        let two = watched.stream(vec!["b".into()]);
        assert_eq!(uris(&watched), ["a", "b"]);
        drop(one);
        assert_eq!(uris(&watched), ["b"]);
        drop(two);
        assert_eq!(uris(&watched), [""; 0]);
    }

    #[test]
    fn there_is_an_end_to_what_can_be_watched() {
        let watched = Arc::new(Watched::default());
        let many = (0..=MAX_WATCHED).map(|n| n.to_string()).collect();
        let _watch = watched.stream(many);
        assert_eq!(watched.uris().len(), MAX_WATCHED);
    }
}
