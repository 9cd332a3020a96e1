//! Processes and threads of a benchmark that stand for other machines.
//!
//! Clients and server share one machine here. So that a client waits for the server alone, and no client takes a
//! processor that the server would have, honest clients run before any other program, and hostile ones when nothing
//! else does.

use std::process::{Command, Stdio};
use std::thread;

/// Arguments of `chrt` for `SCHED_IDLE`: any other process takes the processor at once, and not after a slice of 3 ms,
/// as from a process of the lowest priority.
pub const ONLY_WHEN_IDLE: [&str; 2] = ["--idle", "0"];

/// Lets this thread run as soon as it is ready. Returns false if this user may not do that: the thread then waits like
/// any other for a processor that the server keeps busy.
pub fn run_at_once() -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut command = Command::new("chrt");
    command.args(["--fifo", "--pid", "1", &thread]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the sentence of a table on the priorities of its clients.
pub fn meaning() -> &'static str {
    if thread::spawn(run_at_once).join().unwrap_or(false) {
        "The honest clients run as soon as they are ready, and the attackers only on idle processors."
    } else {
        "The attackers run only on idle processors; the honest clients wait for a processor like any other program, \
         for only root may let them run at once."
    }
}
