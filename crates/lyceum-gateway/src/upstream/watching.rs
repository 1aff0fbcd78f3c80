//! [`Watching`]: what an upstream is asked to tell over one connection.

use std::collections::BTreeSet;
use std::future::pending;

use lyceum_http::client::{ClientError, Subscription};
use lyceum_http::random;
use lyceum_wire::{Era, Writer};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::news::News;
use super::{Connection, Upstream, Watched};

/// Subscriptions at the upstream: a listening stream of a modern one, one request per resource of a
/// legacy one.
pub(super) struct Watching<'a> {
    upstream: &'a Upstream,
    connection: &'a Connection,
    watched: &'a Watched,
    news: &'a News,
    uris: BTreeSet<String>,
    stream: Option<Subscription>,
    /// When a stream that could not be opened is tried again.
    due: Option<Instant>,
    backoff: Backoff,
}

impl<'a> Watching<'a> {
    /// Watches what is `watched` over a connection; what changes is `news`.
    pub(super) fn new(
        upstream: &'a Upstream,
        connection: &'a Connection,
        watched: &'a Watched,
        news: &'a News,
    ) -> Watching<'a> {
        Watching {
            upstream,
            connection,
            watched,
            news,
            uris: BTreeSet::new(),
            stream: None,
            due: None,
            backoff: Backoff::default(),
        }
    }

    /// Passes on what the stream brings; returns when it has ended.
    pub(super) async fn hear(&mut self) {
        let Some(stream) = &mut self.stream else { return pending().await };
        while let Some(Ok(news)) = stream.next().await {
            self.backoff.reset();
            self.news.hear(&news.method, news.params.as_deref());
        }
        self.stream = None;
        let [chance] = random();
        self.due = Some(Instant::now() + self.backoff.next(chance));
    }

    pub(super) async fn renew_if_due(&mut self) {
        // Sessions vanish without a word.
        if self.due.is_some_and(|due| Instant::now() >= due) || self.watched.uris() != self.uris {
            self.due = None;
            self.renew().await;
        }
    }

    pub(super) async fn renew(&mut self) {
        if self.due.is_some() {
            return;
        }
        let wanted = self.watched.uris();
        match self.connection.era {
            Era::Modern => self.listen(wanted).await,
            Era::Legacy => self.subscribe(wanted).await,
        }
    }

    /// The upstream has forgotten what it was asked.
    pub(super) async fn start_anew(&mut self) {
        self.uris.clear();
        self.renew().await;
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
