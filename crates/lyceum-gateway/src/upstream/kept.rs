//! Own connections of callers that watch something: they stay open for it, and what changes is told to
//! these callers alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lyceum_http::{Caller, random};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::backoff::Backoff;
use super::own::Owner;
use super::supervise::{Audience, GATHER, GOOD, Reopenings, TICK};
use super::watched::Who;
use super::watching::Watching;
use super::{Connection, Upstream};
use crate::config::Share;

/// Keeps a connection open for each caller that watches something over its own, until it is dropped.
pub(super) async fn keep_all(upstream: &Arc<Upstream>, audience: &Arc<dyn Audience>) {
    if upstream.config.share == Share::Shared {
        return;
    }
    let mut changes = upstream.watched.changes();
    let mut keepers = JoinSet::new();
    let mut kept: HashMap<Caller, AbortHandle> = HashMap::new();
    // Whoever watches already, watched the one in whose place this one is.
    let mut gap = true;
    loop {
        kept.retain(|_, keeper| !keeper.is_finished());
        for who in upstream.watched.callers() {
            kept.entry(who.caller.clone()).or_insert_with(|| {
                keepers.spawn(keep(Arc::clone(upstream), who, Arc::clone(audience), gap))
            });
        }
        gap = false;
        tokio::select! {
            _ = changes.changed() => {}
            Some(_) = keepers.join_next() => {}
        }
    }
}

/// Runs until the caller watches nothing any more. Resources may have changed unheard if there is a
/// `gap`.
async fn keep(upstream: Arc<Upstream>, who: Who, audience: Arc<dyn Audience>, mut gap: bool) {
    let Who { caller, capabilities } = who;
    let mut backoff = Backoff::default();
    while upstream.watched.has(&caller) {
        let owner = Owner::Caller(caller.clone());
        match upstream.own.open(&upstream, owner, &capabilities).await {
            Ok(connection) => {
                attend(&upstream, &connection, &caller, &*audience, gap).await;
                gap = true;
                if connection.age() > GOOD {
                    backoff.reset();
                }
            }
            Err(unavailable) => tracing::debug!(%unavailable, "nothing can be watched"),
        }
        let [chance] = random();
        pause(&upstream, &caller, backoff.next(chance)).await;
    }
}

/// Waits, unless the caller stops to watch: whoever begins again after that need not wait for it.
async fn pause(upstream: &Upstream, caller: &Caller, wait: Duration) {
    let stopped = async {
        while upstream.watched.has(caller) {
            upstream.watched.changed_for(caller).await;
        }
    };
    let _ = timeout(wait, stopped).await;
}

/// Returns when the connection is no longer what the caller has, or nothing is watched.
async fn attend(
    upstream: &Upstream,
    connection: &Arc<Connection>,
    caller: &Caller,
    audience: &dyn Audience,
    gap: bool,
) {
    let mut watching = Watching::new(upstream, connection, Some(caller), &connection.updates);
    if gap {
        watching.after_gap();
    }
    watching.renew().await;
    let (mut n_renewed, mut n_missed, mut reopenings) = (0, 0, Reopenings::default());
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = connection.peer.closed() => {
                // What was closed on purpose stays closed.
                let is_lost = upstream.own.has(connection) && reopenings.permit();
                if !(is_lost && connection.peer.reopen().await.is_ok()) {
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
                connection.updates.missed(&[], &upstream.watched.uris_of(caller));
            }
            () = watching.hear() => watching.renew().await,
            () = upstream.watched.changed_for(caller) => watching.renew().await,
            _ = tick.tick() => {
                watching.renew_if_due().await;
                if !upstream.watched.has(caller) || !upstream.own.has(connection) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::config::{Target, UpstreamConfig};
    use crate::upstream::tests::{Told, setting, who};

    #[tokio::test(start_paused = true)]
    async fn who_stops_to_watch_what_cannot_be_reached_is_not_kept_waiting_for() {
        let target = Target::Command(vec!["forbidden".to_owned()]);
        let config =
            UpstreamConfig { share: Share::PerSession, ..UpstreamConfig::new("up", target) };
        let upstream = Arc::new(Upstream::new(config, setting(), None));
        let watch = upstream.watched.stream(&who(1), vec!["a:1".to_owned()]);
        let keeper =
            tokio::spawn(keep(Arc::clone(&upstream), who(1), Arc::new(Told::default()), false));
        // By then pauses are long.
        sleep(Duration::from_secs(3600)).await;
        assert!(!keeper.is_finished());
        let stopped = Instant::now();
        drop(watch);
        keeper.await.unwrap();
        assert_eq!(stopped.elapsed(), Duration::ZERO);
    }
}
