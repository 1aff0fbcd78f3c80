//! [`OwnConnections`]: connections that belong to one session, or to one principal; and spare ones,
//! for upstreams whose shared connection is taken by a call that waits for its client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::{Context, Principal};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::dial::CAPABILITIES;
use super::{Connection, Unavailable, Upstream, describe};
use crate::config::UpstreamConfig;
use crate::relay::asking;

/// How long a spare connection nobody uses is kept.
const SPARE: Duration = Duration::from_secs(60);

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    /// A legacy session.
    Session([u8; 16]),
    /// Everything a modern client with these credentials does.
    Principal(Arc<str>, Option<Principal>),
    /// Whoever finds the shared connection taken.
    Spare(usize),
}

type Slot = Arc<OnceCell<Arc<Connection>>>;

/// The connections of an upstream that are not shared.
#[derive(Debug)]
pub(crate) struct OwnConnections {
    max: usize,
    open: Mutex<HashMap<Owner, Slot>>,
}

impl OwnConnections {
    pub(crate) fn new(max: usize) -> OwnConnections {
        OwnConnections { max, open: Mutex::default() }
    }

    /// The caller's own connection, made if there is none. Calls that find none together share the
    /// one that is made.
    pub(crate) async fn get(
        &self,
        upstream: &Upstream,
        cx: &Context,
    ) -> Result<Arc<Connection>, Unavailable> {
        let owner = Owner::of(cx);
        // A modern client says with every request what it can do, so there is nothing it could
        // not do in another one.
        let capabilities = match owner {
            Owner::Session(_) => asking::capabilities(cx.capabilities),
            _ => Bytes::from_static(CAPABILITIES),
        };
        self.open(upstream, owner, &capabilities).await
    }

    /// A connection on which no call waits.
    pub(crate) async fn spare(&self, upstream: &Upstream) -> Result<Arc<Connection>, Unavailable> {
        let is_free = |number: &usize| {
            let open = self.lock();
            let connection = open.get(&Owner::Spare(*number)).and_then(|slot| slot.get());
            !connection.is_some_and(|connection| connection.is_taken())
        };
        let free = (0..self.max).find(is_free).unwrap_or(self.max);
        self.open(upstream, Owner::Spare(free), CAPABILITIES).await
    }

    async fn open(
        &self,
        upstream: &Upstream,
        owner: Owner,
        capabilities: &[u8],
    ) -> Result<Arc<Connection>, Unavailable> {
        let slot = self.slot(&owner).ok_or_else(|| Unavailable::Full {
            name: upstream.config.name.clone(),
            limit: self.max,
        })?;
        let opened = slot.get_or_try_init(|| async {
            // Whoever lists is on it already, and waits longer each time.
            if let Some(down @ Unavailable::Down { .. }) = upstream.unreached() {
                return Err(down);
            }
            // Boxed, because it is rare and would make every call larger.
            let dialled = Box::pin(upstream.dial(capabilities)).await;
            dialled.map(Arc::new).map_err(|error| {
                let reason = describe(&error);
                upstream.note_error(reason.clone());
                upstream.failed();
                upstream.down(reason, Instant::now())
            })
        });
        opened.await.cloned().inspect_err(|_| drop(self.lock().remove(&owner)))
    }

    fn slot(&self, owner: &Owner) -> Option<Slot> {
        let mut open = self.lock();
        if let Some(slot) = open.get(owner) {
            return Some(Arc::clone(slot));
        }
        if open.len() >= self.max {
            open.retain(|_, slot| !is_abandoned(slot));
        }
        if open.len() >= self.max {
            // Whoever used theirs least recently gives way, unless everybody is busy.
            let idle = |slot: &Slot| slot.get().map(|connection| connection.idle());
            let oldest = open.iter().filter_map(|(owner, slot)| Some((idle(slot)?, owner)));
            let (idle, oldest) = oldest.max_by_key(|(idle, _)| *idle)?;
            if idle.is_zero() {
                return None;
            }
            let oldest = oldest.clone();
            if let Some(slot) = open.remove(&oldest) {
                close(&slot);
            }
        }
        Some(Arc::clone(open.entry(owner.clone()).or_default()))
    }

    /// The connection of a legacy session, if it has one.
    pub(crate) fn of_session(&self, cx: &Context) -> Option<Arc<Connection>> {
        let owner = Owner::Session(cx.session_key?);
        self.lock().get(&owner)?.get().cloned()
    }

    /// The connection with this number.
    pub(crate) fn numbered(&self, number: u64) -> Option<Arc<Connection>> {
        let open = self.lock();
        let mut connections = open.values().filter_map(|slot| slot.get());
        connections.find(|connection| connection.number == number).cloned()
    }

    /// Forgets a connection that is broken.
    pub(crate) fn forget(&self, broken: &Arc<Connection>) {
        let is_it = |slot: &Slot| slot.get().is_some_and(|open| Arc::ptr_eq(open, broken));
        self.lock().retain(|_, slot| !is_it(slot));
    }

    /// Closes what is idle or old, whatever streams are open; everything `at_once`.
    pub(crate) async fn sweep(&self, config: &UpstreamConfig, at_once: bool) {
        let mut over = Vec::new();
        self.lock().retain(|owner, slot| {
            let Some(connection) = slot.get() else { return !at_once && !is_abandoned(slot) };
            let is_over = at_once
                || owner.patience(config).is_some_and(|limit| connection.idle() >= limit)
                || config.max_lifetime.is_some_and(|limit| connection.age() >= limit);
            if is_over {
                over.push(Arc::clone(connection));
            }
            !is_over
        });
        let mut closing = tokio::task::JoinSet::new();
        for connection in over {
            closing.spawn(async move { connection.close().await });
        }
        closing.join_all().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Slot>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    /// How long a connection nobody uses is kept.
    fn patience(&self, config: &UpstreamConfig) -> Option<Duration> {
        match self {
            Owner::Spare(_) => Some(config.idle_timeout.unwrap_or(SPARE)),
            _ => config.idle_timeout,
        }
    }

    fn of(cx: &Context) -> Owner {
        match cx.session_key {
            Some(session) => Owner::Session(session),
            None => Owner::Principal(Arc::clone(&cx.endpoint), cx.principal.clone()),
        }
    }
}

/// Whether whoever wanted to connect left before there was a connection.
fn is_abandoned(slot: &Slot) -> bool {
    slot.get().is_none() && Arc::strong_count(slot) == 1
}

/// Closes a connection in the background.
fn close(slot: &Slot) {
    if let Some(connection) = slot.get().cloned() {
        tokio::spawn(async move { connection.close().await });
    }
}
