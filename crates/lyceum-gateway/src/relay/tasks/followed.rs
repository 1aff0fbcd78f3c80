//! [`Followed`]: the tasks of legacy upstreams whose results are waited for, because that is where
//! such a task asks its questions.
//!
//! A modern client only looks at a task now and then. Between its looks the wait goes on, and what
//! was asked meanwhile is there when it looks again. Few are followed, and none for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, Weak};

use lyceum_http::Context;
use lyceum_wire::RpcError;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::relay::caller;
use crate::relay::held::{HeldCall, MAX_HELD, MAX_HELD_BY_CALLER, PATIENCE};

/// The number of the connection a task lives on, and its id there.
pub(crate) type Key = (u64, String);

/// The calls that wait for results.
#[derive(Debug, Default)]
pub(crate) struct Followed(StdMutex<HashMap<Key, Follower>>);

#[derive(Debug)]
struct Follower {
    call: Arc<Mutex<HeldCall>>,
    caller: Option<u128>,
    /// Gives up when the client takes too long.
    timer: AbortHandle,
}

impl Followed {
    /// The call that waits for a task's result; `make` makes it if there is none.
    pub(crate) fn follow(
        self: &Arc<Self>,
        key: &Key,
        cx: &Context,
        make: impl FnOnce() -> HeldCall,
    ) -> Result<Arc<Mutex<HeldCall>>, RpcError> {
        let caller = caller(cx);
        let mut followed = self.lock();
        if let Some(follower) = followed.get(key) {
            return Ok(Arc::clone(&follower.call));
        }
        let is_theirs = |follower: &&Follower| caller.is_some() && follower.caller == caller;
        let of_caller = followed.values().filter(is_theirs).count();
        if followed.len() >= MAX_HELD || of_caller >= MAX_HELD_BY_CALLER {
            let problem = "too many tasks wait for their client's answers; answer some first";
            return Err(RpcError::internal(problem));
        }
        let call = Arc::new(Mutex::new(make()));
        let timer = tokio::spawn(forget(Arc::downgrade(self), key.clone())).abort_handle();
        followed.insert(key.clone(), Follower { call: Arc::clone(&call), caller, timer });
        Ok(call)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Mutex<HeldCall>>> {
        self.lock().get(key).map(|follower| Arc::clone(&follower.call))
    }

    /// Whether this is still the call that waits for the task's result.
    pub(crate) fn has(&self, key: &Key, call: &Arc<Mutex<HeldCall>>) -> bool {
        self.lock().get(key).is_some_and(|follower| Arc::ptr_eq(&follower.call, call))
    }

    /// Waits no longer.
    pub(crate) fn end(&self, key: &Key) {
        if let Some(follower) = self.lock().remove(key) {
            follower.timer.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forget(followed: Weak<Followed>, key: Key) {
    tokio::time::sleep(PATIENCE).await;
    if let Some(followed) = followed.upgrade() {
        let forgotten = followed.lock().remove(&key);
        drop(forgotten);
    }
}
