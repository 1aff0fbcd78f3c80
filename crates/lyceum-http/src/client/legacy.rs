//! Servers with a handshake and sessions (2024-11-05 to 2025-11-25), over both of their transports.
//!
//! A session that the server has forgotten is opened again, once per call, without the caller
//! noticing: the call it refused was not carried out.

mod handshake;
mod http_sse;
mod link;
mod pending;
mod position;
mod standing;
mod streamable;
mod task;
mod traffic;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lyceum_wire::{Id, Revision, encode};

use super::core::Core;
use super::error::ClientError;
use super::options::CallOptions;
use super::params::CallerParams;
use super::silence::Silence;
use http_sse::HttpSse;
pub(crate) use streamable::NoSession;
use streamable::Streamable;

/// A server with sessions, and the one session in use.
#[derive(Debug)]
pub(crate) struct Legacy {
    core: Arc<Core>,
    /// None once it is closed.
    session: Mutex<Option<Arc<Session>>>,
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
enum Session {
    Streamable(Streamable),
    HttpSse(HttpSse),
}

/// One call.
struct Call<'a> {
    method: &'a str,
    raw: &'a [u8],
    params: CallerParams<'a>,
    options: &'a CallOptions,
    silence: Arc<Silence>,
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
    pub(crate) async fn streamable(core: &Arc<Core>) -> Result<Legacy, NoSession> {
        let opening = Silence::new(core.limits.silence);
        let opened = opening.watch(async { Ok(Streamable::open(core).await) }).await?;
        Ok(Legacy::new(core, Session::Streamable(opened?)))
    }

    /// Over HTTP+SSE.
    pub(crate) async fn http_sse(core: &Arc<Core>) -> Result<Legacy, ClientError> {
        Ok(Legacy::new(core, Session::HttpSse(HttpSse::open(core).await?)))
    }

    fn new(core: &Arc<Core>, session: Session) -> Legacy {
        let session = Mutex::new(Some(Arc::new(session)));
        Legacy { core: Arc::clone(core), session, renewing: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        params: &[u8],
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        let silence = Silence::new(options.silence.unwrap_or(self.core.limits.silence));
        let parsed = CallerParams::parse(params)?;
        let call = Call { method, raw: params, params: parsed, options, silence };
        let attempts = async {
            let session = self.session()?;
            match session.call(&call).await {
                Err(Failure::Gone) => {
                    let session = self.renew(&session).await?;
                    Ok(session.call(&call).await?)
                }
                ended => Ok(ended?),
            }
        };
        call.silence.watch(attempts).await
    }

    pub(crate) async fn notify(&self, method: &str, params: &[u8]) -> Result<(), ClientError> {
        let params = (!params.is_empty()).then_some(params);
        let body = encode::notification(method, params);
        let session = self.session()?;
        let silence = Silence::new(self.core.limits.silence);
        silence.watch(session.tell(body)).await
    }

    /// The revision in use, and what the server answered to `initialize`; None once it is closed.
    pub(crate) fn greeting(&self) -> Option<(Revision, Bytes)> {
        Some(match &*self.session().ok()? {
            Session::Streamable(session) => (session.revision, session.greeting.clone()),
            Session::HttpSse(session) => (session.revision, session.greeting.clone()),
        })
    }

    pub(crate) fn is_http_sse(&self) -> bool {
        matches!(self.session().as_deref(), Ok(Session::HttpSse(_)))
    }

    pub(crate) async fn close(&self) {
        let session = self.lock().take();
        match session.as_deref() {
            Some(Session::Streamable(session)) => session.close().await,
            Some(Session::HttpSse(session)) => session.close(),
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
        tracing::info!(url = %self.core.url, "the server forgot the session, opening another");
        let fresh = Arc::new(match **gone {
            Session::Streamable(_) => Session::Streamable(Streamable::open(&self.core).await?),
            Session::HttpSse(_) => Session::HttpSse(HttpSse::open(&self.core).await?),
        });
        let mut session = self.lock();
        if session.is_none() {
            return Err(ClientError::Closed);
        }
        *session = Some(Arc::clone(&fresh));
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
        }
    }

    async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        match self {
            Session::Streamable(session) => session.link.tell(body).await,
            Session::HttpSse(session) => session.link().tell(body).await,
        }
    }
}

impl Call<'_> {
    /// The params to send: the caller's own, with a progress token if it wants to hear of progress.
    fn params_with(&self, id: &Id) -> Option<Bytes> {
        if self.options.progress.is_some() {
            return Some(self.params.legacy(id));
        }
        (!self.raw.is_empty()).then(|| Bytes::copy_from_slice(self.raw))
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
