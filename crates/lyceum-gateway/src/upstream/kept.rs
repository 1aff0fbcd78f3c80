//! [`Kept`]: own connections of callers that watch something. They stay open for it, and what changes
//! is told to these callers alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};

use bytes::Bytes;
use lyceum_http::{Caller, Context, random};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::backoff::Backoff;
use super::own::{self, OwnConnections, Owner};
use super::supervise::{Audience, GATHER, GOOD, Reopenings, TICK};
use super::watching::Watching;
use super::{Connection, Upstream, Watched};
use crate::config::Share;

/// What a caller watches, and the task that sees to it.
pub(crate) struct Kept {
    keeping: Keeping,
    task: AbortHandle,
}

/// Everything the task needs besides the upstream.
#[derive(Clone)]
struct Keeping {
    caller: Caller,
    /// What its connection says that it can do.
    capabilities: Bytes,
    watched: Arc<Watched>,
    audience: Arc<dyn Audience>,
}

impl Upstream {
    /// Lets `add` say what a caller watches: over the connection everybody shares, or over the
    /// caller's own, which is opened and kept open for it.
    pub(crate) fn watch<T>(
        self: &Arc<Self>,
        cx: &Context,
        audience: &Arc<dyn Audience>,
        add: impl FnOnce(&Arc<Watched>) -> T,
    ) -> T {
        if self.config.share == Share::Shared {
            return add(&self.watched);
        }
        let mut kept = self.own.kept();
        let kept = kept.entry(cx.caller()).or_insert_with(|| {
            let keeping = Keeping {
                caller: cx.caller(),
                capabilities: own::introduced(cx),
                watched: Arc::default(),
                audience: Arc::clone(audience),
            };
            Kept::new(self, keeping)
        });
        // Before the task can see that nothing is watched, which takes the lock.
        add(&kept.keeping.watched)
    }

    /// Goes on watching for the callers of the upstream in whose place this one is.
    pub(crate) fn watch_on(self: &Arc<Self>, before: &Upstream) {
        let callers = std::mem::take(&mut *before.own.kept());
        let again = |(caller, kept): (Caller, Kept)| {
            kept.task.abort();
            (caller, Kept::new(self, kept.keeping))
        };
        self.own.kept().extend(callers.into_iter().map(again));
    }
}

impl OwnConnections {
    pub(super) fn is_watching(&self, caller: &Caller) -> bool {
        self.kept().get(caller).is_some_and(|kept| !kept.keeping.watched.is_empty())
    }

    /// Nobody needs to be told any more.
    pub(super) fn let_go(&self, caller: &Caller) {
        if let Some(kept) = self.kept().remove(caller) {
            kept.task.abort();
        }
    }

    pub(crate) fn let_all_go(&self) {
        self.kept().drain().for_each(|(_, kept)| kept.task.abort());
    }

    /// Whether a caller still watches something. If not, that is the end of it.
    fn goes_on(&self, caller: &Caller, watched: &Arc<Watched>) -> bool {
        let mut kept = self.kept();
        let is_it = |kept: &Kept| Arc::ptr_eq(&kept.keeping.watched, watched);
        if !kept.get(caller).is_some_and(is_it) {
            return false;
        }
        if watched.is_empty() {
            kept.remove(caller);
            return false;
        }
        true
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Caller, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn new(upstream: &Arc<Upstream>, keeping: Keeping) -> Kept {
        let task = tokio::spawn(keep(Arc::clone(upstream), keeping.clone())).abort_handle();
        Kept { keeping, task }
    }
}

/// Runs until nothing is watched any more.
async fn keep(upstream: Arc<Upstream>, keeping: Keeping) {
    let (mut backoff, mut is_first) = (Backoff::default(), true);
    let Keeping { caller, capabilities, watched, .. } = &keeping;
    while upstream.own.goes_on(caller, watched) {
        let owner = Owner::Caller(caller.clone());
        match upstream.own.open(&upstream, owner, capabilities).await {
            Ok(connection) => {
                attend(&upstream, &connection, &keeping, is_first).await;
                is_first = false;
                if connection.age() > GOOD {
                    backoff.reset();
                }
            }
            Err(unavailable) => tracing::debug!(%unavailable, "nothing can be watched"),
        }
        // Whoever begins again after the end need not wait for it.
        if !watched.is_empty() {
            let [chance] = random();
            sleep(backoff.next(chance)).await;
        }
    }
}

/// Returns when the connection is no longer what the caller has, or nothing is watched.
async fn attend(
    upstream: &Upstream,
    connection: &Arc<Connection>,
    keeping: &Keeping,
    is_first: bool,
) {
    let Keeping { caller, watched, audience, .. } = keeping;
    let mut watching = Watching::new(upstream, connection, watched, &connection.updates);
    if !is_first {
        watching.after_gap();
    }
    watching.renew().await;
    let (mut n_renewed, mut n_missed, mut reopenings) = (0, 0, Reopenings::default());
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = connection.peer.closed() => {
                if !(reopenings.permit() && connection.peer.reopen().await.is_ok()) {
                    upstream.own.forget(connection);
                    return;
                }
            }
            () = connection.updates.arrived() => {
                sleep(GATHER).await;
                let news = connection.updates.take();
                for uri in &news.resources {
                    audience.resource_updated(upstream, uri, Some(caller));
                }
                let lists: Vec<_> = news.lists.into_iter().collect();
                upstream.news.missed(&lists, &BTreeSet::new());
            }
            n = connection.peer.renewed(n_renewed) => {
                n_renewed = n;
                watching.start_anew().await;
            }
            n = connection.peer.missed(n_missed) => {
                n_missed = n;
                connection.updates.missed(&[], &watched.uris());
            }
            () = watching.hear() => watching.renew().await,
            () = watched.changed() => watching.renew().await,
            _ = tick.tick() => {
                watching.renew_if_due().await;
                if watched.is_empty() || !upstream.own.has(connection) {
                    return;
                }
            }
        }
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("watched", &self.keeping.watched).finish_non_exhaustive()
    }
}
