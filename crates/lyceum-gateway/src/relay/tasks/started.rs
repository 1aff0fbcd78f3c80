//! [`Started`]: the upstreams' tasks that legacy sessions started, for `tasks/list`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Tasks remembered for one session, and for all.
const MAX_OF_SESSION: usize = 64;
const MAX_STARTED: usize = 4096;
/// Bytes of what is remembered about one; nobody needs to say more about a task.
const MAX_SEEN: usize = 16 << 10;

/// The newest tasks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Started(Mutex<VecDeque<Entry>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    session: [u8; 16],
    /// What the client calls it.
    pub(crate) public: String,
    /// What was last heard of it, in the words of the core.
    pub(crate) seen: Bytes,
}

impl Started {
    /// Remembers a task, unless there is too much to it; older ones give way.
    pub(crate) fn remember(&self, session: [u8; 16], public: String, seen: Bytes) {
        if public.len() + seen.len() > MAX_SEEN {
            return tracing::debug!(n_bytes = seen.len(), "a task that is too large to be listed");
        }
        let mut started = self.lock();
        let of_session = started.iter().filter(|entry| entry.session == session).count();
        if of_session >= MAX_OF_SESSION {
            let oldest = started.iter().position(|entry| entry.session == session);
            oldest.and_then(|place| started.remove(place));
        } else if started.len() >= MAX_STARTED {
            started.pop_front();
        }
        started.push_back(Entry { session, public, seen });
    }

    /// What a session started.
    pub(crate) fn of(&self, session: &[u8; 16]) -> Vec<Entry> {
        self.lock().iter().filter(|entry| entry.session == *session).cloned().collect()
    }

    /// Its upstream does not know it any more.
    pub(crate) fn forget(&self, public: &str) {
        self.lock().retain(|entry| entry.public != public);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_tasks_give_way_to_new_ones_of_their_session_first() {
        let started = Started::default();
        let names = |session: u8| -> Vec<String> {
            started.of(&[session; 16]).into_iter().map(|entry| entry.public).collect()
        };
        started.remember([1; 16], "first".to_owned(), Bytes::new());
        for n in 0..=MAX_OF_SESSION {
            started.remember([2; 16], n.to_string(), Bytes::new());
        }
        assert_eq!(names(1), ["first"]);
        assert_eq!((names(2).len(), names(2)[0].as_str()), (MAX_OF_SESSION, "1"));
        started.forget("1");
        assert_eq!(names(2)[0], "2");
        for n in 0..MAX_STARTED {
            let session = (n as u128 + 3).to_be_bytes();
            started.remember(session, n.to_string(), Bytes::new());
        }
        assert_eq!(started.lock().len(), MAX_STARTED);
        assert_eq!(names(1), [""; 0], "whoever is oldest of all");
        started.remember([1; 16], "large".to_owned(), Bytes::from(vec![b' '; MAX_SEEN]));
        assert_eq!(names(1), [""; 0], "who says too much");
    }
}
