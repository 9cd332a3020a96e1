//! CPU time in nanoseconds, from `/proc`, and the file cache.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// Returns the CPU time of all present threads of a process, in nanoseconds; threads that have ended do not count.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("failed to read a process that has ended")? {
        if let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) {
            nanoseconds +=
                stat.split_whitespace().next().context("failed to parse a line of schedstat")?.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Returns the CPU time of this thread.
pub(crate) fn cpu_of_thread() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = stat.split_whitespace().next().context("failed to parse a line of schedstat")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Drops the file cache of the whole machine.
///
/// # Errors
/// Without root rights.
pub(crate) fn drop_file_cache() -> Result<()> {
    ensure!(Command::new("sync").status()?.success(), "sync failed");
    fs::write("/proc/sys/vm/drop_caches", "3").context("failed to drop the file cache; run as root")
}
