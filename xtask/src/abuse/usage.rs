//! What a process has used, as Linux tells it in `/proc`: processor time, memory, peak memory.

use std::fs;

use anyhow::{Context, Result};

/// Clock ticks per second in `/proc/PID/stat`; the same on every Linux of today.
const TICKS: f64 = 100.0;

/// Memory of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MemoryUse {
    pub(super) resident_mib: f64,
    /// The most that was resident since the start or the last reset.
    pub(super) peak_mib: f64,
}

/// Processor seconds the process and its children that ended have used.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server is gone")?;
    ticks(&stat).map(|ticks| ticks / TICKS).context("/proc/PID/stat has another form")
}

/// Processor seconds that anything on this machine has used.
pub(super) fn machine_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    busy_ticks(&stat).map(|ticks| ticks / TICKS).context("/proc/stat has another form")
}

pub(super) fn memory(pid: u32) -> Result<MemoryUse> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the server is gone")?;
    let read = || {
        let (resident_mib, peak_mib) = (mib(&status, "VmRSS:")?, mib(&status, "VmHWM:")?);
        Some(MemoryUse { resident_mib, peak_mib })
    };
    read().context("the server is a zombie")
}

/// MiB of the largest process that this one has started, at this moment; 0 if there is none.
pub(super) fn largest_child_mib(pid: u32) -> f64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let lists = threads.flatten().filter_map(|thread| {
        // Children belong to the thread that started them.
        fs::read_to_string(thread.path().join("children")).ok()
    });
    let command = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let parent = command(pid);
    let mut largest: f64 = 0.0;
    for list in lists {
        for child in list.split_whitespace().filter_map(|child| child.parse().ok()) {
            // Until it runs its own program, a child shares the memory of its parent.
            if command(child) == parent {
                continue;
            }
            largest = largest.max(memory(child).map_or(0.0, |memory| memory.resident_mib));
        }
    }
    largest
}

/// Makes what is resident now the peak, so that the next peak is that of what follows.
pub(super) fn reset_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("cannot reset the peak of memory")
}

fn ticks(stat: &str) -> Option<f64> {
    // The name in parentheses may hold anything, so fields are counted after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<f64>().ok()).sum()
}

/// User, nice, system and interrupts; neither idle nor waiting for disks.
fn busy_ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().collect();
    let busy = [0, 1, 2, 5, 6];
    busy.into_iter().map(|n| fields.get(n)?.parse::<f64>().ok()).sum()
}

fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_after_the_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 3 2 20 0 8 0 1 2 3";
        assert_eq!(ticks(stat), Some(205.0));
        assert_eq!(ticks("garbage"), None);
    }

    #[test]
    fn a_machine_is_busy_when_it_neither_idles_nor_waits() {
        assert_eq!(busy_ticks("cpu  1 2 4 800 900 8 16 0 0 0\ncpu0 1"), Some(31.0));
        assert_eq!(busy_ticks("intr 1"), None);
    }

    #[test]
    fn memory_is_read_in_mebibytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(mib(status, "VmHWM:"), Some(2.0));
        assert_eq!(mib(status, "VmRSS:"), Some(1.0));
        assert_eq!(mib(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(memory(pid).unwrap().resident_mib > 0.1);
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
    }
}
