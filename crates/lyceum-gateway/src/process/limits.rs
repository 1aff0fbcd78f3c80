//! What a child may use of the machine.
//!
//! Limits are set from outside as soon as the child runs, because setting them from within, before
//! it runs, takes unsafe code or another program. Until then, for some microseconds in which programs
//! are still being loaded, ours apply. Only Linux can do this; elsewhere there are no limits.

use super::group::Group;

/// What a child may use. `None` is what we may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory it writes to and shares with nobody, for each of its processes. Address space
    /// that is only reserved does not count: some runtimes reserve it by the gigabyte.
    pub memory: Option<u64>,
    /// Open files, for each of its processes.
    pub open_files: Option<u64>,
    /// Processes and threads of its user, ours included, beyond which it can start no more. The
    /// superuser's children are not held by it.
    pub processes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: None, open_files: Some(4096), processes: Some(8192) }
    }
}

impl Limits {
    #[cfg(target_os = "linux")]
    pub(super) fn impose(&self, upstream: &str, group: &Group) {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
        let limits = [
            (Resource::Data, self.memory),
            (Resource::Nofile, self.open_files),
            (Resource::Nproc, self.processes),
            // Its memory may hold what no file should.
            (Resource::Core, Some(0)),
        ];
        for (resource, limit) in limits {
            let Some(limit) = limit else { continue };
            let highest = getrlimit(resource).maximum.map_or(limit, |ours| ours.min(limit));
            let limit = Rlimit { current: Some(highest), maximum: Some(highest) };
            match prlimit(Some(group.leader()), resource, limit) {
                // It has ended already.
                Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => {
                    tracing::warn!(upstream, %error, "a limit cannot be set: {resource:?}");
                }
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn impose(&self, _: &str, _: &Group) {}
}
