//! A legacy call on a task of its own: counted, cancellable by its id, forgotten when it ends. So is
//! a notification that takes its handler time, though it has no id to be cancelled by.

use std::future::Future;
use std::sync::Arc;

use lyceum_wire::Id;

use super::registry::Sessions;
use super::session::Session;
use crate::context::Principal;
use crate::too_many::{Held, TooMany};

/// A call's place among the running ones; it is given up when the call ends, however it ends.
pub(crate) struct RunningCall {
    sessions: Arc<Sessions>,
    _held: Option<Held>,
    /// The session the call belongs to, and the call's number there.
    place: Option<(Arc<Session>, u64)>,
}

impl RunningCall {
    /// Finds a place for the call `id` of `principal`, in a session if there is one. Notifications
    /// have no id.
    pub(super) fn admit(
        sessions: &Arc<Sessions>,
        principal: Option<&Principal>,
        session: Option<Arc<Session>>,
        id: Option<Id>,
    ) -> Result<Self, TooMany> {
        let held = sessions.calls_of.hold(principal)?;
        sessions.begin_call()?;
        let mut running = Self { sessions: Arc::clone(sessions), _held: held, place: None };
        if let Some(session) = session {
            let number = session.call_announced(id, sessions.limits.calls_per_session)?;
            running.place = Some((session, number));
        }
        Ok(running)
    }

    /// Runs the call.
    pub(crate) fn spawn(self, call: impl Future<Output = ()> + Send + 'static) {
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
