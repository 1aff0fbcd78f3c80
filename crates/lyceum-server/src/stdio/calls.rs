//! The calls a connection has accepted and not yet answered, by request id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lyceum_wire::Id;
use tokio::sync::Notify;

/// Every open call. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashMap<Id, OpenCall>>>);

#[derive(Debug)]
struct OpenCall {
    cancelled: Arc<Notify>,
    /// Whether the call only ends when it is cancelled.
    endless: bool,
}

/// One call's place among the open ones; leaving it frees the id.
#[derive(Debug)]
pub(super) struct Place {
    id: Id,
    cancelled: Arc<Notify>,
    calls: Calls,
}

impl Calls {
    /// Takes a place for a call; `None` when a call with this id is open already.
    pub(super) fn open(&self, id: &Id, endless: bool) -> Option<Place> {
        let mut calls = self.lock();
        if calls.contains_key(id) {
            return None;
        }
        let cancelled = Arc::new(Notify::new());
        calls.insert(id.clone(), OpenCall { cancelled: Arc::clone(&cancelled), endless });
        Some(Place { id: id.clone(), cancelled, calls: self.clone() })
    }

    /// Cancels a call, running or waiting; one that is not open is none of our business.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(call) = self.lock().get(id) {
            call.cancelled.notify_one();
        }
    }

    /// Cancels the calls that would never end by themselves.
    pub(super) fn cancel_endless(&self) {
        for call in self.lock().values().filter(|call| call.endless) {
            call.cancelled.notify_one();
        }
    }

    /// How many of the open calls are endless.
    pub(super) fn n_endless(&self) -> usize {
        self.lock().values().filter(|call| call.endless).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, OpenCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Runs `call` unless and until the client cancels it; `None` when it did.
    pub(super) async fn run<T>(self, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.cancelled.notified() => None,
            result = call => Some(result),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
    }
}
