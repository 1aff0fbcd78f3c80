//! [`Upstream`]: one server behind the gateway, what it offers and how it is.
//!
//! A task of its own keeps it connected (`supervise`); calls borrow the connection. An upstream that
//! is down or slow costs nobody else anything.

mod backoff;
mod breaker;
mod children;
mod connection;
mod dial;
mod health;
mod kept;
mod known;
mod learning;
mod news;
mod owed;
mod own;
mod refusal;
mod retired;
mod succession;
mod supervise;
#[cfg(test)]
mod tests;
mod watched;
mod watching;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use lyceum_http::{Caller, Context};
use lyceum_wire::{Era, RpcError};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::config::{EraChoice, Share, Target, UpstreamConfig};
use crate::listing::Listing;
use crate::names::UriPrefix;
use crate::oauth::OAuth;
use breaker::Breaker;
use children::Children;
pub(crate) use connection::{Connection, Holding};
pub use dial::Setting;
use dial::{DialError, Dialling};
pub use health::{Health, Status};
use known::KnownEra;
use news::{News, UPDATED};
use own::OwnConnections;
use refusal::Pace;
use retired::Retired;
pub(crate) use supervise::{Audience, describe, supervise};
pub(crate) use watched::{Watch, Watched, Who};

/// How often calls under way are looked at that are waited for.
const FINISHING: Duration = Duration::from_millis(20);
/// How long a call waits for a connection that is being made.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long lists wait for a new upstream: about what a process takes that has to be unpacked first.
const ARRIVAL: Duration = Duration::from_secs(5);

/// Why an upstream has no connection that has none any more.
const REMOVED: &str = "it was removed, or its settings changed";

/// A server behind the gateway.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) config: UpstreamConfig,
    setting: Arc<Setting>,
    /// Until when lists wait for it.
    arrives_by: Instant,
    link: watch::Sender<Link>,
    listing: ArcSwap<Listing>,
    pub(crate) watched: Arc<Watched>,
    news: Arc<News>,
    own: OwnConnections,
    children: Children,
    retired: Retired,
    /// None until everything it takes is there.
    authorization: OnceLock<Option<OAuth>>,
    known: KnownEra,
    breaker: Mutex<Breaker>,
    /// Somebody wants a connection that was closed for idleness.
    wanted: Notify,
    /// A call found the connection broken.
    suspected: Notify,
    /// It does not take our credentials, which may be others by now.
    turned_away: Notify,
    /// How often that leads to another connection.
    renewals: Mutex<Pace>,
    condition: Mutex<Condition>,
    /// Calls that got no answer, and calls that did. Kept, because finding a counter costs as much as
    /// reading a short request.
    calls: [OnceLock<metrics::Counter>; 2],
}

/// The shared connection, or why there is none.
#[derive(Debug, Clone)]
enum Link {
    Connecting,
    Up(Arc<Connection>),
    /// Closed because nobody used it.
    Idle,
    Down {
        reason: String,
        until: Instant,
    },
}

#[derive(Debug)]
struct Condition {
    last_error: Option<String>,
    since: u64,
}

/// Why an upstream cannot be called now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("{name} cannot be reached ({reason}); it is tried again in {} s", .retry.as_secs() + 1)]
    Down { name: String, reason: String, retry: Duration },
    #[error("{name} is still being connected to; try again in a moment")]
    Connecting { name: String },
    #[error("{name} failed several calls in a row; it is tried again in {} s", .retry.as_secs() + 1)]
    Failing { name: String, retry: Duration },
    #[error(
        "{name} has as many connections as it may have ({limit}), and all are in use; try again when \
         one is free, or have max_connections of this upstream raised"
    )]
    Full { name: String, limit: usize },
    #[error("the process of {name} that knew it has ended")]
    Ended { name: String },
}

impl Unavailable {
    /// What to say about a task that nobody knows any more.
    pub(crate) fn unknown_task(&self) -> Option<RpcError> {
        let unknown = || RpcError::invalid_params(format!("Unknown task: {self}"));
        matches!(self, Unavailable::Ended { .. }).then(unknown)
    }
}

impl Upstream {
    /// An upstream in the place of the one `before`, if there was one of its name: whoever watched
    /// something still does. If it is the very server, it offers what it did until it has been asked.
    pub(crate) fn new(
        config: UpstreamConfig,
        setting: Arc<Setting>,
        before: Option<&Upstream>,
    ) -> Upstream {
        let same = before.filter(|before| before.config.target == config.target);
        let listing = same.map(Upstream::listing).unwrap_or_default();
        let watched = before.map(|before| Arc::clone(&before.watched)).unwrap_or_default();
        let own = OwnConnections::new(config.max_connections, Arc::clone(&watched));
        // What the same server offered is there already.
        let arrival = if same.is_some() { Duration::ZERO } else { ARRIVAL };
        Upstream {
            config,
            setting,
            arrives_by: Instant::now() + arrival,
            link: watch::Sender::new(Link::Connecting),
            listing: ArcSwap::new(listing),
            watched,
            news: Arc::default(),
            own,
            children: Children::default(),
            retired: Retired::default(),
            authorization: OnceLock::new(),
            known: KnownEra::default(),
            breaker: Mutex::default(),
            wanted: Notify::new(),
            suspected: Notify::new(),
            turned_away: Notify::new(),
            renewals: Mutex::default(),
            condition: Mutex::new(Condition { last_error: None, since: health::now() }),
            calls: Default::default(),
        }
    }

    /// Counts a call that has ended.
    pub(crate) fn count(&self, answered: bool) {
        let counter = self.calls[usize::from(answered)].get_or_init(|| {
            let (name, outcome) = (self.config.name.clone(), if answered { "ok" } else { "error" });
            metrics::counter!("lyceum_upstream_calls_total", "upstream" => name, "outcome" => outcome)
        });
        counter.increment(1);
    }

    /// Whether it is what an operator wants. Only processes depend on what may be started.
    pub(crate) fn is_of(&self, config: &UpstreamConfig, setting: &Arc<Setting>) -> bool {
        let is_process = matches!(config.target, Target::Command(_));
        self.config == *config && (!is_process || Arc::ptr_eq(&self.setting, setting))
    }

    /// How its URIs are known in public.
    pub(crate) fn uris(&self) -> UriPrefix<'_> {
        UriPrefix { form: self.setting.uri_form, prefix: self.config.prefix() }
    }

    /// What it offered when it was last asked, whether or not it is up.
    pub(crate) fn listing(&self) -> Arc<Listing> {
        self.listing.load_full()
    }

    /// Connects anew, on behalf of clients that have these capabilities; resources that change go to
    /// `updates`.
    async fn dial(
        &self,
        capabilities: &[u8],
        updates: &Arc<News>,
    ) -> Result<Connection, DialError> {
        let authorization = self.authorization()?;
        let (config, setting, news) = (&self.config, &*self.setting, &self.news);
        let children = &self.children;
        let known = self.known.get().filter(|_| config.era == EraChoice::Auto);
        let era = known.map_or(config.era, EraChoice::from);
        let dialling = Dialling { config, setting, era, capabilities, news, updates, children };
        let dialled = dial::dial(dialling, authorization).await;
        match &dialled {
            Ok(connection) if known.is_none() => self.known.learn(connection.era),
            Err(error) if !error.is_unreached() => self.known.forget(),
            _ => {}
        }
        dialled
    }

    /// The way to tokens, if it needs any. Configured secrets are read anew each time.
    fn authorization(&self) -> Result<Option<&OAuth>, DialError> {
        let unfit = |error| DialError::OAuth(describe(&error));
        if let Some(found) = self.authorization.get() {
            if let (Some(oauth), Some(config)) = (found, &self.config.oauth) {
                oauth.set_client(dial::client(config).map_err(unfit)?);
            }
            return Ok(found.as_ref());
        }
        let found = dial::authorization(&self.config, &self.setting).map_err(unfit)?;
        Ok(self.authorization.get_or_init(|| found).as_ref())
    }

    /// Returns when another process may have left a token, for somebody logged in there.
    async fn logged_in(&self) {
        match self.authorization.get() {
            Some(Some(oauth)) => oauth.store_changed().await,
            _ => std::future::pending().await,
        }
    }

    /// A connection for a caller's next call, which must be made and learnt from.
    pub(crate) async fn connection(&self, cx: &Context) -> Result<Arc<Connection>, Unavailable> {
        self.admit(&self.breaker)?;
        let connection = self.open(cx).await?;
        self.admit_to(connection)
    }

    /// Like [`connection`](Self::connection), but the one with this number, if it still is. What one
    /// process was told, no other one knows, and may mean something else there.
    pub(crate) async fn connection_number(
        &self,
        number: u64,
        cx: &Context,
    ) -> Result<Arc<Connection>, Unavailable> {
        let found = self.numbered(number);
        if found.is_none() && matches!(self.config.target, Target::Command(_)) {
            return Err(Unavailable::Ended { name: self.config.name.clone() });
        }
        self.admit(&self.breaker)?;
        let connection = match found {
            Some(connection) => connection,
            None => self.open(cx).await?,
        };
        self.admit_to(connection)
    }

    /// The connection with this number, whatever has become of it.
    fn numbered(&self, number: u64) -> Option<Arc<Connection>> {
        let shared = match &*self.link.borrow() {
            Link::Up(connection) => Some(Arc::clone(connection)),
            _ => None,
        };
        shared
            .filter(|shared| shared.number == number)
            .or_else(|| self.own.numbered(number))
            .or_else(|| self.retired.numbered(number))
    }

    /// A connection to look at.
    pub(crate) async fn open(&self, cx: &Context) -> Result<Arc<Connection>, Unavailable> {
        match self.config.share {
            Share::Shared => match self.shared().await? {
                taken if taken.is_taken() => self.own.spare(self).await,
                connection => Ok(connection),
            },
            Share::PerSession => self.own.get(self, cx).await,
        }
    }

    /// Whether a call may wait for its client on this connection: whoever comes next must find one on
    /// which none does, and of own ones a caller has half of them at most.
    pub(crate) fn may_wait_on(&self, connection: &Connection, caller: &Caller) -> bool {
        if !connection.is_one_stream() || connection.is_taken() {
            return true;
        }
        let shared = matches!(&*self.link.borrow(), Link::Up(shared) if shared.is_taken());
        let (max, (n_taken, n_of_caller)) = (self.config.max_connections, self.own.n_taken(caller));
        match self.config.share {
            Share::Shared => n_taken + usize::from(shared) < max,
            Share::PerSession => {
                n_of_caller == 0 || (n_taken + 1 < max && n_of_caller < max.div_ceil(2))
            }
        }
    }

    /// The shared connection; waits while it is being made.
    async fn shared(&self) -> Result<Arc<Connection>, Unavailable> {
        if let Link::Up(connection) = &*self.link.borrow() {
            return Ok(Arc::clone(connection));
        }
        let mut link = self.link.subscribe();
        let settled = async {
            loop {
                match link.borrow_and_update().clone() {
                    Link::Up(connection) => return Ok(connection),
                    Link::Down { reason, until } => return Err(self.down(reason, until)),
                    Link::Idle => self.wanted.notify_one(),
                    Link::Connecting => {}
                }
                if link.changed().await.is_err() {
                    return Err(self.removed());
                }
            }
        };
        let patience = PATIENCE.min(self.config.call_timeout);
        let connecting = || Unavailable::Connecting { name: self.config.name.clone() };
        // Boxed, because it is rare and would make every call larger.
        let settled = Box::pin(tokio::time::timeout(patience, settled));
        settled.await.unwrap_or_else(|_| Err(connecting()))
    }

    /// Whether it is so new that lists wait for it.
    pub(crate) fn may_arrive(&self) -> bool {
        Instant::now() < self.arrives_by && matches!(&*self.link.borrow(), Link::Connecting)
    }

    /// Waits until it was tried, or is not worth waiting for.
    pub(crate) async fn arrival(&self) {
        let mut link = self.link.subscribe();
        let tried = link.wait_for(|link| !matches!(link, Link::Connecting));
        let _ = tokio::time::timeout_at(self.arrives_by, tried).await;
    }

    /// Why it cannot be reached at the moment, if it cannot.
    pub(crate) fn unreached(&self) -> Option<Unavailable> {
        match &*self.link.borrow() {
            Link::Up(_) | Link::Idle => None,
            Link::Down { reason, until } => Some(self.down(reason.clone(), *until)),
            Link::Connecting => Some(Unavailable::Connecting { name: self.config.name.clone() }),
        }
    }

    /// Why it has no tools yet.
    pub(crate) fn why_absent(&self) -> Unavailable {
        let connecting = || Unavailable::Connecting { name: self.config.name.clone() };
        self.unreached().unwrap_or_else(connecting)
    }

    fn down(&self, reason: String, until: Instant) -> Unavailable {
        let retry = until.saturating_duration_since(Instant::now());
        Unavailable::Down { name: self.config.name.clone(), reason, retry }
    }

    /// Why it cannot be reached any more, though another one may be in its place.
    fn removed(&self) -> Unavailable {
        self.down(REMOVED.to_owned(), Instant::now())
    }

    /// What is watched over the connection everybody shares, or over a caller's own.
    fn watched_over(&self, caller: Option<&Caller>) -> BTreeSet<String> {
        match (self.config.share, caller) {
            (Share::Shared, None) => self.watched.uris(),
            (Share::PerSession, Some(caller)) => self.watched.uris_of(caller),
            (Share::Shared, Some(_)) | (Share::PerSession, None) => BTreeSet::new(),
        }
    }

    /// It does not speak what it did: whoever connects finds out anew.
    async fn forget_era(&self) {
        self.known.forget();
        self.own.sweep(&self.config, true).await;
    }

    /// Lets the calls of a connection end that is no longer the shared one.
    fn retire(&self, connection: Arc<Connection>) {
        self.retired.add(connection, self.config.call_timeout);
    }

    /// Waits for another connection than one that is broken; `false` if none comes in time.
    pub(crate) async fn renewed(&self, broken: &Arc<Connection>, patience: Duration) -> bool {
        if self.config.share == Share::PerSession {
            return true;
        }
        let mut link = self.link.subscribe();
        // It may have been closed because nobody used it, just before the call.
        if matches!(&*link.borrow(), Link::Idle) {
            self.wanted.notify_one();
        }
        let is_other = |link: &Link| match link {
            Link::Up(connection) => !Arc::ptr_eq(connection, broken) || !broken.is_suspect(),
            _ => false,
        };
        // Boxed for the same reason.
        let renewed = Box::pin(tokio::time::timeout(patience, link.wait_for(is_other)));
        renewed.await.is_ok_and(|other| other.is_ok())
    }

    /// Tells the connection of a session, if it has one of its own, that its roots changed. On
    /// shared connections the roots are those of whoever calls.
    pub(crate) async fn roots_changed(&self, cx: &Context) {
        let Some(own) = self.own.of(&cx.caller()) else { return };
        if own.era == Era::Modern {
            return;
        }
        let told = own.peer.notify("notifications/roots/list_changed", b"").await;
        if let Err(error) = told {
            let name = &self.config.name;
            tracing::debug!(upstream = name, %error, "could not tell that roots changed");
        }
    }

    /// Returns when a task may have changed, at the latest after `patience`.
    pub(crate) async fn task_changed(&self, id: &str, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.news.task_changed(id)).await;
    }

    /// Takes in a notification that came with a call of somebody's, but does not belong to it.
    pub(crate) fn hear(&self, method: &str, params: Option<&[u8]>, caller: &Caller) {
        let is_own = method == UPDATED && self.config.share == Share::PerSession;
        match self.own.of(caller).filter(|_| is_own) {
            Some(own) => own.updates.hear(method, params),
            None => self.news.hear(method, params),
        }
    }

    /// A caller will not come back.
    pub(crate) fn caller_ended(&self, caller: &Caller) {
        self.watched.end(caller);
        self.own.end(caller);
    }

    /// Waits for calls under way to end, as long as one may hear nothing.
    pub(crate) async fn finish_calls(&self) {
        let is_busy = || {
            let link = self.link.borrow();
            let shared = matches!(&*link, Link::Up(connection) if connection.is_busy());
            shared || self.own.are_busy() || self.retired.are_busy()
        };
        let finished = async {
            while is_busy() {
                tokio::time::sleep(FINISHING).await;
            }
        };
        let _ = tokio::time::timeout(self.config.call_timeout, finished).await;
    }

    /// Closes every connection and ends every process, for good.
    pub(crate) async fn close(&self) {
        // Whoever waits for it need not.
        let removed = Link::Down { reason: REMOVED.to_owned(), until: Instant::now() };
        if let Link::Up(connection) = self.link.send_replace(removed) {
            connection.close().await;
        }
        self.own.close(&self.config).await;
        self.retired.sweep(true).await;
        self.children.stop().await;
    }

    /// How it is doing.
    pub(crate) fn health(&self) -> Health {
        let link = self.link.borrow().clone();
        let connection = match &link {
            Link::Up(connection) => Some(connection),
            _ => None,
        };
        let failing = lock(&self.breaker).is_open(Instant::now());
        let status = match &link {
            Link::Up(_) if failing => Status::Failing,
            Link::Up(_) => Status::Up,
            Link::Idle => Status::Idle,
            Link::Connecting => Status::Connecting,
            Link::Down { .. } => Status::Down,
        };
        let revision = connection.map(|connection| connection.peer.revision());
        let condition = lock(&self.condition);
        Health {
            status,
            era: revision.map(health::era_of),
            revision: revision.map(|revision| revision.as_str()),
            transport: self.transport(connection),
            tools: self.listing().tools.len(),
            collisions: Vec::new(),
            quarantined: Vec::new(),
            changed: Vec::new(),
            flagged: Vec::new(),
            last_error: condition.last_error.clone(),
            since: condition.since,
        }
    }

    fn transport(&self, connection: Option<&Arc<Connection>>) -> &'static str {
        match &self.config.target {
            Target::Command(_) => "stdio",
            Target::HttpSse(_) | Target::CustomSse(_) => "http+sse",
            Target::Http(_) if connection.is_some_and(|open| open.peer.is_http_sse()) => "http+sse",
            Target::Http(_) => "streamable-http",
        }
    }

    /// Closes connections of sessions that are idle or old, and those that were replaced.
    pub(crate) async fn sweep(&self) {
        self.own.sweep(&self.config, false).await;
        self.retired.sweep(false).await;
    }

    fn set_link(&self, link: Link) {
        let mut condition = lock(&self.condition);
        condition.since = health::now();
        if let Link::Down { reason, .. } = &link {
            condition.last_error = Some(reason.clone());
        }
        drop(condition);
        self.link.send_replace(link);
    }

    /// A connection that looked broken is not.
    fn cleared(&self, connection: &Connection) {
        connection.clear();
        self.link.send_modify(|_| {});
    }

    fn note_error(&self, error: String) {
        lock(&self.condition).last_error = Some(error);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
