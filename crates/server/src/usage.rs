//! What this process has used so far.

use std::time::Duration;

use anyhow::Context as _;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;

/// CPU time of all threads, memory and files held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) peak_rss_bytes: u64,
    /// Memory held now.
    pub(crate) rss_bytes: u64,
    /// Files and sockets that are open.
    pub(crate) open_files: u64,
}

/// Reads it from the kernel.
pub(crate) fn now() -> anyhow::Result<Usage> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let kib = u64::try_from(usage.max_rss())?;
    Ok(Usage {
        cpu: duration(usage.user_time()) + duration(usage.system_time()),
        peak_rss_bytes: kib * 1024,
        rss_bytes: rss_bytes()?,
        open_files: u64::try_from(std::fs::read_dir("/proc/self/fd")?.count())?,
    })
}

/// `VmRSS` of `/proc/self/status`.
fn rss_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel tells no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

fn duration(time: TimeVal) -> Duration {
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0)) + Duration::from_micros(micros)
}

/// Lets the process open as many files as the system allows: connections and table files count.
pub(crate) fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!(%error, soft, hard, "cannot raise the limit of open files");
    }
}
