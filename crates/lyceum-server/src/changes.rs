//! Tells clients what changed: modern listeners and legacy sessions.
//!
//! A listener holds what changed since it last looked, not a queue of messages: the same change
//! twice is one, a slow reader costs no more than its filter, and nothing is lost.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use lyceum_http::{Caller, Session};
use lyceum_wire::encode;
use tokio::sync::Notify;

use crate::json::object;
use crate::tasks::NOTIFICATION;

/// Listening streams one server keeps.
const MAX_LISTENERS: usize = 16 * 1024;
/// Bytes of URIs and task ids that all listening streams of one caller, and of all callers, may watch.
const MAX_CALLER_BYTES: usize = 4 << 20;
const MAX_BYTES: usize = 64 << 20;

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
    /// Bytes of what all of them watch.
    bytes: usize,
}

#[derive(Debug)]
struct Listener {
    caller: Caller,
    /// Bytes of what it watches.
    bytes: usize,
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
        self.tell_some(change, None);
    }

    /// Tells nobody but `caller`, if it wants to know.
    pub(crate) fn tell_only(&self, caller: &Caller, change: &Change) {
        self.tell_some(change, Some(caller));
    }

    fn tell_some(&self, change: &Change, only: Option<&Caller>) {
        for listener in lock(&self.listeners).open.values() {
            let is_meant = only.is_none_or(|only| listener.caller == *only);
            if is_meant && listener.wanted.contains(change) {
                lock(&listener.news).changes.insert(change.clone());
                listener.wake.notify_one();
            }
        }
        self.tell_sessions(change, only);
    }

    /// Starts listening for what `caller` wants.
    ///
    /// # Errors
    /// Says which bound is reached.
    pub(crate) fn listen(
        &self,
        caller: Caller,
        wanted: BTreeSet<Change>,
    ) -> Result<Listening<'_>, &'static str> {
        let bytes = wanted.iter().map(Change::bytes).sum();
        let mut listeners = lock(&self.listeners);
        listeners.check_room(&caller, bytes)?;
        let news = News { closed: listeners.closed, ..News::default() };
        let news = Mutex::new(news);
        let listener = Listener { caller, bytes, wanted, news, wake: Notify::new() };
        let listener = Arc::new(listener);
        listeners.bytes += bytes;
        listeners.last += 1;
        let number = listeners.last;
        listeners.open.insert(number, Arc::clone(&listener));
        Ok(Listening { changes: self, number, listener })
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

    fn tell_sessions(&self, change: &Change, only: Option<&Caller>) {
        let Some(message) = legacy_message(change) else { return };
        let sessions: Vec<Arc<Session>> =
            lock(&self.sessions).open.values().filter_map(Weak::upgrade).collect();
        let is_meant = |session: &Arc<Session>| {
            only.is_none_or(|only| *only == Caller::Session(session.key()))
        };
        for session in sessions.into_iter().filter(is_meant) {
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

impl Listeners {
    fn check_room(&self, caller: &Caller, bytes: usize) -> Result<(), &'static str> {
        if self.open.len() >= MAX_LISTENERS {
            return Err("too many listening streams; try again later");
        }
        if bytes == 0 {
            return Ok(());
        }
        let theirs = self.open.values().filter(|open| open.caller == *caller);
        if theirs.map(|open| open.bytes).sum::<usize>() + bytes > MAX_CALLER_BYTES {
            return Err("the streams of this caller watch 4 MiB of URIs; close some first");
        }
        if self.bytes + bytes > MAX_BYTES {
            return Err("all streams together watch 64 MiB of URIs; try again later");
        }
        Ok(())
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
        let mut listeners = lock(&self.changes.listeners);
        if listeners.open.remove(&self.number).is_some() {
            listeners.bytes -= self.listener.bytes;
        }
    }
}

impl Change {
    /// Bytes that a listener keeps of it.
    fn bytes(&self) -> usize {
        match self {
            Change::Tools | Change::Prompts | Change::Resources => 0,
            Change::Resource(name) | Change::Task(name) => name.len(),
        }
    }

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
        let listen = || changes.listen(Caller::Principal("/mcp".into(), None), BTreeSet::new());
        let mut open: Vec<_> = (0..MAX_LISTENERS).map(|_| listen().unwrap()).collect();
        assert!(listen().is_err());
        open.pop();
        assert!(listen().is_ok());
    }

    #[test]
    fn bytes_of_listeners_are_bounded_for_a_caller_and_for_all_and_come_back() {
        let changes = Changes::default();
        let listen = |caller: u8| {
            let wanted = BTreeSet::from([Change::Resource("x".repeat(256 << 10))]);
            changes.listen(Caller::Session([caller; 16]), wanted)
        };
        let fill = |caller: u8| -> Vec<_> { (0..16).map(|_| listen(caller).unwrap()).collect() };
        let mut all = vec![fill(0)];
        assert!(listen(0).is_err_and(|told| told.contains("4 MiB")));
        all.extend((1..16).map(fill));
        assert!(listen(16).is_err_and(|told| told.contains("64 MiB")));
        all.pop();
        assert!(listen(16).is_ok());
        drop(all);
        assert_eq!(lock(&changes.listeners).bytes, 0);
    }
}
