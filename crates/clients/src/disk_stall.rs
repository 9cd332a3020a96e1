//! Reads that waited for the disk: lately, on any thread of a server; and right now, on one thread.
//!
//! A read that waited for the disk differs from one that others kept from a processor or from a lock: a flood must not
//! look like a slow disk, or it would get the many threads that a slow disk needs. Those then wait for each other's
//! locks, which would look like a slow disk for as long as the flood lasts. So a wait counts if the thread read from
//! the disk meanwhile.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// A read that takes longer may have waited for the disk; a warm one takes a few microseconds.
const SLOW_READ: Duration = Duration::from_micros(150);
/// A long read that takes less has not waited for long, and the next ones need no threads that wait.
const LONG_READ: Duration = Duration::from_millis(2);
/// Time for which a read that waited counts. On a machine whose file cache is cold, each thread of the runtime then
/// blocks for at most one inline read a second.
const PAUSE: Duration = Duration::from_secs(1);

/// False where the kernel does not count a thread's reads from the disk (`CONFIG_TASK_IO_ACCOUNTING`): there every wait
/// counts.
static ARE_READS_COUNTED: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/thread-self/io").exists());

/// The last read that waited, for all clients of a server.
#[derive(Debug)]
pub struct DiskStall {
    since: Instant,
    /// The end of the pause, in microseconds after `since`.
    until_us: AtomicU64,
}

impl DiskStall {
    /// Returns the state before any stall.
    pub fn new(now: Instant) -> Self {
        Self { since: now, until_us: AtomicU64::new(0) }
    }

    /// Does a short read on this thread, and records it if it was slow and the thread waited for the disk.
    pub fn watch<T>(&self, read: impl FnOnce() -> T) -> T {
        let (began, waits) = (Instant::now(), Waits::of_this_thread());
        let answer = read();
        if began.elapsed() > SLOW_READ && Waits::of_this_thread().have_disk_since(waits) {
            self.record(Instant::now());
        }
        answer
    }

    /// Does a read of up to some milliseconds on this thread, and records it if [`ReadWatch`] says that it waited.
    pub fn watch_page<T>(&self, read: impl FnOnce() -> T) -> T {
        let mut watch = ReadWatch::begin();
        let answer = read();
        if watch.has_waited() {
            self.record(watch.began);
        }
        answer
    }

    /// Ends a read of any length that began on this thread, and records it if the thread waited for the disk and was
    /// away for most of the time.
    pub fn end_long(&self, began: &BegunRead) {
        let after = Times::of_this_thread();
        if after.were_mostly_away(&began.0) {
            self.record(after.at);
        }
    }

    /// Records that a read waited for the disk.
    pub fn record(&self, now: Instant) {
        self.until_us.store(self.us(now + PAUSE), Ordering::Relaxed);
    }

    /// Returns `true` for one second after a stall.
    pub fn is_recent(&self, now: Instant) -> bool {
        self.us(now) < self.until_us.load(Ordering::Relaxed)
    }

    fn us(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.since).as_micros()).unwrap_or(u64::MAX)
    }
}

/// Watches the reads of up to some milliseconds that a thread does one after the other.
#[derive(Debug)]
pub struct ReadWatch {
    /// The beginning of the read under way.
    began: Instant,
    /// The state at the end of the last slow read.
    sample: Sample,
}

/// Times of one thread, as far as they are cheap.
#[derive(Debug)]
struct Sample {
    at: Instant,
    worked: Duration,
    waits: Waits,
}

impl Sample {
    fn of_this_thread() -> Self {
        Self { at: Instant::now(), worked: worked(), waits: Waits::of_this_thread() }
    }
}

impl ReadWatch {
    /// Begins a read on this thread.
    pub fn begin() -> Self {
        let sample = Sample::of_this_thread();
        Self { began: sample.at, sample }
    }

    /// Ends a read, and begins the next one. Returns true if it was slow, and the thread waited for the disk and was
    /// away for most of the time.
    pub fn has_waited(&mut self) -> bool {
        let began = std::mem::replace(&mut self.began, Instant::now());
        let time = self.began - began;
        if time <= SLOW_READ {
            return false;
        }
        let before = std::mem::replace(&mut self.sample, Sample::of_this_thread());
        // Fast reads since the last slow one have worked nearly all of their time.
        let away = (self.sample.at - before.at).saturating_sub(self.sample.worked.saturating_sub(before.worked));
        self.sample.waits.have_disk_since(before.waits) && away * 2 > time
    }
}

/// Waits of one thread so far.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// Times that it has given up its processor by itself: to wait for a disk, a lock, or the node. A slow read during
    /// which it stays the same lost its processor to others, and waited for no disk.
    times: i64,
    /// Reads from the disk, by calls and by touching mapped files (`ru_inblock` and `ru_majflt` of getrusage(2)).
    disk_reads: i64,
}

impl Waits {
    fn of_this_thread() -> Self {
        getrusage(UsageWho::RUSAGE_THREAD).map_or(Self { times: 0, disk_reads: 0 }, |usage| Self {
            times: usage.voluntary_context_switches(),
            disk_reads: usage.block_reads() + usage.major_page_faults(),
        })
    }

    /// Returns true if the thread has waited since `before`, and has read from the disk, as far as that is counted.
    fn have_disk_since(self, before: Self) -> bool {
        self.times > before.times && (self.disk_reads > before.disk_reads || !*ARE_READS_COUNTED)
    }
}

/// Returns the time that this thread has had a processor.
fn worked() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The beginning of a read of any length.
#[derive(Debug)]
pub struct BegunRead(Times);

impl BegunRead {
    /// Begins a read on this thread.
    pub fn begin() -> Self {
        Self(Times::of_this_thread())
    }
}

/// Times of one thread.
#[derive(Debug, Clone, Copy)]
struct Times {
    at: Instant,
    /// Time on a processor.
    worked: Duration,
    /// Time in which it was ready and others had the processor.
    queued: Duration,
    waits: Waits,
}

impl Times {
    fn of_this_thread() -> Self {
        Self { at: Instant::now(), worked: worked(), queued: queued(), waits: Waits::of_this_thread() }
    }

    /// Returns true if the thread waited for the disk since `before`, and was away by itself for more than half of the
    /// time.
    fn were_mostly_away(&self, before: &Self) -> bool {
        let time = self.at.saturating_duration_since(before.at);
        let ready = self.worked.saturating_sub(before.worked) + self.queued.saturating_sub(before.queued);
        time > LONG_READ && ready * 2 < time && self.waits.have_disk_since(before.waits)
    }
}

/// Returns the time that this thread has waited for a processor: the second number of `/proc/thread-self/schedstat`
/// (Linux, `Documentation/scheduler/sched-stats.rst`), in nanoseconds. Zero where there is no such file.
fn queued() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let queued = times.split_whitespace().nth(1).and_then(|queued| queued.parse().ok());
    Duration::from_nanos(queued.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use birdhouse_testkit::slow_disk::read_slow_disk;

    use super::*;

    #[test]
    fn stall_is_remembered_for_the_pause() {
        let start = Instant::now();
        let stall = DiskStall::new(start);
        assert!(!stall.is_recent(start));
        let stalled = start + Duration::from_secs(5);
        stall.record(stalled);
        assert!(stall.is_recent(stalled));
        assert!(stall.is_recent(stalled + PAUSE.mul_f64(0.99)));
        assert!(!stall.is_recent(stalled + PAUSE));
    }

    #[test]
    fn a_long_read_waited_if_it_was_mostly_away_by_itself() {
        let (ms, at) = (Duration::from_millis, Instant::now());
        let before = Times { at, worked: ms(100), queued: ms(10), waits: Waits { times: 7, disk_reads: 80 } };
        let waited = |worked: u64, queued: u64| {
            let waits = Waits { times: 8, disk_reads: 88 };
            let after = Times { at: at + ms(8), worked: ms(100 + worked), queued: ms(10 + queued), waits };
            after.were_mostly_away(&before)
        };
        assert!(waited(1, 0) && waited(3, 0) && waited(0, 3), "the disk");
        assert!(!waited(1, 6) && !waited(0, 8), "others had the processor");
        assert!(!waited(7, 0), "a lock, for a moment");
    }

    fn is_stall(watch: fn(&DiskStall)) -> bool {
        let stall = DiskStall::new(Instant::now());
        watch(&stall);
        stall.is_recent(Instant::now())
    }

    #[test]
    fn a_read_that_waits_for_the_disk_is_a_stall() {
        assert!(is_stall(|stall| stall.watch(|| read_slow_disk(SLOW_READ * 10))));
        assert!(is_stall(|stall| stall.watch_page(|| read_slow_disk(SLOW_READ * 10))));
        let mut watch = ReadWatch::begin();
        read_slow_disk(SLOW_READ * 10);
        assert!(watch.has_waited() && !watch.has_waited(), "the next read has not begun to wait");
        // A thread that waits for a processor after its sleep was away by itself for a smaller part.
        assert!((0..50).any(|_| is_stall(|stall| {
            let began = BegunRead::begin();
            read_slow_disk(LONG_READ * 5);
            stall.end_long(&began);
        })));
    }

    #[test]
    fn a_read_that_waits_for_a_lock_is_no_stall() {
        assert!(!is_stall(|stall| stall.watch(|| sleep(SLOW_READ * 10))));
        assert!(!is_stall(|stall| stall.watch_page(|| sleep(SLOW_READ * 10))));
        assert!(!is_stall(|stall| {
            let began = BegunRead::begin();
            sleep(LONG_READ * 5);
            stall.end_long(&began);
        }));
    }
}
