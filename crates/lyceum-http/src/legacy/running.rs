//! A legacy call that takes time: counted, cancellable by its id, forgotten when it ends. So is a
//! notification that takes its handler time, though it has no id to be cancelled by.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};

use lyceum_wire::Id;

use super::registry::Sessions;
use super::session::Session;
use crate::context::Principal;
use crate::too_many::{Held, TooMany};

/// A call's place among the running ones; it is given up when the call ends, however it ends.
pub(crate) struct RunningCall {
    sessions: Arc<Sessions>,
    _held: Option<Held>,
    place: Option<Place>,
}

/// Where a call is among those of its session.
struct Place {
    session: Arc<Session>,
    number: u64,
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
            let number = session.call_started(id, sessions.limits.calls_per_session)?;
            running.place = Some(Place { session, number });
        }
        Ok(running)
    }

    /// Whether the call was stopped.
    pub(super) fn poll_stopped(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.place {
            Some(place) => place.session.poll_stopped(place.number, cx),
            None => Poll::Pending,
        }
    }

    /// Runs the call on a task of its own.
    pub(crate) fn spawn(self, call: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = poll_fn(|cx| self.poll_stopped(cx)) => {}
                () = call => {}
            }
        });
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.sessions.end_call();
        if let Some(place) = &self.place {
            place.session.call_ended(place.number);
        }
    }
}
