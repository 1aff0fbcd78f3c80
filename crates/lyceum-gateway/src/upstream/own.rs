//! [`OwnConnections`]: connections that belong to one session, or to one principal; and spare ones,
//! for when the shared one, or a caller's own, is taken by a call that waits for its client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::{Caller, Context};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::dial::CAPABILITIES;
use super::news::News;
use super::{Connection, Unavailable, Upstream, Watched, describe};
use crate::config::UpstreamConfig;
use crate::relay::asking;

/// How long a caller's own connection is kept that nobody uses, unless the operator says otherwise:
/// clients that stay away do not say goodbye.
const OWN: Duration = Duration::from_secs(30 * 60);
/// How long a spare one is.
const SPARE: Duration = Duration::from_secs(60);

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Caller(Caller),
    /// A caller that finds its own connection taken.
    SpareOf(Caller, usize),
    /// Whoever finds the shared connection taken.
    Spare(usize),
}

/// A connection, or why it could not be made, which whoever waited for it hears.
type Slot = Arc<OnceCell<Result<Arc<Connection>, Unavailable>>>;

/// The connections of an upstream that are not shared.
#[derive(Debug)]
pub(crate) struct OwnConnections {
    max: usize,
    open: Mutex<Open>,
    /// Who watches something over theirs.
    watched: Arc<Watched>,
}

#[derive(Debug, Default)]
struct Open {
    slots: HashMap<Owner, Slot>,
    /// There will be no further ones.
    is_over: bool,
}

impl OwnConnections {
    pub(crate) fn new(max: usize, watched: Arc<Watched>) -> OwnConnections {
        OwnConnections { max, open: Mutex::default(), watched }
    }

    /// The caller's own connection, made if there is none. Calls that find none together share the
    /// one that is made.
    pub(crate) async fn get(
        &self,
        upstream: &Upstream,
        cx: &Context,
    ) -> Result<Arc<Connection>, Unavailable> {
        let owner = Owner::Caller(cx.caller());
        let owner = match self.is_taken(&owner) {
            true => self.free(|number| Owner::SpareOf(cx.caller(), number)),
            false => owner,
        };
        self.open_for_call(upstream, owner, &introduced(cx)).await
    }

    /// A connection on which no call waits, for anybody.
    pub(crate) async fn spare(&self, upstream: &Upstream) -> Result<Arc<Connection>, Unavailable> {
        self.open_for_call(upstream, self.free(Owner::Spare), CAPABILITIES).await
    }

    /// The first of these that is not taken, be it that there is none yet.
    fn free(&self, spare: impl Fn(usize) -> Owner) -> Owner {
        let all = (0..self.max).map(&spare);
        all.into_iter().find(|owner| !self.is_taken(owner)).unwrap_or_else(|| spare(self.max))
    }

    /// Whether a call waits for its client on it, so that nobody else's question can be told from its.
    fn is_taken(&self, owner: &Owner) -> bool {
        let open = self.lock();
        let connection = open.slots.get(owner).and_then(opened);
        connection.is_some_and(|connection| connection.is_taken())
    }

    /// On how many of them calls wait, and on how many of the caller's.
    pub(super) fn n_taken(&self, caller: &Caller) -> (usize, usize) {
        let open = self.lock();
        let is_taken = |slot: &Slot| opened(slot).is_some_and(|open| open.is_taken());
        let taken = || open.slots.iter().filter(|(_, slot)| is_taken(slot));
        (taken().count(), taken().filter(|(owner, _)| owner.is_of(caller)).count())
    }

    /// Opens a connection because a call needs it, so it counts if that fails.
    async fn open_for_call(
        &self,
        upstream: &Upstream,
        owner: Owner,
        capabilities: &[u8],
    ) -> Result<Arc<Connection>, Unavailable> {
        let mut was_tried = false;
        let opened = self.try_open(upstream, owner, capabilities, &mut was_tried).await;
        // Where whoever lists has no connection either, that is what counts.
        if was_tried && opened.is_err() && upstream.unreached().is_none() {
            upstream.failed();
        }
        opened
    }

    /// Whoever has no call to make may try as well, which does not count.
    pub(super) async fn open(
        &self,
        upstream: &Upstream,
        owner: Owner,
        capabilities: &[u8],
    ) -> Result<Arc<Connection>, Unavailable> {
        self.try_open(upstream, owner, capabilities, &mut false).await
    }

    /// The connection of an owner; `was_tried` if it was tried to make one just for this.
    async fn try_open(
        &self,
        upstream: &Upstream,
        owner: Owner,
        capabilities: &[u8],
        was_tried: &mut bool,
    ) -> Result<Arc<Connection>, Unavailable> {
        let slot = self.slot(&owner).ok_or_else(|| Unavailable::Full {
            name: upstream.config.name.clone(),
            limit: self.max,
        })?;
        let opening = slot.get_or_init(|| async {
            // Whoever lists is on it already, and waits longer each time.
            if let Some(down @ Unavailable::Down { .. }) = upstream.unreached() {
                return Err(down);
            }
            *was_tried = true;
            let updates = match &owner {
                Owner::Caller(_) | Owner::SpareOf(..) => Arc::new(News::default()),
                Owner::Spare(_) => Arc::clone(&upstream.news),
            };
            // Boxed, because it is rare and would make every call larger.
            let dialled = Box::pin(upstream.dial(capabilities, &updates)).await;
            dialled.map(Arc::new).map_err(|error| {
                let reason = describe(&error);
                upstream.note_error(reason.clone());
                upstream.down(reason, Instant::now())
            })
        });
        let connection = opening.await.clone().inspect_err(|_| {
            let open = &mut self.lock().slots;
            if open.get(&owner).is_some_and(|other| Arc::ptr_eq(other, &slot)) {
                open.remove(&owner);
            }
        })?;
        // Whoever closed the others did not find it.
        if self.lock().is_over && !self.has(&connection) {
            Box::pin(connection.close()).await;
            return Err(upstream.removed());
        }
        Ok(connection)
    }

    fn slot(&self, owner: &Owner) -> Option<Slot> {
        let open = &mut self.lock().slots;
        if let Some(slot) = open.get(owner) {
            return Some(Arc::clone(slot));
        }
        if open.len() >= self.max {
            open.retain(|_, slot| !is_abandoned(slot));
        }
        if open.len() >= self.max {
            // Whoever used theirs least recently gives way, unless everybody is busy; but nobody loses
            // their own because somebody else needs another one.
            let may_go = |other: &Owner| !owner.is_spare() || other.is_spare();
            let idle = |owner: &Owner, slot: &Slot| Some(self.idle(owner, opened(slot)?));
            let others = open.iter().filter(|(other, _)| may_go(other));
            let oldest = others.filter_map(|(owner, slot)| Some((idle(owner, slot)?, owner)));
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

    /// For how long nobody has used a connection. Whoever watches something over it, does.
    fn idle(&self, owner: &Owner, connection: &Connection) -> Duration {
        match owner {
            Owner::Caller(caller) if self.watched.has(caller) => Duration::ZERO,
            _ => connection.idle(),
        }
    }

    /// The caller's own connection, if it has one.
    pub(crate) fn of(&self, caller: &Caller) -> Option<Arc<Connection>> {
        opened(self.lock().slots.get(&Owner::Caller(caller.clone()))?).cloned()
    }

    /// Whether it is still somebody's.
    pub(super) fn has(&self, connection: &Arc<Connection>) -> bool {
        let is_it = |slot: &Slot| opened(slot).is_some_and(|open| Arc::ptr_eq(open, connection));
        self.lock().slots.values().any(is_it)
    }

    /// Whether calls are under way on any of them.
    pub(super) fn are_busy(&self) -> bool {
        self.lock().slots.values().filter_map(opened).any(|open| open.is_busy())
    }

    /// A caller is gone for good, and so is what it had.
    pub(crate) fn end(&self, caller: &Caller) {
        for (_, slot) in self.lock().slots.extract_if(|owner, _| owner.is_of(caller)) {
            close(&slot);
        }
    }

    /// The connection with this number.
    pub(crate) fn numbered(&self, number: u64) -> Option<Arc<Connection>> {
        let open = self.lock();
        let mut connections = open.slots.values().filter_map(opened);
        connections.find(|connection| connection.number == number).cloned()
    }

    /// Forgets a connection that is broken.
    pub(crate) fn forget(&self, broken: &Arc<Connection>) {
        let is_it = |slot: &Slot| opened(slot).is_some_and(|open| Arc::ptr_eq(open, broken));
        self.lock().slots.retain(|_, slot| !is_it(slot));
    }

    /// Closes what is idle or old, whatever streams are open; everything `at_once`.
    pub(crate) async fn sweep(&self, config: &UpstreamConfig, at_once: bool) {
        let mut over = Vec::new();
        self.lock().slots.retain(|owner, slot| {
            let Some(connection) = opened(slot) else { return !at_once && !is_abandoned(slot) };
            let is_over = at_once
                || self.idle(owner, connection) >= owner.patience(config)
                || is_old(connection, config);
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

    /// Closes everything for good.
    pub(crate) async fn close(&self, config: &UpstreamConfig) {
        self.lock().is_over = true;
        self.sweep(config, true).await;
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    fn is_of(&self, caller: &Caller) -> bool {
        match self {
            Owner::Caller(owner) | Owner::SpareOf(owner, _) => owner == caller,
            Owner::Spare(_) => false,
        }
    }

    fn is_spare(&self) -> bool {
        !matches!(self, Owner::Caller(_))
    }

    /// How long a connection nobody uses is kept.
    fn patience(&self, config: &UpstreamConfig) -> Duration {
        config.idle_timeout.unwrap_or(match self {
            Owner::Caller(_) => OWN,
            _ => SPARE,
        })
    }
}

/// What a caller's own connection says that it can do.
pub(super) fn introduced(cx: &Context) -> Bytes {
    match cx.session_key {
        Some(_) => asking::capabilities(cx.capabilities),
        // A modern client says with every request what it can do, so there is nothing it could
        // not do in another one.
        None => Bytes::from_static(CAPABILITIES),
    }
}

/// The connection in a slot, once it is there.
fn opened(slot: &Slot) -> Option<&Arc<Connection>> {
    slot.get()?.as_ref().ok()
}

/// Whether a connection has had its time, and its calls theirs to end.
fn is_old(connection: &Connection, config: &UpstreamConfig) -> bool {
    let grace = if connection.is_busy() { config.call_timeout } else { Duration::ZERO };
    config.max_lifetime.is_some_and(|limit| connection.age() >= limit + grace)
}

/// Whether whoever wanted to connect left before there was a connection.
fn is_abandoned(slot: &Slot) -> bool {
    slot.get().is_none() && Arc::strong_count(slot) == 1
}

/// Closes a connection in the background.
fn close(slot: &Slot) {
    if let Some(connection) = opened(slot).cloned() {
        tokio::spawn(async move { connection.close().await });
    }
}

#[cfg(test)]
mod tests {
    use lyceum_http::{Endpoint, ServeOptions, Site, serve};
    use lyceum_server::Server;
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Target;
    use crate::upstream::tests::{setting, who};

    /// An upstream that takes connections and does not answer, unless somebody does for it.
    async fn silent() -> (Arc<Upstream>, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::Http(format!("http://{}/mcp", listener.local_addr().unwrap()));
        (Arc::new(Upstream::new(UpstreamConfig::new("up", target), setting(), None)), listener)
    }

    type Opening = tokio::task::JoinHandle<Result<Arc<Connection>, Unavailable>>;

    /// Begins to open a connection; returns when its place is taken.
    async fn opening(upstream: &Arc<Upstream>) -> Opening {
        let opener = Arc::clone(upstream);
        let opening = tokio::spawn(async move {
            let owner = Owner::Caller(who(1).caller);
            opener.own.open(&opener, owner, b"{}").await
        });
        while upstream.own.lock().slots.is_empty() {
            tokio::task::yield_now().await;
        }
        opening
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_fails_late_leaves_the_place_of_the_next_one_alone() {
        let (upstream, _listener) = silent().await;
        let first = opening(&upstream).await;
        upstream.forget_era().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = opening(&upstream).await;
        first.await.unwrap().unwrap_err();
        assert!(!second.is_finished());
        assert_eq!(upstream.own.lock().slots.len(), 1);
        second.await.unwrap().unwrap_err();
        assert_eq!(upstream.own.lock().slots.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_connection_that_fails_hears_of_it_at_once() {
        let (upstream, _listener) = silent().await;
        let start = Instant::now();
        let mut waiting = Vec::new();
        for _ in 0..8 {
            waiting.push(opening(&upstream).await);
        }
        for opening in waiting {
            opening.await.unwrap().unwrap_err();
        }
        let alone = start.elapsed();
        opening(&upstream).await.await.unwrap().unwrap_err();
        assert_eq!(start.elapsed(), 2 * alone, "one attempt for all of them, then another one");
    }

    #[tokio::test]
    async fn an_upstream_that_was_closed_has_no_connections_whoever_wants_one() {
        let (upstream, listener) = silent().await;
        let late = opening(&upstream).await;
        upstream.close().await;
        let endpoint =
            Endpoint::builder("/mcp", Server::builder("s", "1").build()).build().unwrap();
        let site = Site::new().endpoint(endpoint);
        let serving = serve(listener, site, ServeOptions::default(), std::future::pending());
        let serving = tokio::spawn(serving);
        let refused = late.await.unwrap().unwrap_err();
        assert!(refused.to_string().contains("its settings changed"), "{refused}");
        let refused = upstream.own.open(&upstream, Owner::Caller(who(2).caller), b"{}").await;
        assert!(refused.is_err() && upstream.own.lock().slots.is_empty());
        serving.abort();
    }

    #[test]
    fn what_nobody_uses_is_closed_in_the_end_whatever_the_operator_says() {
        let owners = [Owner::Caller(Caller::Session([1; 16])), Owner::Spare(0)];
        let mut config = UpstreamConfig::new("up", Target::Http("http://up".to_owned()));
        let patience = |config: &UpstreamConfig| owners.each_ref().map(|it| it.patience(config));
        assert_eq!(patience(&config), [OWN, SPARE]);
        config.idle_timeout = Some(Duration::from_secs(7));
        assert_eq!(patience(&config), [Duration::from_secs(7); 2]);
    }
}
