//! [`Connection`]: one open way to an upstream.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lyceum_http::client::Peer;
use lyceum_http::random;
use lyceum_wire::{Era, LogLevel};
use tokio::time::Instant;

use super::breaker::Breaker;
use super::news::News;
use crate::listing::Offers;
use crate::process::Handle;

/// How long an upstream may take to be told a log level.
const SET_LEVEL: Duration = Duration::from_secs(5);

/// How often an upstream that refuses calls is looked at.
const LOOK: Duration = Duration::from_secs(10);

/// One open way to an upstream, and what is known about it.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Tells it from every other connection there ever was.
    pub(crate) number: u64,
    pub(crate) peer: Peer,
    pub(crate) era: Era,
    pub(crate) offers: Offers,
    opened: Instant,
    n_calls: AtomicUsize,
    /// Calls that wait for their client's answer.
    n_held: AtomicUsize,
    /// A call found it broken, and nobody has looked yet.
    is_suspect: AtomicBool,
    /// When it was last doubted that it speaks the era it did.
    doubted: Mutex<Option<Instant>>,
    /// When the last call ended. Calls end under its lock, so it is never behind `n_calls`.
    used: Mutex<Instant>,
    /// The most talkative level a legacy upstream was asked for.
    level: tokio::sync::Mutex<Option<LogLevel>>,
    /// The process at the other end, which ends with the connection.
    child: Option<Handle>,
    /// Resources it said have changed.
    pub(crate) updates: Arc<News>,
    /// Of a process that is one caller's alone: how its calls fared.
    pub(super) breaker: Mutex<Breaker>,
}

/// A call that waits for its client's answer.
#[derive(Debug)]
pub(crate) struct Holding(Arc<Connection>);

/// A call in progress; while there are any, the connection is in use.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Connection>);

impl Connection {
    pub(crate) fn new(peer: Peer, child: Option<Handle>, updates: Arc<News>) -> Connection {
        let offers = Offers::read(&peer.capabilities().unwrap_or_default());
        Connection {
            number: u64::from_be_bytes(random()),
            era: peer.era(),
            offers,
            peer,
            opened: Instant::now(),
            n_calls: AtomicUsize::new(0),
            n_held: AtomicUsize::new(0),
            is_suspect: AtomicBool::new(false),
            doubted: Mutex::new(None),
            used: Mutex::new(Instant::now()),
            level: tokio::sync::Mutex::new(None),
            child,
            updates,
            breaker: Mutex::default(),
        }
    }

    pub(crate) fn enter(self: &Arc<Self>) -> InUse {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        InUse(Arc::clone(self))
    }

    pub(crate) fn hold(self: &Arc<Self>) -> Holding {
        self.n_held.fetch_add(1, Ordering::Relaxed);
        Holding(Arc::clone(self))
    }

    /// Whether questions of further calls could not be told from those of a call that waits: all
    /// messages come on one stream, and questions do not say whose they are.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_one_stream() && self.n_held.load(Ordering::Relaxed) > 0
    }

    /// Whether a call that waits for its client takes the whole connection.
    pub(super) fn is_one_stream(&self) -> bool {
        self.era == Era::Legacy && (self.child.is_some() || self.peer.is_http_sse())
    }

    /// A call found it broken; whether it is the first to do so.
    pub(crate) fn suspect(&self) -> bool {
        !self.is_suspect.swap(true, Ordering::Relaxed)
    }

    /// Whether an answer that makes no sense is worth a look: not while one was had only just now, and
    /// a process stays what it is.
    pub(crate) fn doubt(&self) -> bool {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_worth_it = self.child.is_none() && doubted.is_none_or(|last| last.elapsed() >= LOOK);
        if is_worth_it {
            *doubted = Some(Instant::now());
        }
        is_worth_it
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    pub(crate) fn clear(&self) {
        self.is_suspect.store(false, Ordering::Relaxed);
    }

    /// Whether a process is at the other end.
    pub(crate) fn is_process(&self) -> bool {
        self.child.is_some()
    }

    /// Whether calls are under way on it.
    pub(crate) fn is_busy(&self) -> bool {
        self.n_calls.load(Ordering::Relaxed) > 0
    }

    /// For how long nobody has used it.
    pub(crate) fn idle(&self) -> Duration {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match self.n_calls.load(Ordering::Relaxed) {
            0 => used.elapsed(),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Makes sure that a legacy upstream sends log messages from `level` on.
    pub(crate) async fn want_level(&self, level: LogLevel) {
        if self.era == Era::Modern || !self.offers.logging {
            return;
        }
        let mut told = self.level.lock().await;
        if told.is_some_and(|told| told <= level) {
            return;
        }
        *told = Some(level);
        let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
        // Boxed, because it is rare and would make every call larger.
        let setting = tokio::time::timeout(SET_LEVEL, self.peer.call("logging/setLevel", params));
        if let Ok(Err(error)) = Box::pin(setting).await {
            tracing::debug!(%error, "could not set the log level of an upstream");
        }
    }

    /// Tells a legacy upstream its log level again, whose session is another than before.
    pub(crate) async fn renew_level(&self) {
        let told = self.level.lock().await.take();
        if let Some(level) = told {
            self.want_level(level).await;
        }
    }

    /// Why it ended: what went wrong with what the server sent; besides that, a process has its own
    /// reasons, otherwise it is what was noticed.
    pub(crate) async fn farewell(&self, noticed: &str) -> String {
        let fault = self.peer.fault();
        match (&self.child, fault) {
            (Some(child), None) => child.stop().await.to_string(),
            (Some(child), Some(fault)) => format!("{fault}; {}", child.stop().await),
            (None, fault) => fault.unwrap_or_else(|| noticed.to_owned()),
        }
    }

    /// Says goodbye: ends the session, and the process if there is one.
    pub(crate) async fn close(&self) {
        self.peer.clone().close().await;
        if let Some(child) = &self.child {
            child.stop().await;
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.n_held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.n_calls.fetch_sub(1, Ordering::Relaxed) == 1 {
            *used = Instant::now();
        }
    }
}
