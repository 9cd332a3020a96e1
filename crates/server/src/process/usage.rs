//! CPU time, memory and open files of this process.

use std::time::Duration;

use anyhow::Context as _;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use tikv_jemalloc_ctl::{epoch, stats};

/// Resources of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// CPU time of all threads.
    pub(crate) cpu: Duration,
    /// Largest resident memory so far.
    pub(crate) peak_rss_bytes: u64,
    /// Resident memory now.
    pub(crate) rss_bytes: u64,
    /// Memory that the allocator has given out and not got back, without what it keeps for later.
    pub(crate) allocated_bytes: u64,
    /// Open files and sockets.
    pub(crate) open_files: u64,
    /// The limit of open files.
    pub(crate) files_max: u64,
}

/// Reads the usage from the kernel.
pub(crate) fn now() -> anyhow::Result<Usage> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let kib = u64::try_from(usage.max_rss())?;
    Ok(Usage {
        cpu: duration(usage.user_time()) + duration(usage.system_time()),
        peak_rss_bytes: kib * 1024,
        rss_bytes: rss_bytes()?,
        allocated_bytes: allocated_bytes()?,
        open_files: u64::try_from(std::fs::read_dir("/proc/self/fd")?.count())?,
        files_max: getrlimit(Resource::RLIMIT_NOFILE)?.0,
    })
}

/// Reads `VmRSS` of `/proc/self/status`.
fn rss_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Asks the allocator.
fn allocated_bytes() -> anyhow::Result<u64> {
    // Its statistics are those of the last epoch.
    epoch::advance()?;
    Ok(stats::allocated::read()?.try_into()?)
}

fn duration(time: TimeVal) -> Duration {
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0)) + Duration::from_micros(micros)
}
