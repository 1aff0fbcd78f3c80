//! Keeps one upstream connected, its listing fresh and its subscriptions in place.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lyceum_http::client::{ClientError, Subscription};
use lyceum_http::random;
use lyceum_wire::{Era, Writer};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::backoff::Backoff;
use super::dial::CAPABILITIES;
use super::{Connection, Link, Upstream};
use crate::config::Share;
use crate::listing::Kind;

/// How often idleness, age and forgotten subscriptions are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Changes are gathered for this long before anything is listed again.
const GATHER: Duration = Duration::from_millis(100);
/// How long a connection must last to count as good.
const GOOD: Duration = Duration::from_secs(5);
/// How long an upstream that looks broken may take to show that it is not.
const PROBE: Duration = Duration::from_secs(5);

/// Why a connection is no longer attended to.
enum Ended {
    Idle,
    Old,
    Lost(String),
}

/// What supervision tells the gateway.
pub(crate) trait Audience: Send + Sync {
    /// The upstream's listing has changed.
    fn listing_changed(&self);
    /// A resource has changed; `uri` is the upstream's own.
    fn resource_updated(&self, upstream: &Upstream, uri: &str);
}

/// Runs until it is dropped.
pub(crate) async fn supervise(upstream: Arc<Upstream>, audience: Arc<dyn Audience>) {
    let mut backoff = Backoff::default();
    loop {
        let reason = match upstream.dial(CAPABILITIES).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                let ended = attend(&upstream, &connection, &*audience).await;
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
                    Ended::Old => {
                        upstream.set_link(Link::Connecting);
                        connection.close().await;
                        continue;
                    }
                    Ended::Idle => {
                        upstream.set_link(Link::Idle);
                        connection.close().await;
                        sweeping(&upstream, wanted(&upstream)).await;
                        upstream.set_link(Link::Connecting);
                        continue;
                    }
                }
            }
            Err(error) => describe(&error),
        };
        let [chance] = random();
        let wait = backoff.next(chance);
        tracing::warn!(upstream = upstream.config.name, reason, retry = ?wait, "upstream is down");
        upstream.set_link(Link::Down { reason, until: Instant::now() + wait });
        sweeping(&upstream, sleep(wait)).await;
        upstream.set_link(Link::Connecting);
    }
}

/// Waits until somebody wants to call the upstream, or to hear about a resource of its.
async fn wanted(upstream: &Upstream) {
    loop {
        tokio::select! {
            () = upstream.wanted.notified() => return,
            () = upstream.watched.changed() => {
                if !upstream.watched.uris().is_empty() {
                    return;
                }
            }
        }
    }
}

/// Waits for `done`. Connections of sessions grow old meanwhile, too.
async fn sweeping(upstream: &Upstream, done: impl Future<Output = ()>) {
    let mut done = std::pin::pin!(done);
    while timeout(TICK, done.as_mut()).await.is_err() {
        upstream.sweep().await;
    }
}

async fn attend(
    upstream: &Arc<Upstream>,
    connection: &Arc<Connection>,
    audience: &dyn Audience,
) -> Ended {
    let mut owed = list(upstream, connection, &BTreeSet::from(Kind::ALL), audience).await;
    upstream.set_link(Link::Up(Arc::clone(connection)));
    tracing::info!(
        upstream = upstream.config.name,
        revision = connection.peer.revision().as_str(),
        tools = upstream.listing().tools.len(),
        "upstream is up"
    );
    let mut watching = Watching::new(upstream, connection);
    watching.renew().await;
    let (mut n_renewed, mut reopenings) = (0, Reopenings::default());
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
                for uri in &news.resources {
                    audience.resource_updated(upstream, uri);
                }
                owed.extend(list(upstream, connection, &news.lists, audience).await);
            }
            n = connection.peer.renewed(n_renewed) => {
                n_renewed = n;
                connection.renew_level().await;
                watching.uris.clear();
                watching.renew().await;
                owed = list(upstream, connection, &BTreeSet::from(Kind::ALL), audience).await;
            }
            () = watching.hear() => watching.renew().await,
            () = upstream.watched.changed() => watching.renew().await,
            () = upstream.suspected.notified() => {
                match probe(connection).await {
                    Ok(()) => upstream.cleared(connection),
                    Err(reason) => return Ended::Lost(connection.farewell(&reason).await),
                }
            }
            _ = tick.tick() => {
                watching.renew_if_due().await;
                owed = list(upstream, connection, &owed, audience).await;
                upstream.sweep().await;
                if let Some(ended) = over(upstream, connection) {
                    return ended;
                }
            }
        }
    }
}

/// Sessions over HTTP can be opened again where they are, which whoever calls meanwhile does as well:
/// they share what comes of it, and nobody is told that the upstream is down.
#[derive(Debug, Default)]
struct Reopenings(Option<Instant>);

impl Reopenings {
    /// Whether to try; what breaks again soon is left to the backoff.
    fn permit(&mut self) -> bool {
        let is_soon = self.0.is_some_and(|last| last.elapsed() < GOOD);
        self.0 = Some(Instant::now());
        !is_soon
    }
}

fn over(upstream: &Upstream, connection: &Connection) -> Option<Ended> {
    let config = &upstream.config;
    // The connection that lists for everybody is not the one that sessions use.
    let idle = config.idle_timeout.filter(|_| config.share == Share::Shared);
    if idle.is_some_and(|limit| connection.idle() >= limit) && upstream.watched.uris().is_empty() {
        return Some(Ended::Idle);
    }
    config.max_lifetime.filter(|limit| connection.age() >= *limit).map(|_| Ended::Old)
}

/// Asks the upstream for something that costs it nothing.
async fn probe(connection: &Connection) -> Result<(), String> {
    let method = match connection.era {
        Era::Legacy => "ping",
        Era::Modern => "server/discover",
    };
    match timeout(PROBE, connection.peer.call(method, b"")).await {
        Ok(Ok(_) | Err(ClientError::Rpc(_))) => Ok(()),
        Ok(Err(error)) => Err(describe(&error)),
        Err(_) => Err(format!("it did not answer {method} within {PROBE:?}")),
    }
}

/// Lists `kinds` again. What cannot be listed stays as it was; what is worth another try is returned.
async fn list(
    upstream: &Upstream,
    connection: &Connection,
    kinds: &BTreeSet<Kind>,
    audience: &dyn Audience,
) -> BTreeSet<Kind> {
    let mut owed = BTreeSet::new();
    if kinds.is_empty() {
        return owed;
    }
    let before = upstream.listing();
    let mut listing = (*before).clone();
    listing.tasks = connection.offers.tasks.then_some(connection.era);
    for kind in kinds {
        let mut fetched = listing.clone();
        match fetched.fetch(*kind, &connection.peer, connection.offers).await {
            Ok(()) => listing = fetched,
            Err(error) => {
                if !is_final(&error) {
                    owed.insert(*kind);
                }
                let error = format!("{kind:?} could not be listed: {}", describe(&error));
                tracing::warn!(upstream = upstream.config.name, error);
                upstream.note_error(error);
            }
        }
    }
    if listing != *before {
        upstream.listing.store(Arc::new(listing));
        audience.listing_changed();
    }
    owed
}

/// Whether an upstream said what it has to say, so that asking again would bring the same.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(_) | ClientError::Protocol(_) | ClientError::TooLarge { .. })
}

/// Subscriptions at the upstream: a listening stream of a modern one, one request per resource of a
/// legacy one.
struct Watching<'a> {
    upstream: &'a Upstream,
    connection: &'a Connection,
    uris: BTreeSet<String>,
    stream: Option<Subscription>,
    /// When a stream that could not be opened is tried again.
    due: Option<Instant>,
    backoff: Backoff,
}

impl<'a> Watching<'a> {
    fn new(upstream: &'a Upstream, connection: &'a Connection) -> Watching<'a> {
        Watching {
            upstream,
            connection,
            uris: BTreeSet::new(),
            stream: None,
            due: None,
            backoff: Backoff::default(),
        }
    }

    /// Passes on what the stream brings; returns when it has ended.
    async fn hear(&mut self) {
        let Some(stream) = &mut self.stream else { return pending().await };
        while let Some(Ok(news)) = stream.next().await {
            self.backoff.reset();
            self.upstream.news.hear(&news.method, news.params.as_deref());
        }
        self.stream = None;
        let [chance] = random();
        self.due = Some(Instant::now() + self.backoff.next(chance));
    }

    async fn renew_if_due(&mut self) {
        // Sessions vanish without a word.
        if self.due.is_some_and(|due| Instant::now() >= due)
            || self.upstream.watched.uris() != self.uris
        {
            self.due = None;
            self.renew().await;
        }
    }

    async fn renew(&mut self) {
        if self.due.is_some() {
            return;
        }
        let wanted = self.upstream.watched.uris();
        match self.connection.era {
            Era::Modern => self.listen(wanted).await,
            Era::Legacy => self.subscribe(wanted).await,
        }
    }

    async fn listen(&mut self, wanted: BTreeSet<String>) {
        if self.stream.is_some() && wanted == self.uris {
            return;
        }
        // The old stream goes on until the new one stands, so that nothing is missed.
        match self.connection.peer.listen(filter(self.connection, &wanted)).await {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => {
                tracing::debug!(upstream = self.upstream.config.name, %error, "no listening stream");
                if !matches!(error, ClientError::Rpc(_)) {
                    let [chance] = random();
                    self.due = Some(Instant::now() + self.backoff.next(chance));
                }
            }
        }
        self.uris = wanted;
    }

    async fn subscribe(&mut self, wanted: BTreeSet<String>) {
        if !self.connection.offers.subscriptions {
            self.uris = wanted;
            return;
        }
        let come = wanted.difference(&self.uris).map(|uri| ("resources/subscribe", uri));
        let gone = self.uris.difference(&wanted).map(|uri| ("resources/unsubscribe", uri));
        for (method, uri) in come.chain(gone) {
            let mut params = Writer::new();
            params.text("uri", uri);
            if let Err(error) = self.connection.peer.call(method, params.finish()).await {
                tracing::debug!(upstream = self.upstream.config.name, method, uri, %error);
            }
        }
        self.uris = wanted;
    }
}

/// Everything an upstream can tell, and the resources somebody watches.
fn filter(connection: &Connection, uris: &BTreeSet<String>) -> bytes::Bytes {
    let offers = connection.offers;
    let mut filter = Writer::new();
    for (offered, name) in [
        (offers.tools, "toolsListChanged"),
        (offers.prompts, "promptsListChanged"),
        (offers.resources, "resourcesListChanged"),
    ] {
        if offered {
            filter.raw(name, b"true");
        }
    }
    if !uris.is_empty() {
        let uris = serde_json::to_vec(uris).expect("strings serialize");
        filter.raw("resourceSubscriptions", uris);
    }
    filter.finish()
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
