//! Fees that the node has said, kept while the tip stays, and for some seconds: every wallet asks for the same ones.
//!
//! There are as many entries as there are questions: the targets and modes of `estimatefee`, and two more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bitcoin::BlockHash;

use crate::request::FeeMode;
use crate::response::{Answer, MempoolFees};

/// How long an answer of the node is passed on. The mempool's own minimum moves within a block.
const FRESH: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    Estimate { blocks: u16, mode: Option<FeeMode> },
    Relay,
    Mempool,
}

/// What the node can say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fees {
    /// BTC/kvB; `None` when the node has no estimate.
    One(Option<f64>),
    Mempool(MempoolFees),
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct FeeCache {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Of the tip under which they were asked; none before the index is built.
    tip: Option<BlockHash>,
    answers: HashMap<Question, (Fees, Instant)>,
}

impl From<Fees> for Answer {
    fn from(fees: Fees) -> Self {
        match fees {
            Fees::One(fee) => Self::Fee(fee),
            Fees::Mempool(fees) => Self::MempoolFees(fees),
        }
    }
}

impl FeeCache {
    /// What the node said under this tip not long before `now`.
    pub(crate) fn get(&self, question: Question, tip: Option<BlockHash>, now: Instant) -> Option<Fees> {
        let kept = self.kept();
        let (fees, asked) = kept.answers.get(&question).filter(|_| kept.tip == tip)?;
        (now.saturating_duration_since(*asked) < FRESH).then_some(*fees)
    }

    /// Keeps what the node says under this tip.
    pub(crate) fn put(&self, question: Question, tip: Option<BlockHash>, fees: Fees, now: Instant) {
        let mut kept = self.kept();
        if kept.tip != tip {
            *kept = Kept { tip, answers: HashMap::new() };
        }
        kept.answers.insert(question, (fees, now));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Every change is one step: a panic elsewhere leaves it whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::Hash as _;

    fn tip(number: u8) -> BlockHash {
        BlockHash::from_byte_array([number; 32])
    }

    #[test]
    fn an_answer_is_kept_for_its_tip_and_its_time() {
        let cache = FeeCache::default();
        let start = Instant::now();
        let fees = Fees::One(Some(0.0001));
        cache.put(Question::Relay, Some(tip(1)), fees, start);
        assert_eq!(cache.get(Question::Relay, Some(tip(1)), start), Some(fees));
        assert_eq!(cache.get(Question::Relay, Some(tip(1)), start + FRESH / 2), Some(fees));
        assert_eq!(cache.get(Question::Relay, Some(tip(1)), start + FRESH), None);
        assert_eq!(cache.get(Question::Relay, Some(tip(2)), start), None);
        assert_eq!(cache.get(Question::Mempool, Some(tip(1)), start), None);
    }

    #[test]
    fn a_new_tip_forgets_all_answers_of_the_old_one() {
        let cache = FeeCache::default();
        let start = Instant::now();
        let estimate = |blocks| Question::Estimate { blocks, mode: None };
        cache.put(estimate(2), Some(tip(1)), Fees::One(None), start);
        cache.put(estimate(3), Some(tip(2)), Fees::One(None), start);
        assert_eq!(cache.get(estimate(2), Some(tip(2)), start), None);
        assert_eq!(cache.get(estimate(3), Some(tip(2)), start), Some(Fees::One(None)));
        assert_eq!(cache.kept().answers.len(), 1);
    }
}
