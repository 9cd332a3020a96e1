//! Processor time to the nanosecond, from `/proc`; and the file cache.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::usage::Usage;

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

/// Drops the file cache of the whole machine. Needs root.
pub(crate) fn drop_file_cache() -> Result<()> {
    ensure!(Command::new("sync").status()?.success(), "sync failed");
    fs::write("/proc/sys/vm/drop_caches", "3").context("dropping the file cache needs root")
}

/// CPU seconds of this process, all threads together.
pub(crate) fn cpu_of_this() -> Result<f64> {
    Ok(Usage::of(std::process::id())?.cpu.as_secs_f64())
}
