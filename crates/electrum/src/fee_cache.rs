//! Cache of the node's fees: every wallet asks for the same ones.
//!
//! An answer is valid while the tip stays and for [`FRESH`]. The cache has as many entries as there are queries: the
//! targets and modes of `estimatefee`, and two more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::answer::Fees;
use crate::request::FeeQuery;

/// Time for which an answer is valid. The mempool's own minimum moves within a block.
const FRESH: Duration = Duration::from_secs(5);

/// Answers by query.
#[derive(Debug, Default)]
pub(crate) struct FeeCache {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Tip at which the node gave the answers; `None` before the index is built.
    tip: Option<BlockHash>,
    answers: HashMap<FeeQuery, (Fees, Instant)>,
}

impl FeeCache {
    /// Returns the node's answer at this tip, if it is younger than [`FRESH`].
    pub(crate) fn get(&self, query: FeeQuery, tip: Option<BlockHash>, now: Instant) -> Option<Fees> {
        let entries = self.entries.lock();
        let (fees, asked) = entries.answers.get(&query).filter(|_| entries.tip == tip)?;
        (now.saturating_duration_since(*asked) < FRESH).then_some(*fees)
    }

    /// Keeps the node's answer at this tip. A new tip drops the answers of the old one.
    pub(crate) fn put(&self, query: FeeQuery, tip: Option<BlockHash>, fees: Fees, now: Instant) {
        let mut entries = self.entries.lock();
        if entries.tip != tip {
            *entries = Entries { tip, answers: HashMap::new() };
        }
        entries.answers.insert(query, (fees, now));
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
        cache.put(FeeQuery::RelayFee, Some(tip(1)), fees, start);
        assert_eq!(cache.get(FeeQuery::RelayFee, Some(tip(1)), start), Some(fees));
        assert_eq!(cache.get(FeeQuery::RelayFee, Some(tip(1)), start + FRESH / 2), Some(fees));
        assert_eq!(cache.get(FeeQuery::RelayFee, Some(tip(1)), start + FRESH), None);
        assert_eq!(cache.get(FeeQuery::RelayFee, Some(tip(2)), start), None);
        assert_eq!(cache.get(FeeQuery::MempoolInfo, Some(tip(1)), start), None);
    }

    #[test]
    fn a_new_tip_forgets_all_answers_of_the_old_one() {
        let cache = FeeCache::default();
        let start = Instant::now();
        let estimate = |blocks| FeeQuery::EstimateFee { blocks, mode: None };
        cache.put(estimate(2), Some(tip(1)), Fees::One(None), start);
        cache.put(estimate(3), Some(tip(2)), Fees::One(None), start);
        assert_eq!(cache.get(estimate(2), Some(tip(2)), start), None);
        assert_eq!(cache.get(estimate(3), Some(tip(2)), start), Some(Fees::One(None)));
        assert_eq!(cache.entries.lock().answers.len(), 1);
    }
}
