//! The kinds of questions that took longest, for the operator: shapes without arguments, in a table of fixed size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Kinds in the table. A slower kind displaces the one whose longest question is shortest.
const KINDS_MAX: usize = 32;
/// Time after which a kind is forgotten, unless it has come again.
const KEPT: Duration = Duration::from_hours(1);
/// Characters of a shape; a REQ of many filters may have more.
const SHAPE_CHARS_MAX: usize = 120;

/// The slowest kinds of questions.
#[derive(Debug, Default)]
pub struct Slowest {
    kinds: Mutex<Vec<(SlowKind, Instant)>>,
    /// Microseconds that a question must take to enter the full table.
    floor_us: AtomicU64,
}

/// A kind of question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowKind {
    /// Its name, or the number of values of each sort in it; never a value.
    pub shape: String,
    /// Questions of this shape that took longer than a tenth of a millisecond.
    pub count: u64,
    /// Time of these questions.
    pub total: Duration,
    /// Time of the longest.
    pub longest: Duration,
}

impl Slowest {
    /// Questions that take less are not recorded.
    pub const SLOW_MIN: Duration = Duration::from_micros(100);

    /// Records a question that took this time.
    pub fn record(&self, took: Duration, now: Instant, shape: impl FnOnce() -> String) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if took < Self::SLOW_MIN || us < self.floor_us.load(Ordering::Relaxed) {
            return;
        }
        let mut shape = shape();
        if shape.len() > SHAPE_CHARS_MAX {
            shape = shape.chars().take(SHAPE_CHARS_MAX).collect();
        }
        let mut kinds = self.kinds.lock();
        forget(&mut kinds, now);
        if let Some((kind, last)) = kinds.iter_mut().find(|(kind, _)| kind.shape == shape) {
            (kind.count, kind.total) = (kind.count + 1, kind.total + took);
            (kind.longest, *last) = (kind.longest.max(took), now);
        } else {
            kinds.push((SlowKind { shape, count: 1, total: took, longest: took }, now));
            kinds.sort_by_key(|(kind, _)| std::cmp::Reverse(kind.longest));
            kinds.truncate(KINDS_MAX);
        }
        let least = kinds.iter().map(|(kind, _)| kind.longest).min().unwrap_or_default();
        // A known kind that took less than the floor goes unrecorded while the table is full.
        let floor = if kinds.len() < KINDS_MAX { 0 } else { u64::try_from(least.as_micros()).unwrap_or(u64::MAX) };
        self.floor_us.store(floor, Ordering::Relaxed);
    }

    /// Returns the kinds of the last hour, the slowest first.
    pub fn list(&self, now: Instant) -> Vec<SlowKind> {
        let mut kinds = self.kinds.lock();
        forget(&mut kinds, now);
        if kinds.len() < KINDS_MAX {
            self.floor_us.store(0, Ordering::Relaxed);
        }
        let mut list: Vec<SlowKind> = kinds.iter().map(|(kind, _)| kind.clone()).collect();
        list.sort_by_key(|kind| std::cmp::Reverse(kind.longest));
        list
    }
}

/// Drops the kinds that have not come for [`KEPT`].
fn forget(kinds: &mut Vec<(SlowKind, Instant)>, now: Instant) {
    if let Some(forgotten) = now.checked_sub(KEPT) {
        kinds.retain(|(_, last)| *last > forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn record(slowest: &Slowest, shape: &str, took: Duration, now: Instant) {
        slowest.record(took, now, || shape.to_owned());
    }

    #[test]
    fn questions_of_one_shape_are_one_kind() {
        let (slowest, now) = (Slowest::default(), Instant::now());
        record(&slowest, "history", 2 * MS, now);
        record(&slowest, "balance", 3 * MS, now);
        record(&slowest, "history", 8 * MS, now);
        record(&slowest, "ping", MS / 100, now);
        let history = SlowKind { shape: "history".into(), count: 2, total: 10 * MS, longest: 8 * MS };
        let balance = SlowKind { shape: "balance".into(), count: 1, total: 3 * MS, longest: 3 * MS };
        assert_eq!(slowest.list(now), [history, balance]);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_slowest() {
        let (slowest, now) = (Slowest::default(), Instant::now());
        for number in 1..=100 {
            record(&slowest, &format!("kind {number}"), MS * number, now);
        }
        record(&slowest, "short", MS * 5, now);
        let list = slowest.list(now);
        assert_eq!((list.len(), list[0].shape.as_str()), (KINDS_MAX, "kind 100"));
        assert!(list.iter().all(|kind| kind.longest > MS * 68), "{list:?}");
        record(&slowest, &"x".repeat(10_000), MS * 1000, now);
        assert_eq!(slowest.list(now)[0].shape.len(), SHAPE_CHARS_MAX);
    }

    #[test]
    fn a_kind_that_does_not_come_again_is_forgotten() {
        let (slowest, now) = (Slowest::default(), Instant::now());
        for number in 1..=100 {
            record(&slowest, &format!("kind {number}"), MS * 1000, now);
        }
        assert_eq!(slowest.list(now + KEPT), []);
        record(&slowest, "history", MS, now + KEPT);
        assert_eq!(slowest.list(now + KEPT).len(), 1);
    }
}
