//! Tasks: calls that go on after their answer, to be followed by id.
//!
//! The modern era has them as an extension, 2025-11-25 in its core; both share the store and the
//! state machine here. The methods only 2025-11-25 has are in `legacy/tasks.rs`.

mod background;
mod extension;
mod store;
mod task;
mod timestamp;

pub(crate) use background::{keep_ended, run};
pub(crate) use extension::{NOTIFICATION, cancel, created, get, notification, update};
pub(crate) use store::{Owner, Store};
pub(crate) use task::{Claim, Ending, Naming, Task};

use std::sync::{Arc, OnceLock};

use lyceum_wire::{Member, Request, RpcError};

/// The `_meta` key that says which task a message belongs to (2025-11-25).
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Where a call finds its task, once it is one.
pub(crate) type TaskCell = Arc<OnceLock<Arc<Task>>>;

/// The task a request names, if its caller may know of it.
pub(crate) fn named(
    store: &Store,
    request: &Request,
    owner: &Owner,
) -> Result<Arc<Task>, RpcError> {
    let id = request.params.text(Member::TaskId);
    let id = id.ok_or_else(|| RpcError::invalid_params("taskId must say which task"))?;
    store.get(&id, owner).ok_or_else(|| RpcError::invalid_params(format!("Unknown task: {id}")))
}
