//! [`Watched`]: who wants to hear about which resources of an upstream.
//!
//! Modern clients watch for as long as their listening stream runs; legacy sessions until they say
//! otherwise or are gone. It is handed on to whatever takes the upstream's place, so nobody can begin
//! to watch one that is no more; whether one connection or several are asked is not decided here.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use lyceum_http::{Caller, Context, Session};
use tokio::sync::{Notify, watch};

use super::own;

/// Resources of one upstream that are watched at once.
const MAX_WATCHED: usize = 10_000;
/// Bytes of their URIs.
const MAX_WATCHED_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct Watched {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    callers: HashMap<Caller, Watcher>,
    /// How many callers watch a resource, by the upstream's own URI.
    n_callers: HashMap<String, usize>,
    /// Bytes of the URIs in `n_callers`.
    bytes: usize,
}

/// Somebody who watches, or is about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) caller: Caller,
    /// What a connection of its own says that it can do.
    pub(crate) capabilities: Bytes,
}

/// What a caller watches.
#[derive(Debug)]
struct Watcher {
    capabilities: Bytes,
    /// By the upstream's own URI; never empty.
    resources: HashMap<String, Watches>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Watches {
    n_streams: usize,
    /// Sessions, and the URI they know the resource by.
    sessions: Vec<(Weak<Session>, String)>,
}

/// A stream that watches some resources, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Arc<Watched>,
    caller: Caller,
    uris: Vec<String>,
}

impl Default for Watched {
    fn default() -> Watched {
        Watched { state: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Who {
    pub(crate) fn of(cx: &Context) -> Who {
        Who { caller: cx.caller(), capabilities: own::introduced(cx) }
    }
}

impl Watched {
    /// Watches `uris` for a stream.
    pub(crate) fn stream(self: &Arc<Self>, who: &Who, uris: Vec<String>) -> Watch {
        let mut state = self.lock();
        let mut kept = Vec::with_capacity(uris.len());
        for uri in uris {
            if let Some(watches) = state.add(who, &uri) {
                watches.n_streams += 1;
                kept.push(uri);
            }
        }
        drop(state);
        self.look_again(&who.caller);
        Watch { watched: Arc::clone(self), caller: who.caller.clone(), uris: kept }
    }

    /// Watches `uri`, which the session calls `public`. It ends by itself when the session is no
    /// longer subscribed to `public`.
    pub(crate) fn session(&self, who: &Who, uri: &str, public: &str, session: &Arc<Session>) {
        let mut state = self.lock();
        let Some(Watches { sessions, .. }) = state.add(who, uri) else { return };
        sessions.retain(|(known, _)| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(session)));
        sessions.push((Arc::downgrade(session), public.to_owned()));
        drop(state);
        self.look_again(&who.caller);
    }

    /// A caller may have begun to watch something, or stopped.
    pub(crate) fn look_again(&self, caller: &Caller) {
        if let Some(watcher) = self.lock().callers.get(caller) {
            watcher.changed.notify_one();
        }
        self.changed.send_replace(());
    }

    /// A session will not come back.
    pub(crate) fn end(&self, caller: &Caller) {
        let mut state = self.lock();
        if let Some(watcher) = state.callers.get_mut(caller) {
            watcher.resources.values_mut().for_each(|watches| watches.sessions.clear());
            state.tidy(caller);
        }
        drop(state);
        self.look_again(caller);
    }

    /// What anybody watches at the moment.
    pub(crate) fn uris(&self) -> BTreeSet<String> {
        let mut state = self.lock();
        state.tidy_all();
        state.n_callers.keys().cloned().collect()
    }

    /// What a caller watches at the moment.
    pub(crate) fn uris_of(&self, caller: &Caller) -> BTreeSet<String> {
        let mut state = self.lock();
        state.tidy(caller);
        let watcher = state.callers.get(caller);
        watcher.map(|watcher| watcher.resources.keys().cloned().collect()).unwrap_or_default()
    }

    /// Whether a caller watches anything at the moment.
    pub(crate) fn has(&self, caller: &Caller) -> bool {
        let mut state = self.lock();
        state.tidy(caller);
        state.callers.contains_key(caller)
    }

    /// Everybody who watches anything at the moment.
    pub(crate) fn callers(&self) -> Vec<Who> {
        let mut state = self.lock();
        state.tidy_all();
        let who = |(caller, watcher): (&Caller, &Watcher)| Who {
            caller: caller.clone(),
            capabilities: watcher.capabilities.clone(),
        };
        state.callers.iter().map(who).collect()
    }

    /// Tells when what anybody watches may have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns when what a caller watches may have changed; never if it watches nothing.
    pub(crate) async fn changed_for(&self, caller: &Caller) {
        let changed = self.lock().callers.get(caller).map(|watcher| Arc::clone(&watcher.changed));
        match changed {
            Some(changed) => changed.notified().await,
            None => pending().await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Where to note that somebody watches `uri`; None if that would be too many.
    fn add(&mut self, who: &Who, uri: &str) -> Option<&mut Watches> {
        let is_new = !self.n_callers.contains_key(uri);
        let is_full = self.n_callers.len() >= MAX_WATCHED;
        if is_new && (is_full || self.bytes + uri.len() > MAX_WATCHED_BYTES) {
            return None;
        }
        if is_new {
            self.bytes += uri.len();
        }
        let watcher = self.callers.entry(who.caller.clone()).or_insert_with(|| Watcher {
            capabilities: who.capabilities.clone(),
            resources: HashMap::new(),
            changed: Arc::default(),
        });
        if !watcher.resources.contains_key(uri) {
            *self.n_callers.entry(uri.to_owned()).or_default() += 1;
        }
        Some(watcher.resources.entry(uri.to_owned()).or_default())
    }

    /// Forgets what a caller no longer watches.
    fn tidy(&mut self, caller: &Caller) {
        let Some(watcher) = self.callers.get_mut(caller) else { return };
        watcher.tidy(&mut self.n_callers, &mut self.bytes);
        if watcher.resources.is_empty() {
            watcher.changed.notify_one();
            self.callers.remove(caller);
        }
    }

    fn tidy_all(&mut self) {
        self.callers.retain(|_, watcher| {
            watcher.tidy(&mut self.n_callers, &mut self.bytes);
            if watcher.resources.is_empty() {
                watcher.changed.notify_one();
            }
            !watcher.resources.is_empty()
        });
    }
}

impl Watcher {
    fn tidy(&mut self, n_callers: &mut HashMap<String, usize>, bytes: &mut usize) {
        self.resources.retain(|uri, watches| {
            watches.sessions.retain(|(session, public)| {
                session.upgrade().is_some_and(|session| session.is_subscribed(public))
            });
            let is_watched = watches.n_streams > 0 || !watches.sessions.is_empty();
            if !is_watched && let Some(n) = n_callers.get_mut(uri) {
                *n -= 1;
                if *n == 0 {
                    n_callers.remove(uri);
                    *bytes -= uri.len();
                }
            }
            is_watched
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.watched.lock();
        let watcher = state.callers.get_mut(&self.caller);
        if let Some(Watcher { resources, .. }) = watcher {
            for uri in &self.uris {
                if let Some(watches) = resources.get_mut(uri) {
                    watches.n_streams -= 1;
                }
            }
        }
        drop(state);
        self.watched.look_again(&self.caller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(n: u8) -> Who {
        Who { caller: Caller::Session([n; 16]), capabilities: Bytes::from_static(b"{}") }
    }

    #[test]
    fn a_resource_is_watched_as_long_as_any_stream_watches_it() {
        let watched = Arc::new(Watched::default());
        let uris = || watched.uris().into_iter().collect::<Vec<_>>();
        let of = |n| watched.uris_of(&who(n).caller).into_iter().collect::<Vec<_>>();
        let one = watched.stream(&who(1), vec!["a".into(), "b".into()]);
        let two = watched.stream(&who(1), vec!["b".into()]);
        let three = watched.stream(&who(2), vec!["b".into()]);
        assert_eq!(
            (uris(), of(1), of(2)),
            (vec!["a".into(), "b".into()], uris(), vec!["b".into()])
        );
        drop(one);
        assert_eq!((uris(), of(1)), (vec!["b".to_owned()], vec!["b".to_owned()]));
        drop(two);
        assert_eq!((uris(), of(1)), (vec!["b".to_owned()], Vec::new()));
        assert_eq!(watched.callers(), [who(2)]);
        drop(three);
        assert_eq!(uris(), [""; 0]);
        assert_eq!(watched.callers(), []);
    }

    #[test]
    fn there_is_an_end_to_what_can_be_watched() {
        let watched = Arc::new(Watched::default());
        let many = (0..=MAX_WATCHED).map(|n| n.to_string()).collect();
        let _watch = watched.stream(&who(1), many);
        assert_eq!(watched.uris().len(), MAX_WATCHED);
        let _more = watched.stream(&who(2), vec!["0".into(), "other".into()]);
        assert_eq!(watched.uris_of(&who(2).caller), BTreeSet::from(["0".to_owned()]));
        let none = watched.stream(&who(3), vec!["other".into()]);
        assert!(!watched.has(&who(3).caller) && none.uris.is_empty());
    }

    #[test]
    fn bytes_that_are_watched_are_bounded_and_come_back() {
        let watched = Arc::new(Watched::default());
        let long = |n: usize| format!("{n:08192}");
        let most = MAX_WATCHED_BYTES / 8192;
        let watch = watched.stream(&who(1), (0..=most).map(long).collect());
        assert_eq!(watched.uris().len(), most);
        drop(watch);
        assert!(watched.uris().is_empty());
        assert_eq!(watched.lock().bytes, 0);
    }
}
