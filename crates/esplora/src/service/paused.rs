//! Answers that gave their turns back and wait for others: few, for each keeps a thread and what it has read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The answers that wait, by the time that they have worked. Of too many, the one that has worked for longest ends.
#[derive(Debug)]
pub(crate) struct PausedAnswers {
    max: usize,
    arrivals: AtomicU64,
    waiting: Mutex<BTreeMap<Key, oneshot::Sender<()>>>,
}

/// Time worked, and a number that tells equal times apart.
type Key = (Duration, u64);

/// An answer that waits.
pub(crate) struct Paused<'a> {
    all: &'a PausedAnswers,
    key: Key,
    ended: oneshot::Receiver<()>,
}

impl PausedAnswers {
    /// Returns room for `max` answers.
    pub(super) fn new(max: usize) -> Self {
        Self { max, arrivals: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// Adds an answer that has worked for `worked`.
    pub(crate) fn enter(&self, worked: Duration) -> Paused<'_> {
        let key = (worked, self.arrivals.fetch_add(1, Ordering::Relaxed));
        let (end, ended) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        waiting.insert(key, end);
        if waiting.len() > self.max {
            // Dropping its sender ends it.
            waiting.pop_last();
        }
        Paused { all: self, key, ended }
    }

    /// Returns the number of answers that wait.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.waiting.lock().len()
    }
}

impl Paused<'_> {
    /// Waits until this answer must end.
    pub(crate) async fn ended(&mut self) {
        // Nothing is ever sent.
        drop((&mut self.ended).await);
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.all.waiting.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn of_too_many_answers_the_one_that_worked_longest_ends() {
        let paused = PausedAnswers::new(2);
        let mut waiting: Vec<_> = [30, 20].map(|ms| paused.enter(Duration::from_millis(ms))).into();
        let is_ended = |waiting: &mut Paused<'_>| waiting.ended().now_or_never().is_some();
        assert!(!waiting.iter_mut().any(is_ended));
        waiting.push(paused.enter(Duration::from_millis(10)));
        assert_eq!(waiting.iter_mut().map(is_ended).collect::<Vec<_>>(), [true, false, false]);
        let mut longest = paused.enter(Duration::from_millis(50));
        assert!(is_ended(&mut longest));
        assert_eq!(paused.len(), 2);
        drop(waiting);
        assert_eq!(paused.len(), 0);
    }
}
