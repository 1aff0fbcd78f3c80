//! How many files this process may have open, and how many of them may be connections.

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one.
///
/// Systems set the soft limit to 1,024 or less for programs that use `select`, which we do not.
/// Processes we start get the limit that `[stdio] max_open_files` sets, on Linux.
#[cfg(unix)]
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

#[cfg(not(unix))]
pub(crate) fn raise() {}

/// How many files may be open; `None` where there is no limit.
#[cfg(unix)]
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub(crate) fn limit() -> Option<u64> {
    None
}

/// How many connections fit among `open_files`, but not more than `most`. A quarter is kept for files,
/// processes and connections to upstreams.
pub(crate) fn connections(open_files: Option<u64>, most: usize) -> usize {
    let Some(open_files) = open_files else { return most };
    let kept = (open_files / 4).clamp(64, 4096);
    let left = usize::try_from(open_files.saturating_sub(kept)).unwrap_or(usize::MAX);
    left.clamp(16, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_other_files() {
        for (open_files, expected) in [
            (Some(256), 192),
            (Some(1024), 768),
            (Some(4096), 3072),
            (Some(1 << 20), 20_000),
            (None, 20_000),
            (Some(10), 16),
        ] {
            assert_eq!(connections(open_files, 20_000), expected, "{open_files:?}");
        }
    }
}
