//! The tasks a server keeps: bounded in number and in bytes, each for its time to live.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::{Context, Principal};
use lyceum_wire::RpcError;

use super::task::Task;

/// Tasks one caller may have.
const MAX_PER_OWNER: usize = 1024;
/// Tasks all callers may have together.
const MAX_TASKS: usize = 8 * 1024;
/// Bytes of results kept for all tasks together.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// The longest time a client may ask to keep a task.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Who may know of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(super) endpoint: Arc<str>,
    pub(super) principal: Option<Principal>,
    pub(super) session: Option<[u8; 16]>,
}

/// All tasks of a server.
#[derive(Debug)]
pub(crate) struct Store {
    tasks: Mutex<Tasks>,
    ttl: Duration,
    result_bytes: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Tasks {
    by_id: HashMap<String, Arc<Task>>,
    last: u64,
}

/// A result that counts towards the bound until its last copy is dropped.
#[derive(Debug)]
struct Kept {
    result: Vec<u8>,
    total: Arc<AtomicUsize>,
}

impl Owner {
    pub(crate) fn of(cx: &Context) -> Self {
        let (endpoint, principal) = (Arc::clone(&cx.endpoint), cx.principal.clone());
        Self { endpoint, principal, session: cx.session_key }
    }

    /// Whether a task of this owner may be named by `other`: ids cannot be guessed, so anonymous
    /// callers need no more than the id.
    fn may_know(&self, other: &Owner) -> bool {
        self.endpoint == other.endpoint && self.principal == other.principal
    }

    /// Whether a task of this owner may be shown to `other` unasked: callers without a name see
    /// what their own session started, nothing else.
    fn may_list(&self, other: &Owner) -> bool {
        let named = self.principal.is_some();
        self.may_know(other) && (named || (self.session.is_some() && self.session == other.session))
    }
}

impl Store {
    /// A store that keeps tasks for `ttl` unless the client asks for another time.
    pub(crate) fn new(ttl: Duration) -> Self {
        let tasks = Mutex::default();
        Self { tasks, ttl, result_bytes: Arc::default() }
    }

    /// Starts a task.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn create(
        &self,
        owner: Owner,
        ttl: Option<Duration>,
    ) -> Result<Arc<Task>, RpcError> {
        let mut tasks = self.lock();
        tasks.sweep();
        let of_owner = tasks.by_id.values().filter(|task| task.owner().may_know(&owner));
        if tasks.by_id.len() >= MAX_TASKS || of_owner.count() >= MAX_PER_OWNER {
            let problem = "too many tasks; wait for some to expire, or ask for a shorter ttl";
            return Err(RpcError::internal(problem));
        }
        let ttl = ttl.unwrap_or(self.ttl).clamp(Duration::from_millis(1), MAX_TTL);
        tasks.last += 1;
        let task = Arc::new(Task::new(owner, ttl, tasks.last));
        tasks.by_id.insert(task.id().to_owned(), Arc::clone(&task));
        Ok(task)
    }

    /// A task by its id.
    pub(crate) fn get(&self, id: &str, owner: &Owner) -> Option<Arc<Task>> {
        let task = self.lock().by_id.get(id).cloned()?;
        (!task.is_expired() && task.owner().may_know(owner)).then_some(task)
    }

    /// The owner's tasks after number `after`, oldest first.
    pub(crate) fn list(&self, owner: &Owner, after: u64) -> Vec<Arc<Task>> {
        let tasks = self.lock();
        let listed = |task: &&Arc<Task>| {
            task.number() > after && !task.is_expired() && task.owner().may_list(owner)
        };
        let mut tasks: Vec<_> = tasks.by_id.values().filter(listed).cloned().collect();
        tasks.sort_unstable_by_key(|task| task.number());
        tasks
    }

    /// Keeps a result; `None` when too much is kept already.
    pub(crate) fn keep(&self, result: Vec<u8>) -> Option<Bytes> {
        let before = self.result_bytes.fetch_add(result.len(), Ordering::Relaxed);
        let fits = before + result.len() <= MAX_RESULT_BYTES;
        let kept = Kept { result, total: Arc::clone(&self.result_bytes) };
        fits.then(|| Bytes::from_owner(kept))
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tasks {
    /// Forgets what has expired, and stops what still runs of it.
    fn sweep(&mut self) {
        self.by_id.retain(|_, task| {
            let expired = task.is_expired();
            if expired {
                task.stop();
            }
            !expired
        });
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.result
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.total.fetch_sub(self.result.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: Option<&str>, session: Option<u8>) -> Owner {
        let session = session.map(|key| [key; 16]);
        Owner { endpoint: "/mcp".into(), principal: name.map(Principal::new), session }
    }

    #[tokio::test(start_paused = true)]
    async fn one_owner_cannot_fill_the_store_and_room_comes_back_with_time() {
        let store = Store::new(Duration::from_secs(60));
        let (ana, bob) = (owner(Some("ana"), None), owner(Some("bob"), None));
        for _ in 0..MAX_PER_OWNER {
            store.create(ana.clone(), None).unwrap();
        }
        assert!(store.create(ana.clone(), None).is_err());
        let of_bob = store.create(bob.clone(), None).unwrap();
        assert!(store.get(of_bob.id(), &bob).is_some());
        assert!(store.get(of_bob.id(), &ana).is_none());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(store.get(of_bob.id(), &bob).is_none());
        assert!(store.create(ana.clone(), None).is_ok());
        assert_eq!(store.list(&ana, 0).len(), 1);
    }

    #[tokio::test]
    async fn callers_without_a_name_list_their_own_session_only() {
        let store = Store::new(Duration::from_secs(60));
        let task = store.create(owner(None, Some(1)), None).unwrap();
        let listed = |owner: &Owner| store.list(owner, 0).len();
        assert_eq!(listed(&owner(None, Some(1))), 1);
        assert_eq!(listed(&owner(None, Some(2))), 0);
        assert_eq!(listed(&owner(None, None)), 0);
        assert_eq!(listed(&owner(Some("ana"), Some(1))), 0);
        assert!(store.get(task.id(), &owner(None, Some(2))).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_lists_what_expired_or_what_has_no_session_and_no_ttl_is_too_long() {
        let store = Store::new(Duration::from_secs(60));
        let (ana, nobody) = (owner(Some("ana"), None), owner(None, None));
        store.create(ana.clone(), Some(Duration::from_secs(u32::MAX.into()))).unwrap();
        store.create(nobody.clone(), None).unwrap();
        assert_eq!((store.list(&ana, 0).len(), store.list(&nobody, 0).len()), (1, 0));
        tokio::time::advance(MAX_TTL).await;
        assert_eq!(store.list(&ana, 0).len(), 0);
    }

    #[test]
    fn results_are_bounded_in_bytes() {
        let store = Store::new(Duration::from_secs(60));
        let kept = store.keep(vec![0; MAX_RESULT_BYTES]).unwrap();
        assert!(store.keep(vec![0]).is_none());
        drop(kept);
        assert!(store.keep(vec![0]).is_some());
    }
}
