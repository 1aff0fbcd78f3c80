//! What the kernel says about a process and a core. Linux only, like the rest of this workspace.

use std::fs;

use anyhow::Context;

/// `USER_HZ`: the unit of every time in `/proc`, the same on all Linux machines we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of user and system time a process has used, with its threads.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server is gone")?;
    parse_cpu_seconds(&stat).context("reading the server's CPU time")
}

/// Seconds a core has been busy with anything.
pub(crate) fn core_seconds(core: usize) -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    parse_core_seconds(&stat, core).context("reading the core's time")
}

/// How many processes wanted a core, on average over the last minute.
pub(crate) fn load_average() -> anyhow::Result<String> {
    let averages = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    Ok(averages.split(' ').next().unwrap_or_default().to_owned())
}

/// Resident memory of a process in KiB.
pub(crate) fn resident_kib(pid: u32) -> anyhow::Result<f64> {
    let status = read_status(pid)?;
    let kib = field(&status, "VmRSS").and_then(|value| value.split(' ').next()?.parse().ok());
    kib.context("reading the server's resident memory")
}

/// The cores this process may run on, as the kernel writes them.
pub(crate) fn own_cores() -> anyhow::Result<String> {
    let status = read_status(std::process::id())?;
    Ok(field(&status, "Cpus_allowed_list").context("reading the allowed cores")?.to_owned())
}

/// Soft and hard limit of open files of this process.
pub(crate) fn own_file_limits() -> anyhow::Result<(u64, u64)> {
    let limits = fs::read_to_string("/proc/self/limits").context("reading /proc/self/limits")?;
    parse_file_limits(&limits).context("reading the limit of open files")
}

/// Whether every thread of a process is being traced.
pub(crate) fn is_traced(pid: u32) -> anyhow::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("the server is gone")? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        if field(&status, "TracerPid") == Some("0") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_status(pid: u32) -> anyhow::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn parse_cpu_seconds(stat: &str) -> Option<f64> {
    // The command's name may hold spaces and parentheses; the fields start after its last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn parse_core_seconds(stat: &str, core: usize) -> Option<f64> {
    let name = format!("cpu{core} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|tick| tick.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; idle and iowait are not work.
    let busy = ticks.iter().take(8).sum::<f64>() - ticks.get(3)? - ticks.get(4)?;
    Some(busy / TICKS_PER_SECOND)
}

fn parse_file_limits(limits: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut values = line.split_whitespace().map(|value| value.parse().unwrap_or(u64::MAX));
    Some((values.next()?, values.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_plus_system_whatever_the_name_holds() {
        let stat = "7 (a) b c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 5 1 2";
        assert_eq!(parse_cpu_seconds(stat), Some(2.0));
    }

    #[test]
    fn a_core_is_busy_with_all_but_idling() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 50 9000 800 0 25 25 0 0\n";
        assert_eq!(parse_core_seconds(stat, 0), Some(2.0));
        assert_eq!(parse_core_seconds(stat, 1), None);
    }

    #[test]
    fn file_limits_may_be_unlimited() {
        let limits = "Limit  Soft  Hard  Units\nMax open files   1024   unlimited   files\n";
        assert_eq!(parse_file_limits(limits), Some((1024, u64::MAX)));
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= 0.0 && resident_kib(pid).unwrap() > 0.0);
        assert!(core_seconds(0).unwrap() > 0.0 && !own_cores().unwrap().is_empty());
        assert!(own_file_limits().unwrap().0 > 0 && !is_traced(pid).unwrap());
    }
}
