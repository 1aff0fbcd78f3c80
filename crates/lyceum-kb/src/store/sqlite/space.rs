//! Free space of the file system the database is on: a warning before it is full.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1024 * 1024;

/// Space is short below a twentieth of the file system, within these bounds.
const SHARE: u64 = 20;
const LEAST: u64 = 64 * MIB;
const MOST: u64 = 1024 * MIB;

/// Below this a write that works is luck: there is no room for the log to grow.
const ROOM_FOR_A_WRITE: u64 = MIB;

/// Watches the space; says once when it becomes short, and once when it no longer is.
#[derive(Debug)]
pub(super) struct SpaceWatch {
    directory: PathBuf,
    is_short: AtomicBool,
}

/// The size of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FreeSpace {
    available: u64,
    total: u64,
}

impl SpaceWatch {
    /// Watches the file system of the file at `path`.
    pub(super) fn of(path: &Path) -> SpaceWatch {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).to_owned();
        SpaceWatch { directory, is_short: AtomicBool::new(false) }
    }

    /// A warning while space is short.
    pub(super) fn look(&self) -> Option<String> {
        let space = measure(&self.directory)?;
        let was_short = self.is_short.load(Ordering::Relaxed);
        let is_short = space.is_short(was_short);
        let free = space.available / MIB;
        if self.is_short.swap(is_short, Ordering::Relaxed) != is_short {
            let directory = self.directory.display();
            match is_short {
                true => tracing::warn!(%directory, free_mib = free, "the disk is nearly full"),
                false => tracing::info!(%directory, free_mib = free, "the disk has space again"),
            }
        }
        is_short.then(|| format!("the disk is nearly full: {free} MiB are free; make space"))
    }

    /// Whether a write could be stored at all.
    pub(super) fn has_room(&self) -> bool {
        measure(&self.directory).is_none_or(|space| space.available >= ROOM_FOR_A_WRITE)
    }
}

impl FreeSpace {
    /// Once short, it takes a quarter more to be short no longer, so that a warning does not come and go.
    fn is_short(self, was_short: bool) -> bool {
        let limit = (self.total / SHARE).clamp(LEAST, MOST);
        self.available < if was_short { limit + limit / 4 } else { limit }
    }
}

#[cfg(unix)]
fn measure(directory: &Path) -> Option<FreeSpace> {
    let found = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(FreeSpace { available: bytes(found.f_bavail), total: bytes(found.f_blocks) })
}

#[cfg(not(unix))]
fn measure(_: &Path) -> Option<FreeSpace> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_short_before_there_is_none() {
        let gib = 1024 * MIB;
        // Available, in all, whether it was short before, whether it is.
        let rows = [
            (2000 * MIB, 1000 * gib, false, false),
            (1023 * MIB, 1000 * gib, false, true),
            (1100 * MIB, 1000 * gib, true, true),
            (1281 * MIB, 1000 * gib, true, false),
            (513 * MIB, 10 * gib, false, false),
            (511 * MIB, 10 * gib, false, true),
            (70 * MIB, 100 * MIB, false, false),
            (0, 0, false, true),
        ];
        for (available, total, was_short, expected) in rows {
            let space = FreeSpace { available, total };
            assert_eq!(space.is_short(was_short), expected, "{space:?} {was_short}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_system_of_a_file_is_measured() {
        let directory = tempfile::tempdir().unwrap();
        let space = measure(directory.path()).unwrap();
        assert!(space.total > 0 && space.available <= space.total, "{space:?}");
        assert!(SpaceWatch::of(&directory.path().join("kb.db")).has_room());
    }
}
