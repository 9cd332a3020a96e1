//! What processes use, from `/proc`.

use std::fs;
use std::time::Duration;

use crate::error::{Result, at};

/// Clock ticks per second in `/proc`: fixed on Linux.
pub const TICKS_PER_S: u64 = 100;

/// What one process has used, and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads, of ended ones too, to 10 ms.
    pub cpu: Duration,
    /// The most memory that it held, mapped files too.
    pub resident_bytes_max: u64,
    /// Memory that it holds, mapped files too.
    pub resident_bytes: u64,
    /// Of that, what is no mapped file: memory that nobody can take back.
    pub own_bytes: u64,
}

impl Usage {
    /// Reads `/proc/PID`. Of a process that has ended and was not reaped, only its processor time is known.
    pub fn of(pid: u32) -> Result<Self> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path).map_err(at(&path))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        let kib = |field: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            value.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
        };
        Ok(Self {
            cpu: cpu(&stat),
            resident_bytes_max: kib("VmHWM") * 1024,
            resident_bytes: kib("VmRSS") * 1024,
            own_bytes: kib("RssAnon") * 1024,
        })
    }
}

/// User and system time of a line of `stat`.
fn cpu(stat: &str) -> Duration {
    // The name in parentheses may hold anything; the numbers come after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_S)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_that_looks_like_numbers() {
        let stat = "7 (a) 1 2 (b) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 0 0 20 0";
        assert_eq!(cpu(stat), Duration::from_millis(1750));
    }

    #[test]
    fn this_process_holds_memory_of_its_own() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.own_bytes > 0 && usage.own_bytes <= usage.resident_bytes, "{usage:?}");
        assert!(usage.resident_bytes <= usage.resident_bytes_max, "{usage:?}");
    }
}
