//! The live sessions of an endpoint, and the session ids that were given back.
//!
//! Sharded by session key, so that no lock is shared by all requests.

use std::collections::hash_map::Entry;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustc_hash::FxHashMap;
use tokio::time::Duration;

use super::journal::{Journal, JournalFollower};
use super::opened::OpenedIds;
use super::session::Session;
use super::subscriptions::SubscriptionBudget;
use super::token::{SessionToken, unix_now};
use crate::byte_budget::Payer;
use crate::context::Principal;
use crate::limits::Limits;
use crate::outbox::{Outbox, ReplayBudget};
use crate::too_many::{Held, Tally, TooMany};

const SHARDS: usize = 16;
/// Revoked ids remembered; beyond that those nearest to their expiry are forgotten first.
const MAX_REVOKED: usize = 131_072;

/// How often to look whether another process has ended sessions.
const FOLLOW: Duration = Duration::from_millis(500);

/// All live sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    shards: [RwLock<Shard>; SHARDS],
    live: AtomicUsize,
    sessions_of: Arc<Tally>,
    calls: AtomicUsize,
    /// The running calls of each principal, in both eras.
    pub(crate) calls_of: Arc<Tally>,
    replay: Arc<ReplayBudget>,
    subscribed: Arc<SubscriptionBudget>,
    journal: Option<Arc<Journal>>,
    sweeping: AtomicBool,
    pub(crate) opened: OpenedIds,
    pub(crate) limits: Limits,
}

#[derive(Debug, Default)]
struct Shard {
    live: FxHashMap<[u8; 16], Live>,
    /// Revoked keys and when their tokens expire anyway.
    revoked: FxHashMap<[u8; 16], u64>,
}

/// A session that its client has ended.
#[derive(Debug)]
pub(crate) struct Revoked;

/// A live session, counted as its principal's.
#[derive(Debug)]
struct Live {
    session: Arc<Session>,
    _held: Option<Held>,
}

impl Shard {
    /// A live session. It is used from here on: no sweep may end it before its user has come so far
    /// as to say so.
    fn used(&self, key: [u8; 16]) -> Option<Arc<Session>> {
        let session = &self.live.get(&key)?.session;
        session.touch();
        Some(Arc::clone(session))
    }

    fn revoke(&mut self, key: [u8; 16], expiry: u64) {
        if self.revoked.len() >= MAX_REVOKED / SHARDS {
            forget_some(&mut self.revoked);
        }
        self.revoked.insert(key, expiry);
    }
}

impl Sessions {
    pub(crate) fn new(limits: Limits) -> Self {
        let sessions_of = Tally::new(limits.sessions_per_principal, TooMany::SessionsOfPrincipal);
        let calls_of = Tally::new(limits.calls_per_principal, TooMany::CallsOfPrincipal);
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            live: AtomicUsize::new(0),
            sessions_of: Arc::new(sessions_of),
            calls: AtomicUsize::new(0),
            calls_of: Arc::new(calls_of),
            replay: Arc::new(ReplayBudget::new(limits.replay_bytes)),
            subscribed: Arc::default(),
            journal: None,
            sweeping: AtomicBool::new(false),
            opened: OpenedIds::default(),
            limits,
        }
    }

    /// Counts what streams keep in `replay`, beside those of other endpoints.
    pub(crate) fn keeping_in(mut self, replay: Arc<ReplayBudget>) -> Self {
        self.replay = replay;
        self
    }

    /// Remembers revocations in `path`, and those already there.
    pub(crate) fn remember_in(mut self, path: &Path) -> io::Result<Self> {
        let (journal, ended) = Journal::open(path, unix_now())?;
        for (key, expiry) in ended {
            let key = key.to_be_bytes();
            self.write(key).revoke(key, expiry);
        }
        self.journal = Some(journal);
        Ok(self)
    }

    /// Ends the sessions that were ended by another process with the same journal, until `self` is no
    /// more; `ended` is told of each that lived here.
    pub(crate) fn follow_journal<F: Fn([u8; 16]) + Send + 'static>(
        self: &Arc<Self>,
        ended: F,
    ) -> impl Future<Output = ()> + Send + use<F> {
        let path = self.journal.as_ref().map(|journal| journal.path().to_owned());
        let sessions = Arc::downgrade(self);
        async move {
            let Some(path) = path else { return };
            let mut follower = JournalFollower::new(path);
            loop {
                tokio::time::sleep(FOLLOW).await;
                let Some(sessions) = sessions.upgrade() else { return };
                if !follower.has_news() {
                    continue;
                }
                let read =
                    tokio::task::spawn_blocking(move || (follower.news(unix_now()), follower));
                let Ok((news, back)) = read.await else { return };
                follower = back;
                for (key, expiry) in news.unwrap_or_default() {
                    if sessions.end_elsewhere(key.to_be_bytes(), expiry) {
                        ended(key.to_be_bytes());
                    }
                }
            }
        }
    }

    /// Ends a session that another process has ended; `false` when that is known already.
    fn end_elsewhere(&self, key: [u8; 16], expiry: u64) -> bool {
        if self.read(key).revoked.contains_key(&key) {
            return false;
        }
        self.write(key).revoke(key, expiry);
        self.remove(key);
        true
    }

    /// The live state of a session that is being used, if it has any.
    ///
    /// # Errors
    /// When its client has ended it.
    pub(crate) fn find(&self, token: &SessionToken) -> Result<Option<Arc<Session>>, Revoked> {
        let shard = self.read(token.key);
        match shard.revoked.contains_key(&token.key) {
            true => Err(Revoked),
            false => Ok(shard.used(token.key)),
        }
    }

    /// The live state of the session with this key, which is being used, if it has any.
    pub(crate) fn get(&self, key: [u8; 16]) -> Option<Arc<Session>> {
        self.read(key).used(key)
    }

    /// The live state of a session of `principal`, created if need be. Of one that its client has
    /// ended meanwhile there is none to keep: whatever is begun in it ends at once.
    pub(crate) fn live(
        self: &Arc<Self>,
        token: &SessionToken,
        principal: Option<&Principal>,
    ) -> Result<Arc<Session>, TooMany> {
        if let Some(session) = self.get(token.key) {
            return Ok(session);
        }
        let mut shard = self.write(token.key);
        if let Some(session) = shard.used(token.key) {
            return Ok(session);
        }
        if shard.revoked.contains_key(&token.key) {
            let ended = self.session(token);
            ended.close();
            return Ok(Arc::new(ended));
        }
        let held = self.sessions_of.hold(principal)?;
        if self.live.fetch_add(1, Ordering::Relaxed) >= self.limits.sessions {
            self.live.fetch_sub(1, Ordering::Relaxed);
            return Err(TooMany::Sessions);
        }
        let session = Arc::new(self.session(token));
        shard.live.insert(token.key, Live { session: Arc::clone(&session), _held: held });
        drop(shard);
        self.keep_swept();
        Ok(session)
    }

    fn session(&self, token: &SessionToken) -> Session {
        let subscribed = Arc::clone(&self.subscribed);
        Session::new(token.key, token.revision, token.capabilities, subscribed)
    }

    /// Counts a call that is to run apart from its connection.
    pub(super) fn begin_call(&self) -> Result<(), TooMany> {
        if self.calls.fetch_add(1, Ordering::Relaxed) >= self.limits.calls {
            self.end_call();
            return Err(TooMany::Calls);
        }
        Ok(())
    }

    pub(super) fn end_call(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// Live sessions.
    pub(crate) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// A queue for one stream of a session.
    pub(crate) fn outbox(&self, payer: Payer) -> Outbox {
        Outbox::replayable(self.limits.stream_bytes, Arc::clone(&self.replay)).charged_to(payer)
    }

    /// Ends a session for good.
    pub(crate) fn revoke(&self, token: &SessionToken) {
        let expiry = token.expires(self.limits.session_lifetime);
        self.write(token.key).revoke(token.key, expiry);
        if let Some(journal) = &self.journal {
            let ended = (u128::from_be_bytes(token.key), expiry);
            journal.add(ended, MAX_REVOKED, unix_now());
        }
        self.remove(token.key);
    }

    /// Drops a session's live state.
    pub(crate) fn remove(&self, key: [u8; 16]) {
        self.remove_if(key, |_| true);
    }

    fn remove_if(&self, key: [u8; 16], is_over: impl FnOnce(&Session) -> bool) {
        let removed = match self.write(key).live.entry(key) {
            Entry::Occupied(live) if is_over(&live.get().session) => Some(live.remove()),
            _ => None,
        };
        if let Some(live) = removed {
            self.live.fetch_sub(1, Ordering::Relaxed);
            live.session.close();
        }
    }

    /// Ends every session's standalone stream, for a server that drains. Calls run on.
    pub(crate) fn drain(&self) {
        for shard in &self.shards {
            sessions_in(shard).iter().for_each(|session| session.drain());
        }
    }

    /// Starts the sweeper unless it runs. It ends by itself when no session is left.
    fn keep_swept(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let sessions = Arc::downgrade(self);
        let ttl = self.limits.session_idle;
        let pause = (ttl / 4).clamp(Duration::from_millis(50), Duration::from_secs(15));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(sessions) = sessions.upgrade() else { return };
                sessions.sweep(ttl);
                if sessions.len() > 0 {
                    continue;
                }
                sessions.sweeping.store(false, Ordering::Release);
                // A session that came meanwhile saw a sweeper running and relied on it.
                if sessions.len() == 0 || sessions.sweeping.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    fn sweep(&self, ttl: Duration) {
        let now = unix_now();
        for shard in &self.shards {
            for session in sessions_in(shard) {
                if session.sweep(ttl) {
                    // Somebody may have come meanwhile.
                    self.remove_if(session.key, |session| session.sweep(ttl));
                }
            }
            let mut shard = write(shard);
            shard.revoked.retain(|_, expiry| *expiry > now);
            if shard.live.is_empty() {
                shard.live.shrink_to_fit();
            }
        }
    }

    fn read(&self, key: [u8; 16]) -> RwLockReadGuard<'_, Shard> {
        read(&self.shards[usize::from(key[0]) % SHARDS])
    }

    fn write(&self, key: [u8; 16]) -> RwLockWriteGuard<'_, Shard> {
        write(&self.shards[usize::from(key[0]) % SHARDS])
    }
}

fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn sessions_in(shard: &RwLock<Shard>) -> Vec<Arc<Session>> {
    read(shard).live.values().map(|live| Arc::clone(&live.session)).collect()
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the half that is nearest to its expiry.
fn forget_some(revoked: &mut FxHashMap<[u8; 16], u64>) {
    let mut by_expiry: Vec<_> = revoked.iter().map(|(key, expiry)| (*expiry, *key)).collect();
    by_expiry.sort_unstable();
    by_expiry.truncate(by_expiry.len() / 2);
    for (_, key) in &by_expiry {
        revoked.remove(key);
    }
    let forgotten = by_expiry.len();
    tracing::warn!(forgotten, "too many ended sessions to remember them all");
}

#[cfg(test)]
mod tests;
