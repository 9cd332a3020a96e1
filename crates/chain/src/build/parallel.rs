//! Work on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// Runs the same work on `threads` threads.
///
/// # Errors
/// The first error of a thread; [`Error::Cancelled`] only if no thread has another.
pub(crate) fn in_parallel(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let mut outcome = Ok(());
        for worker in workers {
            let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if outcome.is_ok() || matches!(outcome, Err(Error::Cancelled)) {
                outcome = done.and(outcome);
            }
        }
        outcome
    })
}

/// Runs `work` over stripes of `stripe` partitions each, on `threads` threads.
pub(super) fn in_stripes(
    threads: usize,
    partitions: usize,
    stripe: usize,
    work: impl Fn(Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    in_parallel(threads, || {
        loop {
            let start = next.fetch_add(stripe, Ordering::Relaxed);
            if start >= partitions {
                return Ok(());
            }
            let end = partitions.min(start + stripe);
            work(start..end).inspect_err(|_| next.store(partitions, Ordering::Relaxed))?;
        }
    })
}
