//! Ranking of search results. Pure.
//!
//! The score is BM25 (k1 = 1.2, b = 0.75, as in tantivy) times a weight of age. The weight is 1 for a new event and
//! falls towards a half; it is halfway there after 90 days. It never raises a score, so documents that BM25 prunes stay
//! pruned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::event::Seq;

const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Seconds after which the weight is halfway between 1 and a half.
const HALFWAY_SECONDS: f32 = 90.0 * 86_400.0;

/// Statistics of the words of a query.
#[derive(Debug, Clone)]
pub(super) struct Statistics {
    /// Words of an average event.
    pub(super) length: f32,
    /// Rarity of each word.
    pub(super) rarities: Vec<f32>,
}

/// Event found, with its score.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) score: f32,
    pub(super) seq: Seq,
}

/// The best events, up to a number of them.
#[derive(Debug)]
pub(super) struct Best {
    most: usize,
    /// The worst hit on top.
    hits: BinaryHeap<Worst>,
}

#[derive(Debug)]
struct Worst(Hit);

/// Returns the rarity of a word that `having` of `all` events contain.
pub(super) fn rarity(having: u64, all: u64) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "a score needs no exact count")]
    let (having, others) = (having as f32, all.saturating_sub(having) as f32);
    (1.0 + (others + 0.5) / (having + 0.5)).ln()
}

impl Statistics {
    /// Returns the score of an event with `length` words. `times` are the occurrences of each word of the query.
    pub(super) fn bm25(&self, length: usize, times: &[u32]) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a score needs no exact count")]
        let score = |(rarity, times): (&f32, &u32)| {
            let (times, length) = (*times as f32, length as f32);
            rarity * (1.0 + K1) * times / (times + K1 * (1.0 - B + B * length / self.length))
        };
        self.rarities.iter().zip(times).map(score).sum()
    }
}

/// Returns the weight of an event by its age. Events from the future count as new.
pub(super) fn weight(now: u32, created_at: u32) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "a score needs no exact count")]
    let age = now.saturating_sub(created_at) as f32;
    0.5 + 0.5 * (-age / HALFWAY_SECONDS).exp2()
}

// === impl Best ===

impl Best {
    pub(super) fn new(most: usize) -> Self {
        Self { most, hits: BinaryHeap::new() }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns the score that a further hit must exceed.
    pub(super) fn threshold(&self) -> f32 {
        if self.hits.len() < self.most { f32::MIN } else { self.hits.peek().map_or(f32::MAX, |worst| worst.0.score) }
    }

    pub(super) fn push(&mut self, hit: Hit) {
        if hit.score <= self.threshold() {
            return;
        }
        self.hits.push(Worst(hit));
        if self.hits.len() > self.most {
            self.hits.pop();
        }
    }

    /// Returns the hits, best first; of equal scores, the later event first.
    pub(super) fn into_sorted(self) -> Vec<Hit> {
        self.hits.into_sorted_vec().into_iter().map(|worst| worst.0).collect()
    }
}

// === impl Worst ===

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.score.total_cmp(&self.0.score).then(other.0.seq.cmp(&self.0.seq))
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Worst {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_stay_in_their_order() {
        let mut best = Best::new(3);
        for (score, seq) in [(1.0, 1), (5.0, 2), (3.0, 3), (4.0, 4), (5.0, 5), (0.5, 6)] {
            best.push(Hit { score, seq: Seq(seq) });
        }
        assert!((best.threshold() - 4.0).abs() < f32::EPSILON);
        assert_eq!(best.into_sorted().iter().map(|hit| hit.seq.0).collect::<Vec<_>>(), [5, 2, 4]);
        let mut none = Best::new(0);
        none.push(Hit { score: 1.0, seq: Seq(1) });
        assert!(none.into_sorted().is_empty());
    }

    #[test]
    fn rare_words_short_texts_and_new_events_rank_higher() {
        let statistics = Statistics { length: 10.0, rarities: vec![rarity(1, 100), rarity(90, 100)] };
        assert!(statistics.rarities[0] > statistics.rarities[1] && statistics.rarities[1] > 0.0);
        assert!(statistics.bm25(10, &[2, 1]) > statistics.bm25(10, &[1, 1]));
        assert!(statistics.bm25(5, &[1, 1]) > statistics.bm25(50, &[1, 1]));
        let day = 86_400;
        assert!((weight(5, 9) - 1.0).abs() < f32::EPSILON);
        assert!((weight(90 * day, 0) - 0.75).abs() < 1e-6);
        assert!(weight(u32::MAX, 0) >= 0.5);
    }
}
