//! Time and threads of an index: those of the machine, or those of a simulation.
//!
//! Whatever happens at the tip takes the time, pauses, and begins work on other threads through a [`Runtime`]. So a
//! test can decide when each step happens, and replay it.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Threads that work on one list. Disks answer deep queues faster than single requests.
const THREADS: usize = 8;
/// The longest sleep without a look at `stop`.
const NAP: Duration = Duration::from_millis(50);

/// Niceness of work beside the follower and the clients.
const NICENESS: i32 = 10;

/// Time and threads of an index.
pub trait Runtime: Debug + Send + Sync {
    /// Returns the time since a fixed moment.
    fn now(&self) -> Duration;
    /// Returns the time of day in seconds since 1970.
    fn unix_time(&self) -> u64;
    /// Sleeps for `pause`, or until `stop` is set.
    fn sleep(&self, pause: Duration, stop: &AtomicBool);
    /// Returns the number of threads that may wait for the disk or the node at once, the calling one included.
    fn threads(&self) -> usize;
    /// Begins `work` beside the caller, on a thread of this name and of a low priority.
    ///
    /// # Errors
    /// The system refuses another thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Spawned>>;
}

/// Work begun by [`Runtime::spawn`].
pub trait Spawned: Debug + Send {
    /// True once the work has ended.
    fn is_finished(&self) -> bool;
    /// Waits for the end of the work.
    ///
    /// # Errors
    /// The panic that ended it.
    fn join(self: Box<Self>) -> thread::Result<()>;
}

/// The clock and the threads of this machine.
#[derive(Debug)]
pub(crate) struct Machine {
    began: Instant,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Runtime for Machine {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn unix_time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    fn sleep(&self, pause: Duration, stop: &AtomicBool) {
        let began = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let left = pause.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }

    fn threads(&self) -> usize {
        THREADS
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Spawned>> {
        let work_gently = move || {
            // Linux changes the priority of the calling thread alone. Work is done at any priority.
            let _ = rustix::process::nice(NICENESS);
            work();
        };
        Ok(Box::new(thread::Builder::new().name(name.into()).spawn(work_gently)?))
    }
}

impl Spawned for JoinHandle<()> {
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn join(self: Box<Self>) -> thread::Result<()> {
        Self::join(*self)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// Field 19 of `/proc/thread-self/stat`; the second one is a name in parentheses.
    fn niceness() -> i32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn spawned_work_yields_to_the_rest_of_the_process() {
        const LOWEST: i32 = 19;
        let before = niceness();
        let (sender, receiver) = sync_channel(1);
        let work = Box::new(move || sender.send(niceness()).unwrap());
        Machine::new().spawn("work", work).unwrap().join().unwrap();
        assert_eq!(receiver.recv().unwrap(), LOWEST.min(before + NICENESS));
        assert_eq!(niceness(), before);
    }
}
