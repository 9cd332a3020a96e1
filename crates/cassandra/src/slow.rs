//! A node that is slow: a thread stops it (`SIGSTOP`) and lets it go on, by turns.
//!
//! A delay of the network (`tc netem`) would be another way, and needs a module that many kernels lack.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The time for which the node runs, and for which it is stopped.
const RUNS: Duration = Duration::from_millis(10);
const STOPS: Duration = Duration::from_millis(190);

/// A node that is slow until this is dropped.
#[derive(Debug)]
pub struct Slow {
    is_over: Arc<AtomicBool>,
    turns: Option<JoinHandle<()>>,
}

impl Slow {
    pub(crate) fn of(pid: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let pid = Pid::from_raw(pid.try_into().expect("the kernel has smaller numbers of processes"));
        let turns = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // A node that has ended needs no signal.
                let _ = kill(pid, Signal::SIGSTOP);
                sleep(STOPS);
                let _ = kill(pid, Signal::SIGCONT);
                sleep(RUNS);
            }
        });
        Self { is_over, turns: Some(turns) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(turns) = self.turns.take() {
            // The thread cannot panic.
            let _ = turns.join();
        }
    }
}
