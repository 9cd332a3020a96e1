//! Gives other threads a processor, and other clients their turn, during long answers.
//!
//! The kernel puts a thread that wakes up behind one that works, if all processors are busy at that moment, and leaves
//! it there for milliseconds although another one becomes idle. So the threads that listen to clients waited for those
//! that read much, whatever was left free for them: a flood of long reads by one client on two processors raised the
//! p99 of all others from 0.3 to 1.3 ms with one thread of its own, and to 0.5 ms if that thread gives way.
//!
//! A long answer gives way at the first lookup, page of rows or step of a computation after 100 us. There its [`Pace`]
//! decides whether it goes on.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// Work before a thread gives way, at least: to give way takes 0.4 us if nobody waits.
const WORK: Duration = Duration::from_micros(100);
/// Work before a thread gives way again, at most: the slice of the kernel.
const WORK_MAX: Duration = Duration::from_millis(3);

/// The pace of a long answer: asked again and again while the answer is made, on its thread.
pub trait Pace {
    /// Returns when the answer may go on, which may be later; `Break` if it must end.
    fn step(&mut self) -> ControlFlow<()>;
}

/// Work that the budget does not cover, or that the pace has ended. The answer ends with
/// [`Error::Cancelled`](crate::Error::Cancelled).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverBudget;

thread_local! {
    /// Time from which this thread gives way; `None` outside of [`giving_way`].
    static DUE: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The pace of the answer, if it has one.
    static PACE: RefCell<Option<Rc<RefCell<dyn Pace>>>> = const { RefCell::new(None) };
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
    give_way_during(None, answer)
}

/// Makes an answer as [`giving_way`] does, and asks its pace each time if it may go on. When it may not, every further
/// read and step of it fails with [`Error::Cancelled`](crate::Error::Cancelled).
pub fn paced<T>(pace: Rc<RefCell<dyn Pace>>, answer: impl FnOnce() -> T) -> T {
    give_way_during(Some(pace), answer)
}

fn give_way_during<T>(pace: Option<Rc<RefCell<dyn Pace>>>, answer: impl FnOnce() -> T) -> T {
    /// Ends it also after a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            DUE.set(None);
            PACE.set(None);
        }
    }
    DUE.set(Some(Instant::now() + WORK));
    PACE.set(pace);
    let _end = End;
    answer()
}

/// Gives way, if it is due.
///
/// # Errors
/// The pace ends the answer.
pub(crate) fn give_way() -> Result<(), OverBudget> {
    let Some(due) = DUE.get() else { return Ok(()) };
    let now = Instant::now();
    if now < due {
        return Ok(());
    }
    thread::yield_now();
    #[cfg(test)]
    TIMES.set(TIMES.get() + 1);
    let away = Instant::now().saturating_duration_since(now);
    let pace = PACE.with_borrow(Clone::clone);
    if let Some(pace) = pace
        && pace.borrow_mut().step().is_break()
    {
        return Err(OverBudget);
    }
    DUE.set(Some(Instant::now() + work_due(away)));
    Ok(())
}

/// Returns how long a thread works after it was away for so long.
fn work_due(away: Duration) -> Duration {
    away.clamp(WORK, WORK_MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A pace that ends after a number of steps.
    struct Steps(u32);

    impl Pace for Steps {
        fn step(&mut self) -> ControlFlow<()> {
            match self.0.checked_sub(1) {
                Some(left) => self.0 = left,
                None => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn an_answer_ends_with_its_pace_and_the_next_one_does_not() {
        let steps = Rc::new(RefCell::new(Steps(3)));
        paced(Rc::<RefCell<Steps>>::clone(&steps), || {
            while give_way().is_ok() {}
            assert_eq!((give_way(), steps.borrow().0), (Err(OverBudget), 0));
        });
        assert_eq!((TIMES.get(), give_way()), (5, Ok(())));
        assert_eq!(Rc::strong_count(&steps), 1);
    }

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
                    give_way().unwrap();
                }
                assert!(DUE.get() > before && before.is_some_and(|due| Instant::now() >= due));
                before = DUE.get();
            }
        });
        assert_eq!(TIMES.get(), 2);
        thread::sleep(WORK);
        give_way().unwrap();
        assert_eq!((DUE.get(), TIMES.get()), (None, 2));
    }
}
