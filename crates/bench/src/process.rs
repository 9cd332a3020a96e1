//! What another process has used, from `/proc`; and the file cache.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// CPU seconds and the most memory held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_bytes: u64,
}

/// Clock ticks per second in `/proc`: fixed on Linux.
const TICKS_PER_S: f64 = 100.0;

/// Reads `/proc/<pid>`.
pub(crate) fn used(pid: u32) -> Result<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    // The name in parentheses may hold anything; the numbers come after it.
    let fields: Vec<&str> = stat.rsplit_once(')').context("a stat line")?.1.split_whitespace().collect();
    let ticks = |index: usize| -> Result<f64> { Ok(fields.get(index).context("a stat line")?.parse()?) };
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = peak.context("VmHWM")?.trim().trim_end_matches(" kB").parse()?;
    Ok(Used { cpu_s: (ticks(11)? + ticks(12)?) / TICKS_PER_S, peak_rss_bytes: kib * 1024 })
}

/// CPU time of all threads that a process has now, to the nanosecond; of one that ended meanwhile nothing is known.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        if let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) {
            nanoseconds += stat.split_whitespace().next().context("a schedstat line")?.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Memory that a process holds now.
pub(crate) fn rss_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(rss.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// Drops the file cache of the whole machine. Needs root.
pub(crate) fn drop_file_cache() -> Result<()> {
    ensure!(Command::new("sync").status()?.success(), "sync failed");
    fs::write("/proc/sys/vm/drop_caches", "3").context("dropping the file cache needs root")
}

/// CPU seconds of this process, all threads together.
pub(crate) fn cpu_of_this() -> Result<f64> {
    Ok(used(std::process::id())?.cpu_s)
}
