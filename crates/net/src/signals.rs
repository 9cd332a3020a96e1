//! Reasons for which one task is woken, each remembered until the task takes it.
//!
//! An idle connection waits for many things. A future of `tokio::sync::Notify` has a place of its own in a list of
//! waiting tasks, 64 bytes each; here a future is a reference, because there is one task.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Reasons to wake a task. One task at a time waits for them.
#[derive(Debug, Default)]
pub struct Signals {
    raised: AtomicU8,
    waiting: Mutex<Option<Waker>>,
}

/// One of the reasons of [`Signals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(u8);

impl Reason {
    /// The reason of signals that have one.
    pub const ONLY: Self = Self::number(0);

    /// Returns the reason of this number, which is below 8.
    pub const fn number(number: u8) -> Self {
        assert!(number < 8, "a reason is a bit");
        Self(1 << number)
    }
}

impl Signals {
    /// Wakes the task, now or when it waits for this reason.
    pub fn raise(&self, reason: Reason) {
        self.raised.fetch_or(reason.0, Ordering::AcqRel);
        let waiting = self.waiting.lock().take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Waits for a reason, and takes it. Dropping the future takes nothing.
    pub fn raised(&self, reason: Reason) -> impl Future<Output = ()> + Send + Unpin {
        poll_fn(move |context| self.poll_raised(reason, context))
    }

    fn poll_raised(&self, reason: Reason, context: &Context<'_>) -> Poll<()> {
        if self.take(reason) {
            return Poll::Ready(());
        }
        {
            let mut waiting = self.waiting.lock();
            if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(context.waker())) {
                *waiting = Some(context.waker().clone());
            }
        }
        // It may have been raised before the task could be woken.
        if self.take(reason) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn take(&self, reason: Reason) -> bool {
        let is_raised = |raised: u8| raised & reason.0 != 0;
        is_raised(self.raised.load(Ordering::Relaxed)) && is_raised(self.raised.fetch_and(!reason.0, Ordering::AcqRel))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use super::*;

    const ONE: Reason = Reason::number(1);
    const OTHER: Reason = Reason::number(7);

    #[tokio::test]
    async fn a_reason_is_remembered_and_taken_once() {
        let signals = Signals::default();
        signals.raise(ONE);
        signals.raise(ONE);
        let mut other = pin!(signals.raised(OTHER));
        assert!(poll_fn(|context| Poll::Ready(other.as_mut().poll(context))).await.is_pending());
        signals.raised(ONE).await;
        let mut again = pin!(signals.raised(ONE));
        assert!(poll_fn(|context| Poll::Ready(again.as_mut().poll(context))).await.is_pending());
        signals.raise(OTHER);
        other.await;
    }

    #[tokio::test]
    async fn a_task_that_waits_for_several_reasons_is_woken_by_each() {
        let signals = Arc::new(Signals::default());
        let waiting = Arc::clone(&signals);
        let task = tokio::spawn(async move {
            tokio::join!(waiting.raised(ONE), waiting.raised(OTHER));
        });
        for reason in [OTHER, ONE] {
            tokio::task::yield_now().await;
            assert!(!task.is_finished());
            signals.raise(reason);
        }
        assert!(task.await.is_ok());
    }

    #[test]
    fn no_wake_up_is_lost_between_threads() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let Ok(runtime) = runtime else { unreachable!("the system has threads") };
        let (there, back) = (Arc::new(Signals::default()), Arc::new(Signals::default()));
        let (heard, answered) = (Arc::clone(&there), Arc::clone(&back));
        let echo = runtime.spawn(async move {
            for _ in 0..10_000 {
                heard.raised(Reason::ONLY).await;
                answered.raise(Reason::ONLY);
            }
        });
        let calls = runtime.spawn(async move {
            for _ in 0..10_000 {
                there.raise(Reason::ONLY);
                back.raised(Reason::ONLY).await;
            }
        });
        assert!(runtime.block_on(async { tokio::join!(echo, calls) }).0.is_ok());
    }
}
