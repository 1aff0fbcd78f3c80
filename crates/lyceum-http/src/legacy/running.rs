//! A legacy call on a task of its own: counted, cancellable by its id, forgotten when it ends.

use std::future::Future;
use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use lyceum_wire::{Id, RpcError};

use super::registry::Sessions;
use super::session::Session;
use crate::answer;
use crate::pipeline::Reply;

/// The endpoint holds as much as it may.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum TooMany {
    #[error("too many live sessions; try again later")]
    Sessions,
    #[error("too many calls are running; try again later")]
    Calls,
    #[error("too many calls of this session are running; wait for some to end")]
    CallsOfSession,
}

impl TooMany {
    /// The refusal of a request, by its id if it has one.
    pub(super) fn reply(self, id: Option<&Id>) -> Reply {
        let (status, seconds) = match self {
            Self::Sessions => (StatusCode::SERVICE_UNAVAILABLE, 5),
            Self::Calls => (StatusCode::SERVICE_UNAVAILABLE, 1),
            Self::CallsOfSession => (StatusCode::TOO_MANY_REQUESTS, 1),
        };
        let mut reply = answer::error(status, id, &self.into());
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        reply
    }
}

/// The client did nothing wrong, so the code is not that of an invalid request.
impl From<TooMany> for RpcError {
    fn from(too_many: TooMany) -> RpcError {
        RpcError::internal(too_many.to_string())
    }
}

/// A call's place among the running ones; it is given up when the call ends, however it ends.
pub(super) struct RunningCall {
    sessions: Arc<Sessions>,
    /// The session the call belongs to, and the call's number there.
    place: Option<(Arc<Session>, u64)>,
}

impl RunningCall {
    /// Finds a place for the call `id`, in a session if there is one.
    pub(super) fn admit(
        sessions: &Arc<Sessions>,
        session: Option<Arc<Session>>,
        id: Id,
    ) -> Result<Self, TooMany> {
        sessions.begin_call()?;
        let mut running = Self { sessions: Arc::clone(sessions), place: None };
        if let Some(session) = session {
            let number = session.call_announced(id, sessions.limits.calls_per_session)?;
            running.place = Some((session, number));
        }
        Ok(running)
    }

    /// Runs the call.
    pub(super) fn spawn(self, call: impl Future<Output = ()> + Send + 'static) {
        let place = self.place.clone();
        let task = tokio::spawn(async move {
            let _running = self;
            call.await;
        });
        if let Some((session, number)) = place {
            session.call_started(number, task.abort_handle());
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.sessions.end_call();
        if let Some((session, number)) = &self.place {
            session.call_ended(*number);
        }
    }
}
