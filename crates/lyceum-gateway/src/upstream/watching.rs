//! [`Watching`]: what an upstream is asked to tell over one connection.

use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;

use lyceum_http::client::{ClientError, Subscription};
use lyceum_http::{Caller, random};
use lyceum_wire::{Era, Writer};
use tokio::time::{Instant, timeout};

use super::backoff::Backoff;
use super::news::News;
use super::refusal::is_final;
use super::supervise::GOOD;
use super::{Connection, Upstream};
use crate::listing::Kind;

/// How long an upstream may take to acknowledge a listening stream.
const OPENING: Duration = Duration::from_secs(5);

/// Subscriptions at the upstream: a listening stream of a modern one, one request per resource of a
/// legacy one. What may have changed while nothing stood is news as soon as something stands again.
pub(super) struct Watching<'a> {
    upstream: &'a Upstream,
    connection: &'a Connection,
    /// Whose connection it is; None if it is everybody's.
    caller: Option<&'a Caller>,
    news: &'a News,
    /// What it was asked for last.
    uris: BTreeSet<String>,
    /// Those among them that a legacy upstream is to be asked for again.
    owed: BTreeSet<String>,
    stream: Option<Subscription>,
    opened: Instant,
    /// A modern upstream has not granted what it was asked for, and may do so another time.
    is_owed: bool,
    /// When what is owed is asked for again.
    due: Option<Instant>,
    backoff: Backoff,
    /// The same for an upstream that answers, and refuses.
    refusals: Backoff,
    /// Watched resources, and these lists, may have changed unheard.
    missed: Option<&'static [Kind]>,
}

impl<'a> Watching<'a> {
    /// Watches what is watched over a connection, which is the caller's if there is one; what changes
    /// is `news`.
    pub(super) fn new(
        upstream: &'a Upstream,
        connection: &'a Connection,
        caller: Option<&'a Caller>,
        news: &'a News,
    ) -> Watching<'a> {
        Watching {
            upstream,
            connection,
            caller,
            news,
            uris: BTreeSet::new(),
            owed: BTreeSet::new(),
            stream: None,
            opened: Instant::now(),
            is_owed: true,
            due: None,
            backoff: Backoff::default(),
            refusals: Backoff::rare(),
            missed: None,
        }
    }

    /// Resources may have changed before this connection, while they were watched.
    pub(super) fn after_gap(&mut self) {
        self.missed.get_or_insert(&[]);
    }

    /// Passes on what the stream brings; returns when it has ended.
    pub(super) async fn hear(&mut self) {
        let Some(stream) = &mut self.stream else { return pending().await };
        while let Some(Ok(news)) = stream.next().await {
            self.backoff.reset();
            self.news.hear(&news.method, news.params.as_deref());
        }
        if self.opened.elapsed() > GOOD {
            self.backoff.reset();
        }
        self.stream = None;
        self.is_owed = true;
        self.missed = Some(&Kind::ALL);
        let [chance] = random();
        self.due = Some(Instant::now() + self.backoff.next(chance));
    }

    pub(super) async fn renew_if_due(&mut self) {
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        // Sessions vanish without a word.
        let is_other = self.upstream.watched_over(self.caller) != self.uris;
        if is_due || (is_other && self.connection.era == Era::Modern) {
            self.due = None;
        }
        if is_due || is_other {
            self.renew().await;
        }
    }

    pub(super) async fn renew(&mut self) {
        let wanted = self.upstream.watched_over(self.caller);
        match self.connection.era {
            Era::Modern if self.due.is_some() => {}
            Era::Modern => self.listen(wanted).await,
            Era::Legacy => self.subscribe(wanted).await,
        }
    }

    /// The upstream has forgotten what it was asked.
    pub(super) async fn start_anew(&mut self) {
        self.uris.clear();
        self.owed.clear();
        self.due = None;
        self.after_gap();
        self.renew().await;
    }

    async fn listen(&mut self, wanted: BTreeSet<String>) {
        if !self.is_owed && wanted == self.uris {
            return;
        }
        // The old stream goes on until the new one stands, so that nothing is missed.
        let opening = self.connection.peer.listen(filter(self.connection, &wanted));
        let opened = timeout(OPENING, opening).await;
        self.uris = wanted;
        match opened.unwrap_or(Err(ClientError::Silent(OPENING))) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.opened = Instant::now();
                self.is_owed = false;
                self.refusals.reset();
                self.tell_missed();
            }
            Err(error) => {
                tracing::debug!(upstream = self.upstream.config.name, %error, "no listening stream");
                // Who has only just been greeted is what it was then.
                if self.missed == Some(&Kind::ALL) {
                    self.upstream.doubt(self.connection, &error);
                }
                self.is_owed = !is_final(&error);
                if self.is_owed {
                    self.put_off(&error);
                }
                if self.stream.is_none() {
                    self.missed = Some(&Kind::ALL);
                }
            }
        }
    }

    async fn subscribe(&mut self, wanted: BTreeSet<String>) {
        let again = match self.due {
            Some(_) => BTreeSet::new(),
            None => std::mem::take(&mut self.owed),
        };
        let before = std::mem::replace(&mut self.uris, wanted);
        if self.connection.offers.subscriptions {
            let is_new = |uri: &&String| !before.contains(*uri) || again.contains(*uri);
            let come: Vec<String> = self.uris.iter().filter(is_new).cloned().collect();
            let gone: Vec<String> = before.difference(&self.uris).cloned().collect();
            self.ask_for(come).await;
            for uri in gone {
                if self.owed.remove(&uri) || again.contains(&uri) {
                    continue;
                }
                // What is told nevertheless is told to nobody, so whoever does not answer is left alone.
                let asked = self.ask("resources/unsubscribe", &uri).await;
                if asked.is_err_and(|error| error.rpc().is_none()) {
                    break;
                }
            }
        }
        self.tell_missed();
    }

    /// Subscribes to resources of a legacy upstream.
    async fn ask_for(&mut self, uris: Vec<String>) {
        let mut uris = uris.into_iter();
        let mut is_refused = None;
        while let Some(uri) = uris.next() {
            match self.ask("resources/subscribe", &uri).await {
                Err(error) if !is_final(&error) => {
                    self.owed.insert(uri);
                    // Whoever does not answer is not asked for the others either.
                    if error.rpc().is_none() {
                        self.owed.extend(uris.by_ref());
                    }
                    is_refused = Some(error);
                }
                _ => {}
            }
        }
        match is_refused {
            Some(error) => self.put_off(&error),
            None if self.owed.is_empty() => self.refusals.reset(),
            None => {}
        }
    }

    async fn ask(&mut self, method: &str, uri: &str) -> Result<(), ClientError> {
        let mut params = Writer::new();
        params.text("uri", uri);
        let asked = self.connection.peer.call(method, params.finish()).await;
        asked.map(drop).inspect_err(|error| {
            tracing::debug!(upstream = self.upstream.config.name, method, uri, %error);
        })
    }

    fn put_off(&mut self, error: &ClientError) {
        let [chance] = random();
        let wait = match error {
            ClientError::Rpc(_) => self.refusals.next(chance),
            _ => self.backoff.next(chance),
        };
        self.due = Some(Instant::now() + wait);
    }

    /// Something stands that tells what changes from now on.
    fn tell_missed(&mut self) {
        if let Some(lists) = self.missed.take() {
            self.news.missed(lists, &self.uris);
        }
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
