//! Tells clients what changed: modern listeners and legacy sessions.
//!
//! A listener holds what changed since it last looked, not a queue of messages: the same change
//! twice is one, a slow reader costs no more than its filter, and nothing is lost.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use lyceum_http::Session;
use lyceum_wire::encode;
use tokio::sync::Notify;

use crate::json::object;
use crate::tasks::NOTIFICATION;

/// Listening streams one server keeps.
const MAX_LISTENERS: usize = 16 * 1024;

/// Something clients may want to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// The contents of one resource.
    Resource(String),
    /// The status of one task.
    Task(String),
}

/// Everybody who wants to know.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    listeners: Mutex<Listeners>,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Listeners {
    open: HashMap<u64, Arc<Listener>>,
    last: u64,
    closed: bool,
}

#[derive(Debug)]
struct Listener {
    wanted: BTreeSet<Change>,
    news: Mutex<News>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct News {
    changes: BTreeSet<Change>,
    closed: bool,
}

/// One open listening stream; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    changes: &'a Changes,
    number: u64,
    listener: Arc<Listener>,
}

/// Legacy sessions with a stream of their own, by address: a `Weak` keeps the address taken.
#[derive(Debug, Default)]
struct Sessions {
    open: HashMap<usize, Weak<Session>>,
    sweep_at: usize,
}

impl Changes {
    /// Tells everybody who wants to know about `change`.
    pub(crate) fn tell(&self, change: &Change) {
        for listener in lock(&self.listeners).open.values() {
            if listener.wanted.contains(change) {
                lock(&listener.news).changes.insert(change.clone());
                listener.wake.notify_one();
            }
        }
        self.tell_sessions(change);
    }

    /// Starts listening for `wanted`; `None` when too many listen already.
    pub(crate) fn listen(&self, wanted: BTreeSet<Change>) -> Option<Listening<'_>> {
        let mut listeners = lock(&self.listeners);
        if listeners.open.len() >= MAX_LISTENERS {
            return None;
        }
        let news = News { closed: listeners.closed, ..News::default() };
        let listener = Listener { wanted, news: Mutex::new(news), wake: Notify::new() };
        let listener = Arc::new(listener);
        listeners.last += 1;
        let number = listeners.last;
        listeners.open.insert(number, Arc::clone(&listener));
        Some(Listening { changes: self, number, listener })
    }

    /// Ends all listening streams, now and from now on.
    pub(crate) fn close(&self) {
        let mut listeners = lock(&self.listeners);
        listeners.closed = true;
        for listener in listeners.open.values() {
            lock(&listener.news).closed = true;
            listener.wake.notify_one();
        }
    }

    /// Remembers a legacy session that can be told things.
    pub(crate) fn add_session(&self, session: &Arc<Session>) {
        let mut sessions = lock(&self.sessions);
        sessions.open.insert(Arc::as_ptr(session).addr(), Arc::downgrade(session));
        if sessions.open.len() > sessions.sweep_at {
            sessions.open.retain(|_, session| session.strong_count() > 0);
            sessions.sweep_at = sessions.open.len() * 2 + 64;
        }
    }

    fn tell_sessions(&self, change: &Change) {
        let Some(message) = legacy_message(change) else { return };
        let sessions: Vec<Arc<Session>> =
            lock(&self.sessions).open.values().filter_map(Weak::upgrade).collect();
        for session in sessions {
            let wanted = match change {
                Change::Resource(uri) => session.is_subscribed(uri),
                _ => true,
            };
            if wanted {
                session.notify(message.clone());
            }
        }
    }
}

impl Listening<'_> {
    /// Waits for news; `None` when the server is closing and everything was told.
    pub(crate) async fn next(&self) -> Option<BTreeSet<Change>> {
        loop {
            {
                let mut news = lock(&self.listener.news);
                if !news.changes.is_empty() {
                    return Some(std::mem::take(&mut news.changes));
                }
                if news.closed {
                    return None;
                }
            }
            self.listener.wake.notified().await;
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        lock(&self.changes.listeners).open.remove(&self.number);
    }
}

impl Change {
    /// The notification's method.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Change::Tools => "notifications/tools/list_changed",
            Change::Prompts => "notifications/prompts/list_changed",
            Change::Resources => "notifications/resources/list_changed",
            Change::Resource(_) => "notifications/resources/updated",
            Change::Task(_) => NOTIFICATION,
        }
    }
}

fn legacy_message(change: &Change) -> Option<Bytes> {
    let params = match change {
        Change::Tools | Change::Prompts | Change::Resources => None,
        Change::Resource(uri) => Some(object(|params| {
            params.field("uri", uri);
        })),
        Change::Task(_) => return None,
    };
    Some(encode::notification(change.method(), params.as_deref()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_bounded_and_make_room_when_they_leave() {
        let changes = Changes::default();
        let mut open: Vec<_> =
            (0..MAX_LISTENERS).map(|_| changes.listen(BTreeSet::new()).unwrap()).collect();
        assert!(changes.listen(BTreeSet::new()).is_none());
        open.pop();
        assert!(changes.listen(BTreeSet::new()).is_some());
    }
}
