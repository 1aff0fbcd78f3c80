//! Servers with a handshake and sessions (2024-11-05 to 2025-11-25), over all of their transports.
//!
//! A session that the server has forgotten is opened again, once per call, without the caller
//! noticing: the call it refused was not carried out.

mod handshake;
mod http_sse;
mod link;
mod position;
mod standing;
mod stdio;
mod streamable;

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lyceum_wire::{Revision, encode};
use tokio::sync::watch;

use super::call::Call;
use super::core::Core;
use super::error::ClientError;
use super::life::{End, Life};
use super::line::Connection;
use super::options::CallOptions;
use super::params::CallParams;
use super::remote::Remote;
use super::silence::Silence;
use http_sse::HttpSse;
pub(crate) use http_sse::Places;
pub(crate) use link::Link;
use stdio::Stdio;
pub(crate) use streamable::NoSession;
use streamable::Streamable;

/// How often opening a session again may find a kept connection broken.
const STALE: usize = 2;

/// A server with sessions, and the one session in use.
#[derive(Debug)]
pub(crate) struct Legacy {
    core: Arc<Core>,
    /// None once it is closed.
    session: Mutex<Option<Arc<Session>>>,
    renewing: tokio::sync::Mutex<()>,
    /// How often it was opened again.
    n_renewed: watch::Sender<u64>,
}

#[derive(Debug)]
enum Session {
    Streamable(Streamable),
    HttpSse(HttpSse),
    Stdio(Stdio),
}

/// What a handshake settled.
#[derive(Debug)]
struct Greeting {
    revision: Revision,
    /// What the server answered to `initialize`.
    raw: Bytes,
}

/// Why a call did not end with a result.
#[derive(Debug)]
enum Failure {
    /// The server no longer knows the session; the call was not carried out.
    Gone,
    Failed(ClientError),
}

impl Legacy {
    /// Over Streamable HTTP.
    pub(crate) async fn streamable(remote: &Arc<Remote>) -> Result<Legacy, NoSession> {
        let opening = Silence::new(remote.core.limits.silence);
        let opened = opening
            .watch(&remote.core.timers, pin!(async { Ok(Streamable::open(remote).await) }))
            .await?;
        Ok(Legacy::new(&remote.core, Session::Streamable(opened?)))
    }

    /// Over HTTP+SSE.
    pub(crate) async fn http_sse(
        remote: &Arc<Remote>,
        places: Places,
    ) -> Result<Legacy, ClientError> {
        Ok(Legacy::new(&remote.core, Session::HttpSse(HttpSse::open(remote, places).await?)))
    }

    /// Over lines.
    pub(crate) async fn stdio(
        core: &Arc<Core>,
        connection: Arc<Connection>,
    ) -> Result<Legacy, ClientError> {
        Ok(Legacy::new(core, Session::Stdio(Stdio::open(core, connection).await?)))
    }

    fn new(core: &Arc<Core>, session: Session) -> Legacy {
        Legacy {
            core: Arc::clone(core),
            session: Mutex::new(Some(Arc::new(session))),
            renewing: tokio::sync::Mutex::default(),
            n_renewed: watch::Sender::new(0),
        }
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        params: &CallParams<'_>,
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        let call = Call::new(&self.core, method, params, options);
        let attempts = async {
            let session = self.session()?;
            match session.call(&call).await {
                // Boxed, because it is rare and would make every call larger.
                Err(Failure::Gone) => Box::pin(self.call_again(&session, &call)).await,
                ended => Ok(ended?),
            }
        };
        call.watch(pin!(attempts)).await
    }

    /// Makes a call in a session in place of one that is gone.
    async fn call_again(&self, gone: &Arc<Session>, call: &Call<'_>) -> Result<Bytes, ClientError> {
        let session = self.renew(gone).await?;
        call.repeated();
        Ok(session.call(call).await?)
    }

    pub(crate) async fn notify(&self, method: &str, params: &[u8]) -> Result<(), ClientError> {
        let params = (!params.is_empty()).then_some(params);
        let body = encode::notification(method, params);
        let session = self.session()?;
        let silence = Silence::new(self.core.limits.silence);
        silence.watch(&self.core.timers, pin!(session.tell(body))).await
    }

    /// The revision in use, and what the server answered to `initialize`; None once it is closed.
    pub(crate) fn greeting(&self) -> Option<(Revision, Bytes)> {
        let session = self.session().ok()?;
        let greeting = session.greeting();
        Some((greeting.revision, greeting.raw.clone()))
    }

    pub(crate) fn is_http_sse(&self) -> bool {
        matches!(self.session().as_deref(), Ok(Session::HttpSse(_)))
    }

    /// Whether the session's stream is no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.session().map_or(true, |session| session.life().is_over())
    }

    /// What ended the session in use, if it is no more.
    pub(crate) fn ended(&self) -> Option<End> {
        self.session().ok()?.life().why()
    }

    /// Waits until the session in use is no more.
    pub(crate) async fn closed(&self) {
        while let Ok(session) = self.session() {
            session.life().over().await;
            // It may have been opened again meanwhile.
            if self.session().is_ok_and(|current| Arc::ptr_eq(&current, &session)) {
                return;
            }
        }
    }

    /// Waits until the session was opened again more than `n` times; says how often.
    pub(crate) async fn renewed(&self, n: u64) -> u64 {
        let mut renewed = self.n_renewed.subscribe();
        // The sender is ours, so this cannot fail.
        renewed.wait_for(|renewed| *renewed > n).await.map_or(n, |renewed| *renewed)
    }

    /// Waits until news may have been missed more than `n` times; says how often.
    pub(crate) async fn missed(&self, n: u64) -> u64 {
        let Ok(session) = self.session() else { return pending().await };
        // All sessions of this server share it.
        let Session::Streamable(session) = &*session else { return pending().await };
        let mut gaps = session.link.remote.n_gaps.subscribe();
        let missed = gaps.wait_for(|gaps| *gaps > n).await;
        missed.map_or(n, |gaps| *gaps)
    }

    /// Opens the session in use again if it is no more.
    pub(crate) async fn reopen(&self) -> Result<(), ClientError> {
        let session = self.session()?;
        if !session.life().is_over() {
            return Ok(());
        }
        let opening = Silence::new(self.core.limits.silence);
        opening.watch(&self.core.timers, pin!(self.renew(&session))).await.map(drop)
    }

    pub(crate) async fn close(&self) {
        let session = self.lock().take();
        match session.as_deref() {
            Some(Session::Streamable(session)) => session.close().await,
            Some(Session::HttpSse(session)) => session.close(),
            Some(Session::Stdio(session)) => session.close().await,
            None => {}
        }
    }

    /// A session in place of one that is gone. Calls that find out together share the new one.
    async fn renew(&self, gone: &Arc<Session>) -> Result<Arc<Session>, ClientError> {
        let _one_at_a_time = self.renewing.lock().await;
        let current = self.session()?;
        if !Arc::ptr_eq(&current, gone) {
            return Ok(current);
        }
        tracing::info!("the session is gone, opening another");
        let mut opened = gone.reopen().await;
        // Connections that were kept may have broken together with the session, unnoticed so far.
        for _ in 0..STALE {
            let Err(ClientError::Broken(_) | ClientError::Interrupted) = opened else { break };
            opened = gone.reopen().await;
        }
        let fresh = Arc::new(opened?);
        let mut session = self.lock();
        if session.is_none() {
            return Err(ClientError::Closed);
        }
        *session = Some(Arc::clone(&fresh));
        self.n_renewed.send_modify(|n| *n += 1);
        Ok(fresh)
    }

    fn session(&self) -> Result<Arc<Session>, ClientError> {
        self.lock().clone().ok_or(ClientError::Closed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        match self {
            Session::Streamable(session) => session.call(call).await,
            Session::HttpSse(session) => session.call(call).await,
            Session::Stdio(session) => Ok(session.call(call).await?),
        }
    }

    async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        match self {
            Session::Streamable(session) => session.link.tell(body).await,
            Session::HttpSse(session) => session.link().tell(body).await,
            Session::Stdio(session) => session.tell(body).await,
        }
    }

    async fn reopen(&self) -> Result<Session, ClientError> {
        Ok(match self {
            Session::Streamable(session) => {
                Session::Streamable(Streamable::open(&session.link.remote).await?)
            }
            Session::HttpSse(session) => Session::HttpSse(session.reopen().await?),
            Session::Stdio(_) => return Err(ClientError::Closed),
        })
    }

    fn greeting(&self) -> &Greeting {
        match self {
            Session::Streamable(session) => &session.greeting,
            Session::HttpSse(session) => &session.greeting,
            Session::Stdio(session) => &session.greeting,
        }
    }

    fn life(&self) -> &Life {
        match self {
            Session::Streamable(session) => &session.life,
            Session::HttpSse(session) => session.life(),
            Session::Stdio(session) => session.life(),
        }
    }
}

impl Failure {
    /// Whether the server has nothing left to do for the call, so that there is nothing to cancel.
    fn is_final(&self) -> bool {
        match self {
            Failure::Gone => true,
            Failure::Failed(error) => {
                error.is_unsent() || matches!(error, ClientError::Rpc(_) | ClientError::Status(_))
            }
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Failed(error)
    }
}

impl From<Failure> for ClientError {
    fn from(failure: Failure) -> ClientError {
        match failure {
            Failure::Gone => ClientError::protocol("it forgot a session it had just given us"),
            Failure::Failed(error) => error,
        }
    }
}
