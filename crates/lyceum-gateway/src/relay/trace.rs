//! [`Trace`]: what a call went through, for the log and for the numbers.
//!
//! How the upstream's part ended is always noted; the rest only if somebody reads it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lyceum_http::Context;
use lyceum_http::client::{CallOptions, ClientError};
use lyceum_wire::{Member, Request, RpcError};
use tokio::time::Instant;

use super::Subject;
use crate::upstream::Connection;

/// What a call went through.
#[derive(Debug)]
pub(super) struct Trace {
    /// When it began, if anybody wants to know.
    started: Option<Instant>,
    /// Whether the upstream answered; None if it was not asked.
    answered: Option<bool>,
    /// The revision the upstream speaks.
    revision: Option<&'static str>,
    /// The number of the connection.
    connection: Option<u64>,
    /// The call was held, and waits no longer.
    is_resumed: bool,
    pub(super) retries: u32,
    /// What the client adds to that by itself, if anybody wants to know.
    repeats: Option<Arc<AtomicU32>>,
    /// How long it took to get a connection. A call that was held has had one.
    connecting: Option<Duration>,
}

impl Trace {
    pub(super) fn begin() -> Trace {
        let started = clock();
        Trace {
            repeats: started.map(|_| Arc::default()),
            started,
            answered: None,
            revision: None,
            connection: None,
            is_resumed: false,
            retries: 0,
            connecting: None,
        }
    }

    /// The time, if anybody wants to know.
    pub(super) fn clock(&self) -> Option<Instant> {
        self.started.and_then(|_| clock())
    }

    /// The call has a connection, for which it waited since then.
    pub(super) fn connected(&mut self, connection: &Connection, since: Option<Instant>) {
        if let Some(since) = since {
            *self.connecting.get_or_insert_default() += since.elapsed();
            self.goes_by(connection);
        }
    }

    /// The call was held, and goes on by the connection it has had all the time.
    pub(super) fn resumed(&mut self, connection: &Connection) {
        self.is_resumed = true;
        self.asked();
        if self.started.is_some() {
            self.goes_by(connection);
        }
    }

    fn goes_by(&mut self, connection: &Connection) {
        self.revision = Some(connection.peer.revision().as_str());
        self.connection = Some(connection.number);
    }

    /// Has a call counted that is made again without coming back here.
    pub(super) fn count(&self, options: CallOptions) -> CallOptions {
        match &self.repeats {
            Some(repeats) => options.count_repeats(Arc::clone(repeats)),
            None => options,
        }
    }

    /// There was nobody to ask.
    pub(super) fn unreached(&mut self) {
        self.answered = Some(false);
    }

    /// The upstream is asked, and answers unless something is said to the contrary.
    pub(super) fn asked(&mut self) {
        self.answered = Some(true);
    }

    /// The call failed. An upstream that refuses in so many words has answered.
    pub(super) fn failed(&mut self, error: &ClientError) {
        self.answered = Some(matches!(error, ClientError::Rpc(_)));
    }

    /// Whether the upstream answered; None if it was not asked.
    pub(super) fn answered(&self) -> Option<bool> {
        self.answered
    }

    /// Tells whoever wants to know.
    pub(super) fn tell(
        &self,
        subject: &Subject,
        request: &Request,
        cx: &Context,
        error: Option<&RpcError>,
    ) {
        let Some(started) = self.started else { return };
        let repeats = self.repeats.as_ref().map_or(0, |repeats| repeats.load(Ordering::Relaxed));
        tracing::debug!(
            method = request.method.as_str(),
            name = public_name(request).as_deref(),
            upstream = subject.upstream().config.name,
            own_name = subject.passing().name(),
            principal = cx.principal.as_ref().map(|principal| principal.as_str()),
            client_revision = cx.revision.as_str(),
            upstream_revision = self.revision,
            legacy_session = cx.session_key.is_some(),
            connection = self.connection.map(|number| format!("{number:016x}")),
            is_resumed = self.is_resumed,
            retries = self.retries + repeats,
            connect_ms = self.connecting.map(milliseconds),
            total_ms = milliseconds(started.elapsed()),
            traceparent = request.params.text(Member::MetaTraceparent).as_deref(),
            outcome = outcome(self.answered),
            error_code = error.map(|error| error.code.0),
            "relayed"
        );
    }
}

/// What the client calls what it wants. Tasks are known by what only their caller may know.
fn public_name(request: &Request) -> Option<Cow<'_, str>> {
    request.params.text(Member::Name).or_else(|| request.params.text(Member::Uri))
}

fn outcome(answered: Option<bool>) -> &'static str {
    match answered {
        Some(true) => "ok",
        Some(false) => "error",
        None => "not passed on",
    }
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn clock() -> Option<Instant> {
    tracing::enabled!(tracing::Level::DEBUG).then(Instant::now)
}
