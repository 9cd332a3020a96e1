//! Gives other threads a processor during long reads.
//!
//! The kernel puts a thread that wakes up behind one that works, if all processors are busy at that moment, and leaves
//! it there for milliseconds although another one becomes idle. So the threads that listen to clients waited for those
//! that read much, whatever was left free for them: a flood of long reads by one client on two processors raised the
//! p99 of all others from 0.3 to 1.3 ms with one thread of its own, and to 0.5 ms if that thread gives way.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// Work before a thread gives way, at least: to give way takes 0.4 us if nobody waits.
const WORK: Duration = Duration::from_micros(100);
/// Work before a thread gives way again, at most: the slice of the kernel.
const WORK_MAX: Duration = Duration::from_millis(3);

thread_local! {
    /// Time from which this thread gives way; `None` outside of [`giving_way`].
    static DUE: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[cfg(test)]
thread_local! {
    /// Number of times that this thread gave way.
    static TIMES: Cell<u32> = const { Cell::new(0) };
}

/// Makes an answer on this thread, and gives the processor to a thread that waits for it at the first lookup or page of
/// rows after 100 us.
///
/// To be called once for each answer: when one call covered a batch of short answers, their replies left one by one,
/// which took a quarter more CPU time for pipelined histories.
///
/// A thread that gives way to a program that keeps the processor busy, such as a node that verifies blocks, gets it
/// back after a slice of 3 ms. It works as long before it gives way again, so it loses half of its time at most.
pub fn giving_way<T>(answer: impl FnOnce() -> T) -> T {
    /// Ends it also after a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            DUE.set(None);
        }
    }
    DUE.set(Some(Instant::now() + WORK));
    let _end = End;
    answer()
}

/// Gives way, if it is due.
pub(crate) fn give_way() {
    let Some(due) = DUE.get() else { return };
    let now = Instant::now();
    if now >= due {
        thread::yield_now();
        #[cfg(test)]
        TIMES.set(TIMES.get() + 1);
        let back = Instant::now();
        DUE.set(Some(back + work_due(back.saturating_duration_since(now))));
    }
}

/// Returns how long a thread works after it was away for so long.
fn work_due(away: Duration) -> Duration {
    away.clamp(WORK, WORK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_for_a_while_and_as_long_as_it_was_away() {
        assert_eq!(work_due(Duration::from_nanos(400)), WORK);
        assert_eq!(work_due(Duration::from_millis(2)), Duration::from_millis(2));
        assert_eq!(work_due(Duration::from_millis(80)), WORK_MAX);
    }

    #[test]
    fn a_thread_gives_way_again_and_again_during_long_work_and_not_after_it() {
        giving_way(|| {
            let mut before = DUE.get();
            for _ in 0..2 {
                while DUE.get() == before {
                    give_way();
                }
                assert!(DUE.get() > before && before.is_some_and(|due| Instant::now() >= due));
                before = DUE.get();
            }
        });
        assert_eq!(TIMES.get(), 2);
        thread::sleep(WORK);
        give_way();
        assert_eq!((DUE.get(), TIMES.get()), (None, 2));
    }
}
