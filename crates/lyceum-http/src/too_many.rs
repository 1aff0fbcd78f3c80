//! Refusals of work beyond a bound, and the tally of what each authenticated principal holds.
//!
//! Anonymous callers cannot be told apart, so for them only the bounds of the endpoint hold.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use lyceum_wire::{Id, RpcError};

use crate::answer;
use crate::byte_budget::Exhausted;
use crate::context::Principal;
use crate::pipeline::Reply;

const SHARDS: usize = 16;

/// The endpoint, a session or a principal holds as much as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMany {
    #[error("too many live sessions; try again later")]
    Sessions,
    #[error("too many live sessions of this caller; end some with DELETE")]
    SessionsOfPrincipal,
    #[error("too many calls are running; try again later")]
    Calls,
    #[error("too many calls of this caller are running; wait for some to end")]
    CallsOfPrincipal,
    #[error("too many calls of this session are running; wait for some to end")]
    CallsOfSession,
    #[error("{0}")]
    Bytes(Exhausted),
    #[error("the answers to this batch are too large together; ask for this one by itself")]
    Batch,
    #[error(
        "this call was not run: the answers to this batch are too large together; send it by itself"
    )]
    BatchUnrun,
}

impl TooMany {
    /// The refusal of a request, by its id if it has one.
    pub(crate) fn reply(self, id: Option<&Id>) -> Reply {
        let seconds = match self {
            Self::Sessions | Self::SessionsOfPrincipal => 5,
            _ => 1,
        };
        let mut reply = answer::error(self.status(), id, &self.into());
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        reply
    }

    /// The status a refused request has.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Sessions | Self::Calls => StatusCode::SERVICE_UNAVAILABLE,
            Self::SessionsOfPrincipal | Self::CallsOfPrincipal | Self::CallsOfSession => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Bytes(exhausted) => exhausted.status(),
            Self::Batch | Self::BatchUnrun => StatusCode::OK,
        }
    }
}

/// The client did nothing wrong, so the code is not that of an invalid request.
impl From<TooMany> for RpcError {
    fn from(too_many: TooMany) -> RpcError {
        RpcError::internal(too_many.to_string())
    }
}

/// How much each principal holds of one thing.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: usize,
    beyond: TooMany,
    hasher: RandomState,
    shards: [Mutex<HashMap<Principal, usize>>; SHARDS],
}

impl Tally {
    /// A principal that holds `limit` is refused more with `beyond`.
    pub(crate) fn new(limit: usize, beyond: TooMany) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { limit, beyond, hasher: RandomState::new(), shards }
    }

    /// Counts one more, until the guard is dropped. Anonymous callers are not counted.
    pub(crate) fn hold(
        self: &Arc<Self>,
        principal: Option<&Principal>,
    ) -> Result<Option<Held>, TooMany> {
        let Some(principal) = principal else { return Ok(None) };
        let mut shard = self.shard(principal);
        let held = shard.get(principal).copied().unwrap_or(0);
        if held >= self.limit {
            return Err(self.beyond);
        }
        shard.insert(principal.clone(), held + 1);
        Ok(Some(Held { tally: Arc::clone(self), principal: principal.clone() }))
    }

    fn shard(&self, principal: &Principal) -> MutexGuard<'_, HashMap<Principal, usize>> {
        let shard = self.hasher.hash_one(principal) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thing a principal holds.
#[derive(Debug)]
pub(crate) struct Held {
    tally: Arc<Tally>,
    principal: Principal,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut shard = self.tally.shard(&self.principal);
        if let Some(held) = shard.get_mut(&self.principal) {
            *held -= 1;
            if *held == 0 {
                shard.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_counted_apart_and_forgotten_when_they_hold_nothing() {
        let tally = Arc::new(Tally::new(2, TooMany::CallsOfPrincipal));
        let (ana, bob) = (Principal::new("ana"), Principal::new("bob"));
        let held = [tally.hold(Some(&ana)).unwrap(), tally.hold(Some(&ana)).unwrap()];
        assert_eq!(tally.hold(Some(&ana)).unwrap_err(), TooMany::CallsOfPrincipal);
        assert!(tally.hold(Some(&bob)).unwrap().is_some());
        for _ in 0..3 {
            assert!(tally.hold(None).unwrap().is_none(), "anonymous callers are not counted");
        }
        drop(held);
        assert!(tally.hold(Some(&ana)).is_ok());
        let known: usize = tally.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert_eq!(known, 0);
    }

    #[test]
    fn principal_that_may_hold_nothing_is_not_remembered() {
        let tally = Arc::new(Tally::new(0, TooMany::CallsOfPrincipal));
        assert!(tally.hold(Some(&Principal::new("ana"))).is_err());
        assert!(tally.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
