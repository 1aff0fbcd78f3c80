//! Keeps one upstream connected, its listing fresh and its subscriptions in place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lyceum_http::client::ClientError;
use lyceum_http::{Caller, random};
use lyceum_wire::Era;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::backoff::Backoff;
use super::dial::CAPABILITIES;
use super::kept::keep_all;
use super::owed::Owed;
use super::refusal::{Refusal, is_final};
use super::succession::Succession;
use super::watching::Watching;
use super::{Connection, Link, Upstream};
use crate::config::Share;
use crate::listing::Kind;

/// How often idleness, age and forgotten subscriptions are looked at.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Changes are gathered for this long before anything is listed again.
pub(super) const GATHER: Duration = Duration::from_millis(100);
/// How long a connection, or a stream, must last to count as good.
pub(super) const GOOD: Duration = Duration::from_secs(5);
/// How long an upstream that looks broken may take to show that it is not.
const PROBE: Duration = Duration::from_secs(5);
/// How long one list may take before the upstream can be used without it. Three of them take less than
/// a call waits for a connection.
const FIRST_LIST: Duration = Duration::from_secs(3);
/// How long it may take when it is asked for again, all its pages.
const LIST: Duration = Duration::from_secs(10 * 60);

/// How often it may meanwhile be found that a kept connection was broken.
const STALE: usize = 2;

/// Why a connection is no longer attended to.
enum Ended {
    Idle,
    /// It is a process nobody uses that has had its time.
    Outlived,
    /// Another one is there in its place; it is good for the calls it has.
    Replaced(Box<Connection>),
    /// The upstream does not take our credentials; it is good for the calls it has.
    TurnedAway,
    Lost(String),
}

/// What went before a connection.
struct Before {
    /// Resources may have changed unheard since there was one.
    gap: bool,
    /// The one in whose place it is.
    replaced: Option<Arc<Connection>>,
}

/// What supervision tells the gateway.
pub(crate) trait Audience: Send + Sync {
    /// The upstream's listing has changed.
    fn listing_changed(&self);
    /// A resource has changed, for one caller or for all; `uri` is the upstream's own.
    fn resource_updated(&self, upstream: &Upstream, uri: &str, only: Option<&Caller>);
}

/// Runs until it is dropped.
pub(crate) async fn supervise(upstream: Arc<Upstream>, audience: Arc<dyn Audience>) {
    tokio::join!(
        connect(&upstream, &*audience),
        keep_all(&upstream, &audience),
        sweep_all(&upstream)
    );
}

/// Closes what is idle or old, whatever else is going on.
async fn sweep_all(upstream: &Upstream) {
    loop {
        sleep(TICK).await;
        upstream.sweep().await;
    }
}

/// Keeps a connection that lists, and that everybody shares if they do.
async fn connect(upstream: &Arc<Upstream>, audience: &dyn Audience) {
    // Whoever watches already, watched the one in whose place it is.
    let mut before = Before { gap: !upstream.watched_over(None).is_empty(), replaced: None };
    let (mut backoff, mut successor) = (Backoff::default(), None);
    loop {
        let dialled = match successor.take() {
            Some(connection) => Ok(connection),
            None => upstream.dial(CAPABILITIES, &upstream.news).await,
        };
        let reason = match dialled {
            Ok(connection) => {
                let connection = Arc::new(connection);
                let ended = attend(upstream, &connection, audience, before).await;
                before = Before { gap: true, replaced: None };
                let was_good = connection.age() > GOOD;
                if was_good {
                    backoff.reset();
                }
                match ended {
                    Ended::Lost(reason) if was_good => {
                        tracing::warn!(
                            upstream = upstream.config.name,
                            reason,
                            "upstream was lost"
                        );
                        upstream.note_error(reason);
                        upstream.set_link(Link::Connecting);
                        continue;
                    }
                    Ended::Lost(reason) => reason,
                    // Two of them may not get along.
                    Ended::Outlived => {
                        upstream.set_link(Link::Connecting);
                        connection.close().await;
                        continue;
                    }
                    Ended::Replaced(other) => {
                        before.replaced = Some(connection);
                        successor = Some(*other);
                        continue;
                    }
                    Ended::TurnedAway => {
                        before.replaced = Some(connection);
                        continue;
                    }
                    Ended::Idle => {
                        upstream.set_link(Link::Idle);
                        connection.close().await;
                        wanted(upstream).await;
                        upstream.set_link(Link::Connecting);
                        continue;
                    }
                }
            }
            Err(error) => describe(&error),
        };
        if let Some(replaced) = before.replaced.take() {
            upstream.retire(replaced);
        }
        let [chance] = random();
        let wait = backoff.next(chance);
        tracing::warn!(upstream = upstream.config.name, reason, retry = ?wait, "upstream is down");
        upstream.set_link(Link::Down { reason, until: Instant::now() + wait });
        tokio::select! {
            () = sleep(wait) => {}
            () = upstream.logged_in() => {}
        }
        upstream.set_link(Link::Connecting);
    }
}

/// Waits until somebody wants to call the upstream, or to hear about a resource of its.
async fn wanted(upstream: &Upstream) {
    let mut changes = upstream.watched.changes();
    while upstream.watched_over(None).is_empty() {
        tokio::select! {
            () = upstream.wanted.notified() => return,
            _ = changes.changed() => {}
        }
    }
}

async fn attend(
    upstream: &Arc<Upstream>,
    connection: &Arc<Connection>,
    audience: &dyn Audience,
    before: Before,
) -> Ended {
    let mut changes = upstream.watched.changes();
    let mut watching = Watching::new(upstream, connection, None, &upstream.news);
    if before.gap {
        watching.after_gap();
    }
    // A legacy upstream tells unasked; a modern one must be listening before it lists, or a change in
    // between is lost.
    if connection.era == Era::Modern {
        watching.renew().await;
    }
    let everything = BTreeSet::from(Kind::ALL);
    let mut lists = Lists::new(upstream, connection, audience);
    lists.fetch(&everything, FIRST_LIST).await;
    upstream.set_link(Link::Up(Arc::clone(connection)));
    if let Some(replaced) = before.replaced {
        upstream.retire(replaced);
    }
    tracing::info!(
        upstream = upstream.config.name,
        revision = connection.peer.revision().as_str(),
        tools = upstream.listing().tools.len(),
        "upstream is up"
    );
    watching.renew().await;
    let (mut n_renewed, mut n_missed, mut reopenings) = (0, 0, Reopenings::default());
    let is_shared = upstream.config.share == Share::Shared;
    let mut succession = Succession::default();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = connection.peer.closed() => {
                if reopenings.permit() && connection.peer.reopen().await.is_ok() {
                    continue;
                }
                return Ended::Lost(connection.farewell("the connection was lost").await);
            },
            () = upstream.news.arrived() => {
                sleep(GATHER).await;
                let news = upstream.news.take();
                // Who has a connection of their own hears about what is theirs there.
                for uri in news.resources.iter().filter(|_| is_shared) {
                    audience.resource_updated(upstream, uri, None);
                }
                lists.fetch(&news.lists, LIST).await;
            }
            n = connection.peer.renewed(n_renewed) => {
                n_renewed = n;
                connection.renew_level().await;
                watching.start_anew().await;
                lists.fetch(&everything, LIST).await;
            }
            n = connection.peer.missed(n_missed) => {
                n_missed = n;
                upstream.news.missed(&Kind::ALL, &upstream.watched_over(None));
            }
            () = watching.hear() => watching.renew().await,
            _ = changes.changed() => watching.renew().await,
            () = upstream.suspected.notified() => {
                match probe(connection).await {
                    Ok(()) => upstream.cleared(connection),
                    // No call was lost on it, so it may just be busy.
                    Err(ClientError::Silent(_)) if !connection.is_suspect() => {}
                    Err(error) => {
                        if Refusal::of(&error) == Some(Refusal::Era) {
                            upstream.forget_era().await;
                        }
                        return Ended::Lost(connection.farewell(&describe(&error)).await);
                    }
                }
            }
            () = upstream.turned_away.notified() => return Ended::TurnedAway,
            other = succession.successor(upstream) => return Ended::Replaced(Box::new(other)),
            _ = tick.tick() => {
                watching.renew_if_due().await;
                let due = lists.due();
                lists.fetch(&due, LIST).await;
                if let Some(ended) = over(upstream, connection, &mut succession) {
                    return ended;
                }
            }
        }
    }
}

/// Sessions over HTTP can be opened again where they are, which whoever calls meanwhile does as well:
/// they share what comes of it, and nobody is told that the upstream is down.
#[derive(Debug, Default)]
pub(super) struct Reopenings(Option<Instant>);

impl Reopenings {
    /// Whether to try; what breaks again soon is left to the backoff.
    pub(super) fn permit(&mut self) -> bool {
        let is_soon = self.0.is_some_and(|last| last.elapsed() < GOOD);
        self.0 = Some(Instant::now());
        !is_soon
    }
}

fn over(
    upstream: &Arc<Upstream>,
    connection: &Connection,
    succession: &mut Succession,
) -> Option<Ended> {
    let config = &upstream.config;
    // The connection that lists for everybody is not the one that sessions use.
    let idle = config.idle_timeout.filter(|_| config.share == Share::Shared);
    if idle.is_some_and(|limit| connection.idle() >= limit)
        && upstream.watched_over(None).is_empty()
    {
        return Some(Ended::Idle);
    }
    if config.max_lifetime.is_some_and(|limit| connection.age() >= limit) {
        let is_used = !connection.is_process() || connection.is_busy();
        if !is_used && !succession.has_begun() {
            return Some(Ended::Outlived);
        }
        succession.begin(upstream);
    }
    None
}

/// Asks the upstream for something that costs it nothing, and that it can only answer if it is what it
/// was.
async fn probe(connection: &Connection) -> Result<(), ClientError> {
    let looks = async {
        // Connections that were kept may be broken, which says nothing about the upstream.
        for _ in 0..STALE {
            match look(connection).await {
                Err(ClientError::Broken(_) | ClientError::Interrupted) => {}
                seen => return seen,
            }
        }
        look(connection).await
    };
    timeout(PROBE, looks).await.unwrap_or(Err(ClientError::Silent(PROBE)))
}

async fn look(connection: &Connection) -> Result<(), ClientError> {
    let peer = &connection.peer;
    if connection.era == Era::Modern {
        return peer.call("server/discover", b"").await.map(drop);
    }
    match peer.call("ping", b"").await {
        // Simple servers have never heard of it, and say so in many ways.
        Err(ClientError::Rpc(_)) => match connection.offers.tools {
            true => peer.list_tools().await.map(drop),
            false => Ok(()),
        },
        asked => asked.map(drop),
    }
}

/// What an upstream offers, kept as it says over one connection.
struct Lists<'a> {
    upstream: &'a Upstream,
    connection: &'a Connection,
    audience: &'a dyn Audience,
    owed: Owed,
    /// What it does not have, though it said that it did.
    refused: BTreeSet<Kind>,
    /// When everything was last listed, or tried to.
    listed: Instant,
}

impl<'a> Lists<'a> {
    fn new(
        upstream: &'a Upstream,
        connection: &'a Connection,
        audience: &'a dyn Audience,
    ) -> Lists<'a> {
        let (refused, listed) = (BTreeSet::new(), Instant::now());
        Lists { upstream, connection, audience, owed: Owed::new(), refused, listed }
    }

    /// What it is time to list again: what could not be listed, or everything now and then.
    fn due(&mut self) -> BTreeSet<Kind> {
        // Many a server does not tell what changes.
        if self.listed.elapsed() < self.upstream.setting.relist {
            return self.owed.take_due();
        }
        self.listed = Instant::now();
        Kind::ALL.into_iter().filter(|kind| !self.refused.contains(kind)).collect()
    }

    /// Lists `kinds` again, each within `patience`. What cannot be listed stays as it was.
    async fn fetch(&mut self, kinds: &BTreeSet<Kind>, patience: Duration) {
        if kinds.is_empty() {
            return;
        }
        let Lists { upstream, connection, .. } = *self;
        let mut owed = BTreeSet::new();
        for kind in kinds {
            let before = upstream.listing();
            let mut listing = (*before).clone();
            listing.tasks = connection.offers.tasks.then_some(connection.era);
            let fetching = listing.fetch(*kind, &connection.peer, connection.offers);
            let fetched = timeout(patience, fetching).await;
            if let Err(error) = fetched.unwrap_or(Err(ClientError::Silent(patience))) {
                match is_final(&error) {
                    true => self.refused.insert(*kind),
                    false => owed.insert(*kind),
                };
                upstream.doubt(connection, &error);
                let error = format!("{kind:?} could not be listed: {}", describe(&error));
                tracing::warn!(upstream = upstream.config.name, error);
                upstream.note_error(error);
            }
            if listing != *before {
                upstream.listing.store(Arc::new(listing));
                self.audience.listing_changed();
            }
        }
        let [chance] = random();
        self.owed.add(owed, chance);
    }
}

/// An error with everything that led to it, on one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}
