//! CPU time and memory of a process, and the CPU time that a host took from the machine, from `/proc`.

use std::fs;
use std::time::Duration;

use crate::error::{Result, at};

/// Clock ticks per second in `/proc`; fixed on Linux.
const TICKS_PER_S: u64 = 100;

/// CPU time and memory of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads, ended ones included, to 10 ms.
    pub cpu: Duration,
    /// Maximum of the resident memory, mapped files included.
    pub resident_bytes_max: u64,
    /// Resident memory, mapped files included.
    pub resident_bytes: u64,
    /// Resident memory without mapped files, which the kernel cannot reclaim.
    pub own_bytes: u64,
}

impl Usage {
    /// Resets [`Self::resident_bytes_max`] of a process to what it has now.
    pub fn reset_memory_peak(pid: u32) -> Result<()> {
        let path = format!("/proc/{pid}/clear_refs");
        Ok(fs::write(&path, "5").map_err(at(&path))?)
    }

    /// Reads `/proc/PID`. For a process that has ended and was not waited for, only the CPU time is known.
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

/// Returns the CPU time that the host of a virtual machine has given to others, of all processors since the machine
/// started, to 10 ms (`steal` in `proc_stat(5)`); zero on a machine without a host.
///
/// Latencies that were measured while it grew are the host's in part.
///
/// # Errors
/// `/proc/stat` cannot be read.
pub fn stolen_cpu() -> Result<Duration> {
    let path = "/proc/stat";
    Ok(stolen(&fs::read_to_string(path).map_err(at(path))?))
}

/// Returns the CPU time of all threads of this process, ended ones included, to the nanosecond.
pub fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a clock of time spent is never negative")
}

/// Returns the CPU time of the calling thread, to the nanosecond.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a clock of time spent is never negative")
}

/// Returns the CPU time of the threads of a process that have a name, by the nanosecond; `None` if none has it.
///
/// # Errors
/// The process has ended.
pub fn cpu_of_threads(pid: u32, name: &str) -> Result<Option<Duration>> {
    let tasks = format!("/proc/{pid}/task");
    let mut sum = None;
    for task in fs::read_dir(&tasks).map_err(at(&tasks))? {
        let task = task.map_err(at(&tasks))?.path();
        // A thread may end in between.
        let Ok(comm) = fs::read_to_string(task.join("comm")) else { continue };
        let Ok(schedstat) = fs::read_to_string(task.join("schedstat")) else { continue };
        let nanoseconds = schedstat.split_whitespace().next().and_then(|field| field.parse().ok());
        if let (true, Some(nanoseconds)) = (comm.trim_end() == name, nanoseconds) {
            sum = Some(sum.unwrap_or_default() + Duration::from_nanos(nanoseconds));
        }
    }
    Ok(sum)
}

/// Returns the sum of user and system time in a line of `stat`.
fn cpu(stat: &str) -> Duration {
    // The name in parentheses may contain anything; the numbers follow it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    time_of_ticks(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// Returns the stolen time in `/proc/stat`, whose first line is `cpu`, user, nice, system, idle, iowait, irq, softirq,
/// steal and more.
fn stolen(stat: &str) -> Duration {
    time_of_ticks(stat.split_whitespace().nth(8).and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Returns the time of clock ticks, as `/proc` counts them.
pub fn time_of_ticks(ticks: u64) -> Duration {
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
    fn stolen_time_is_that_of_all_processors() {
        let stat =
            "cpu  2952839 568380 495577 1528478 62491 0 79019 44730 0 0\ncpu0 1497670 270708 247104 823753 0 0 0 9";
        assert_eq!(stolen(stat), Duration::from_millis(447_300));
        assert_eq!(stolen("cpu  1 2 3 4"), Duration::ZERO);
        let before = stolen_cpu().unwrap();
        assert!(before <= stolen_cpu().unwrap());
    }

    #[test]
    fn processor_time_of_a_thread_is_its_own() {
        let spin = || {
            let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            while Duration::try_from(spent()).unwrap() < Duration::from_millis(5) {}
            cpu_of_threads(std::process::id(), "spinning").unwrap()
        };
        let spent = std::thread::Builder::new().name("spinning".to_owned()).spawn(spin).unwrap().join().unwrap();
        assert!(spent.is_some_and(|spent| spent > Duration::from_millis(1)), "{spent:?}");
        assert_eq!(cpu_of_threads(std::process::id(), "not there").unwrap(), None);
    }

    #[test]
    fn own_processor_time_moves_by_less_than_a_tick() {
        let tick = Duration::from_millis(1000 / TICKS_PER_S);
        let step = || {
            let began = own_cpu();
            while own_cpu() == began {}
            own_cpu().saturating_sub(began)
        };
        // Other tests of this process may spend more in between.
        assert!((0..1000).any(|_| step() < tick));
        assert!(Usage::of(std::process::id()).unwrap().cpu <= own_cpu() + tick);
    }

    #[test]
    fn this_process_holds_memory_of_its_own() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.own_bytes > 0 && usage.own_bytes <= usage.resident_bytes, "{usage:?}");
        assert!(usage.resident_bytes <= usage.resident_bytes_max, "{usage:?}");
    }
}
