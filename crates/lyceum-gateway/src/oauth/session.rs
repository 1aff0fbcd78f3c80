//! [`Session`]: the token of one upstream, and how it gets another one.
//!
//! One attempt at a time: whoever needs a token while somebody is getting one waits for that one,
//! and shares its failure. An attempt runs in a task of its own, because a caller that gives up in
//! the middle must not lose a refresh token that was already traded in.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use http::{HeaderValue, Uri};
use tokio::sync::Mutex;
use url::Url;

use super::attempt;
use super::challenge::Challenge;
use super::client::RegisteredClient;
use super::dial::Dial;
use super::error::OAuthError;
use super::metadata::covers;
use super::settings::Settings;
use super::store::{Entry, Key};

/// How long a token that could not be renewed in time is used before the next try, in seconds.
const POSTPONED: u64 = 30;
/// How often it is looked whether another process has got a token.
const LOOK: Duration = Duration::from_secs(1);

/// The authorization of one upstream.
pub(super) struct Session {
    pub(super) settings: Settings,
    /// What the operator got from an authorization server.
    client: ArcSwapOption<RegisteredClient>,
    pub(super) server: Url,
    pub(super) dial: Dial,
    current: ArcSwapOption<Access>,
    n_attempts: AtomicU64,
    memory: Mutex<Memory>,
}

/// A token as requests use it.
pub(super) struct Access {
    pub(super) header: HeaderValue,
    serial: u64,
    /// When to trade in the refresh token; `None` if there is none or no hurry.
    renew_at: Option<u64>,
}

/// What an attempt leaves for the next one.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) entry: Option<(Key, Entry)>,
    /// The issuer that configured credentials have been used with.
    pub(super) pinned: Option<String>,
    failure: Option<Arc<OAuthError>>,
    n_tokens: u64,
}

/// Why a token is needed.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub(super) cause: Cause,
    pub(super) challenge: Challenge,
    /// The token that was refused.
    pub(super) used: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The server does not know us; the refresh token has not been tried.
    Unknown,
    /// The server does not know us, although the token is fresh.
    StillUnknown,
    /// The token is not good enough.
    Scope,
    /// The token is about to end.
    Renewal,
    /// Somebody wants to log in, whatever there is already.
    Login,
}

impl Session {
    pub(super) fn new(mut settings: Settings, server: Url, dial: Dial) -> Session {
        let client = settings.client.take();
        let session = Session {
            settings,
            client: ArcSwapOption::from_pointee(client),
            server,
            dial,
            current: ArcSwapOption::empty(),
            n_attempts: AtomicU64::new(0),
            memory: Mutex::default(),
        };
        let newest = session.newest(session.stored());
        let mut memory = Memory::default();
        if let Some((key, entry)) = newest {
            session.install(&mut memory, key, entry);
        }
        Session { memory: Mutex::new(memory), ..session }
    }

    /// The client that is configured, if one is.
    pub(super) fn client(&self) -> Option<Arc<RegisteredClient>> {
        self.client.load_full()
    }

    /// Goes by what is configured now.
    pub(super) fn set_client(&self, client: Option<RegisteredClient>) {
        self.client.store(client.map(Arc::new));
    }

    /// Returns when what rests has changed.
    pub(super) async fn store_changed(&self) {
        let before = self.settings.store.changed_at();
        while self.settings.store.changed_at() == before {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The token for the next request, renewed if it is about to end.
    pub(super) async fn access(self: &Arc<Self>) -> Option<Arc<Access>> {
        let access = self.current.load_full()?;
        if access.renew_at.is_none_or(|at| now() < at) {
            return Some(access);
        }
        let used = Some(access.serial);
        let need = Need { cause: Cause::Renewal, challenge: Challenge::default(), used };
        match self.obtain(need).await {
            Ok(renewed) => Some(renewed),
            // It may be good for a little longer; if not, the server says so.
            Err(_) => Some(access),
        }
    }

    /// Another token.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        need: Need,
    ) -> Result<Arc<Access>, Arc<OAuthError>> {
        let task = tokio::spawn(Arc::clone(self).obtain_alone(need));
        let stopped = |_| Arc::new(OAuthError::Setup("the runtime is shutting down".to_owned()));
        task.await.map_err(stopped)?
    }

    async fn obtain_alone(self: Arc<Self>, need: Need) -> Result<Arc<Access>, Arc<OAuthError>> {
        let n_before = self.n_attempts.load(Ordering::Acquire);
        let mut memory = self.memory.lock().await;
        if need.cause != Cause::Login {
            let newer = self.current.load_full().filter(|now| Some(now.serial) != need.used);
            if let Some(newer) = newer {
                return Ok(newer);
            }
            // Whoever failed while we waited failed for us too.
            let shared = self.n_attempts.load(Ordering::Acquire) != n_before;
            if let Some(failure) = memory.failure.clone().filter(|_| shared) {
                return Err(failure);
            }
        }
        let done = attempt::run(&self, &mut memory, &need).await;
        self.n_attempts.fetch_add(1, Ordering::AcqRel);
        match done {
            Ok((key, entry)) => {
                tracing::info!(upstream = key.upstream, issuer = key.issuer, "got a token");
                Ok(self.install(&mut memory, key, entry))
            }
            Err(error) => Err(self.failed(&mut memory, &need, error)),
        }
    }

    fn failed(&self, memory: &mut Memory, need: &Need, error: OAuthError) -> Arc<OAuthError> {
        let error = Arc::new(error);
        let upstream = &self.settings.upstream;
        tracing::warn!(upstream, cause = ?need.cause, error = %chain(&error), "got no token");
        memory.failure = Some(Arc::clone(&error));
        if need.cause == Cause::Renewal
            && let Some(access) = self.current.load_full()
        {
            let renew_at = Some(now() + POSTPONED);
            self.current.store(Some(Arc::new(Access { renew_at, ..access.copy() })));
        }
        error
    }

    fn install(&self, memory: &mut Memory, key: Key, entry: Entry) -> Arc<Access> {
        memory.n_tokens += 1;
        memory.failure = None;
        let header = HeaderValue::try_from(format!("Bearer {}", entry.access.expose()));
        // A token that fits in no header is as good as a wrong one; the server will say so.
        let mut header = header.unwrap_or(HeaderValue::from_static("Bearer"));
        header.set_sensitive(true);
        let renew_at = entry.renew_at.filter(|_| entry.refresh.is_some());
        let access = Arc::new(Access { header, serial: memory.n_tokens, renew_at });
        memory.entry = Some((key, entry));
        self.current.store(Some(Arc::clone(&access)));
        access
    }

    /// Forgets the token, here and where it rests.
    pub(super) async fn forget(self: &Arc<Self>) -> Result<(), OAuthError> {
        let mut memory = self.memory.lock().await;
        memory.entry = None;
        memory.pinned = None;
        self.current.store(None);
        self.settings.store.forget(&self.settings.upstream)
    }

    /// What rests for this upstream. May block.
    pub(super) fn stored(&self) -> Vec<(Key, Entry)> {
        self.settings.store.of(&self.settings.upstream).unwrap_or_else(|error| {
            tracing::warn!(upstream = self.settings.upstream, error = %chain(&error), "no tokens");
            Vec::new()
        })
    }

    /// The newest entry that is for the server as it is configured now.
    pub(super) fn newest(&self, stored: Vec<(Key, Entry)>) -> Option<(Key, Entry)> {
        stored.into_iter().find(|(key, _)| covers(&key.resource, &self.server))
    }

    /// Whether a request goes to the server the token is for.
    pub(super) fn is_for(&self, uri: &Uri) -> bool {
        let same_host = uri.host().zip(self.server.host_str());
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        uri.scheme_str() == Some(self.server.scheme())
            && same_host.is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
            && Some(uri.port_u16().unwrap_or(default)) == self.server.port_or_known_default()
    }
}

impl Access {
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    fn copy(&self) -> Access {
        let header = self.header.clone();
        Access { header, serial: self.serial, renew_at: self.renew_at }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("upstream", &self.settings.upstream)
            .field("has_token", &self.current.load().is_some())
            .finish_non_exhaustive()
    }
}

/// Seconds of the epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
