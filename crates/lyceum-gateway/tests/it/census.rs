//! What this process uses: memory, files, children. Under nextest each test has a process of its own, so
//! what is counted is the test's.

/// Child processes of this one, zombies included.
pub(crate) fn children() -> usize {
    let own = std::process::id().to_string();
    let is_child = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(own.as_str())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_child).count()
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
