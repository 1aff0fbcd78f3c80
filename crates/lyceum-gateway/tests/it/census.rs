//! What this process uses: memory, files, children. Under nextest each test has a process of its own, so
//! what is counted is the test's.

use std::collections::BTreeSet;

/// How many child processes this one has, zombies included.
pub(crate) fn children() -> usize {
    child_numbers().len()
}

pub(crate) fn child_numbers() -> BTreeSet<String> {
    let own = std::process::id().to_string();
    let is_child = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(own.as_str())
    };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_child).map(number).collect()
}

pub(crate) fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Kilobytes of memory in use.
pub(crate) fn resident_kb() -> usize {
    status("VmRSS:")
}

/// The most kilobytes of memory that were ever in use.
pub(crate) fn peak_kb() -> usize {
    status("VmHWM:")
}

fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
