//! How many pages are fetched and converted at the same time, in all and for one caller.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use lyceum_kb::{Error, Result};

/// In the whole process. Each takes a process of its own that may use half a gigabyte.
const MAX_AT_ONCE: usize = 4;
/// For one caller, so that slow downloads of one leave room for the others.
const MAX_PER_CALLER: usize = 2;

static PROCESS: LazyLock<IngestSlots> = LazyLock::new(IngestSlots::default);

/// Counts what is under way by caller.
#[derive(Debug, Clone, Default)]
pub(super) struct IngestSlots {
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// One page under way; ends when dropped.
#[derive(Debug)]
pub(super) struct IngestSlot {
    slots: IngestSlots,
    caller: String,
}

impl IngestSlots {
    /// Those that all endpoints of the process share.
    pub(super) fn of_process() -> Self {
        PROCESS.clone()
    }

    /// Takes a slot, or says why there is none.
    pub(super) fn take(&self, caller: &str) -> Result<IngestSlot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.get(caller).is_some_and(|own| *own >= MAX_PER_CALLER) {
            return Err(Error::unavailable(format!(
                "{MAX_PER_CALLER} pages of yours are being ingested; wait for one of them"
            )));
        }
        if taken.values().sum::<usize>() >= MAX_AT_ONCE {
            return Err(Error::unavailable("too many pages are being ingested; try again soon"));
        }
        *taken.entry(caller.to_owned()).or_default() += 1;
        Ok(IngestSlot { slots: self.clone(), caller: caller.to_owned() })
    }
}

impl Drop for IngestSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_room_for_others() {
        let slots = IngestSlots::default();
        let first = slots.take("a").unwrap();
        let _second = slots.take("a").unwrap();
        let error = slots.take("a").unwrap_err();
        assert!(error.message().contains("of yours"), "{error}");
        let _others = [slots.take("b").unwrap(), slots.take("c").unwrap()];
        let error = slots.take("d").unwrap_err();
        assert!(error.message().contains("too many"), "{error}");
        drop(first);
        assert!(slots.take("d").is_ok());
        assert_eq!(slots.taken.lock().unwrap().len(), 3, "callers without pages are forgotten");
    }
}
