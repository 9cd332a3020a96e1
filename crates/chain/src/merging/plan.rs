//! The choice of what a merge takes. Pure.

use crate::names::TxNum;
use crate::rows::{Delta, PACK_SLOTS, Pack};

/// Packs of a ready index: a lookup reads one bucket of each.
pub(super) const PACKS_MAX: usize = 4;
/// Packs of an index that is far behind. The next pack needs a free slot.
const PACKS_BEHIND_MAX: usize = PACK_SLOTS - 2;

/// A merge takes an older pack, too, while that has less than a multiple of the transactions that it has already taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    newer: u64,
    /// The multiple for the oldest pack, which is most of the index.
    oldest: u64,
    packs_max: usize,
    /// True if no pack is taken before there are as many.
    is_patient: bool,
}

impl Growth {
    /// At the tip. Each transaction is rewritten a few times for each fourfold growth.
    pub(crate) const fn at_tip(oldest: u64) -> Self {
        Self { newer: 4, oldest, packs_max: PACKS_MAX, is_patient: false }
    }

    /// While the index is far behind, where the next pack follows at once. The packs of a week are written once or
    /// twice, those of a year six times.
    pub(crate) const BEHIND: Self = Self { newer: 2, oldest: 1, packs_max: PACKS_BEHIND_MAX, is_patient: true };
}

/// The input of a merge: the newest packs and the oldest deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) packs: usize,
    pub(crate) deltas: usize,
}

/// The part of the index that a merge may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The first txnum of the blocks that a reorg may replace.
    pub(crate) buried: TxNum,
    /// The first txnum in a pack that a reorg did replace.
    pub(crate) stale: Option<TxNum>,
    /// True if the disk has room for a second copy of the oldest pack, which is most of the index.
    pub(crate) may_take_oldest: bool,
}

/// Chooses the next merge; `None` while no delta is buried and packs are few, or where the oldest pack must be taken
/// and may not be.
pub(crate) fn plan(packs: &[Pack], deltas: &[Delta], growth: Growth, bounds: Bounds) -> Option<Plan> {
    let buried_deltas = deltas.windows(2).take_while(|pair| pair[1].start <= bounds.buried).count();
    // An index that was far behind has more packs.
    if buried_deltas == 0 && packs.len() <= growth.packs_max {
        return None;
    }
    let taken = deltas[buried_deltas].start.0 - deltas[0].start.0;
    Some(Plan { packs: packs_taken(packs, taken, growth, bounds)?, deltas: buried_deltas })
}

/// Chooses how many of the newest packs a merge takes that has `taken` transactions without them; `None` where the
/// oldest pack must be taken and may not be.
fn packs_taken(packs: &[Pack], mut taken: u64, growth: Growth, bounds: Bounds) -> Option<usize> {
    let Bounds { stale, may_take_oldest, .. } = bounds;
    if growth.is_patient && packs.len() < growth.packs_max && stale.is_none() {
        return Some(0);
    }
    let mut left = packs.len();
    while let Some(next) = left.checked_sub(1).map(|index| packs[index]) {
        let txs = next.end.0 - next.start.0;
        let has_stale = stale.is_some_and(|stale| stale < next.end);
        let is_oldest = left == 1;
        let multiple = if is_oldest { growth.oldest } else { growth.newer };
        if txs >= multiple * taken && left < growth.packs_max && !has_stale {
            break;
        }
        if is_oldest && !may_take_oldest {
            if has_stale {
                return None;
            }
            break;
        }
        taken += txs;
        left -= 1;
    }
    Some(packs.len() - left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::KeyLength;

    fn packs(ends: &[u64]) -> Vec<Pack> {
        let starts = std::iter::once(&0).chain(ends);
        let pack = |(start, end): (&u64, &u64)| Pack {
            slot: 0,
            key_length: KeyLength::Narrow,
            script_bits: 0,
            txnum_bits: 0,
            start: TxNum(*start),
            end: TxNum(*end),
            scripts: 0,
        };
        starts.zip(ends).map(pack).collect()
    }

    fn deltas(starts: &[u64]) -> Vec<Delta> {
        starts.iter().map(|start| Delta { slot: 0, start: TxNum(*start) }).collect()
    }

    fn bounds(buried: u64, stale: Option<u64>) -> Bounds {
        Bounds { buried: TxNum(buried), stale: stale.map(TxNum), may_take_oldest: true }
    }

    fn chosen_within(ends: &[u64], starts: &[u64], bounds: Bounds) -> Option<(usize, usize)> {
        plan(&packs(ends), &deltas(starts), Growth::at_tip(128), bounds).map(|plan| (plan.packs, plan.deltas))
    }

    fn chosen(ends: &[u64], starts: &[u64], buried: u64, stale: Option<u64>) -> Option<(usize, usize)> {
        chosen_within(ends, starts, bounds(buried, stale))
    }

    #[test]
    fn only_buried_deltas_are_merged_and_never_the_one_that_grows() {
        assert_eq!(chosen(&[], &[0], 1000, None), None);
        assert_eq!(chosen(&[], &[0, 10, 20], 9, None), None);
        assert_eq!(chosen(&[], &[0, 10, 20], 10, None), Some((0, 1)));
        assert_eq!(chosen(&[], &[0, 10, 20], 1000, None), Some((0, 2)));
    }

    #[test]
    fn packs_of_an_index_that_was_far_behind_are_merged_without_a_buried_delta() {
        let ends = [90_000, 90_010, 90_020, 90_030, 90_040];
        assert_eq!(chosen(&ends[..4], &[90_030], 0, None), None);
        assert_eq!(chosen(&ends, &[90_040], 0, None), Some((4, 0)));
        assert_eq!(chosen(&[9000, 9200, 9220, 9230, 9240], &[9240], 0, None), Some((3, 0)));
        assert_eq!(chosen(&[90, 100, 110, 120, 130], &[130], 0, None), Some((5, 0)));
    }

    #[test]
    fn packs_are_taken_while_they_are_not_much_larger() {
        assert_eq!(chosen(&[1280], &[1280, 1290, 1300], 1290, None), Some((0, 1)));
        assert_eq!(chosen(&[1279], &[1279, 1289, 1299], 1289, None), Some((1, 1)));
        assert_eq!(chosen(&[9000, 9039], &[9039, 9049, 9059], 9049, None), Some((1, 1)));
        assert_eq!(chosen(&[700, 739], &[739, 749], 749, None), Some((2, 1)));
        assert_eq!(chosen(&[900, 940], &[940, 950], 950, None), Some((0, 1)));
    }

    #[test]
    fn the_oldest_pack_is_left_where_the_disk_has_no_room_for_another() {
        let scarce = |stale| Bounds { may_take_oldest: false, ..bounds(749, stale) };
        assert_eq!(chosen_within(&[700, 739], &[739, 749], scarce(None)), Some((1, 1)));
        assert_eq!(chosen_within(&[700, 739], &[739, 749], scarce(Some(720))), Some((1, 1)));
        assert_eq!(chosen_within(&[700, 739], &[739, 749], scarce(Some(600))), None, "rows of stale blocks would stay");
    }

    #[test]
    fn packs_stay_few_and_those_with_stale_transactions_are_taken() {
        assert_eq!(chosen(&[10_000, 12_000, 12_400, 12_480], &[12_480, 12_481, 12_482], 12_481, None), Some((1, 1)));
        assert_eq!(chosen(&[10_000, 12_000, 12_400], &[12_400, 12_401], 12_401, Some(12_100)), Some((1, 1)));
        assert_eq!(chosen(&[10_000, 12_000, 12_400], &[12_400, 12_401], 12_401, Some(9_000)), Some((3, 1)));
    }

    #[test]
    fn packs_of_an_index_far_behind_are_rewritten_seldom() {
        for (bulks, rewrites_max) in [(7, 2), (50, 5), (400, 12)] {
            let (mut ends, mut at, mut written) = (vec![1_000_000_u64], 1_000_000, 0);
            for _ in 0..bulks {
                at += 1000;
                let taken =
                    packs_taken(&packs(&ends), 1000, Growth::BEHIND, bounds(0, None)).expect("nothing is stale");
                ends.truncate(ends.len() - taken);
                written += at - ends.last().copied().unwrap_or(0);
                ends.push(at);
                assert!(ends.len() <= PACKS_BEHIND_MAX, "{ends:?}");
            }
            let rewrites = written / (at - 1_000_000);
            assert!(rewrites <= rewrites_max, "of {bulks}, each transaction was written {rewrites} times");
        }
    }

    #[test]
    fn a_year_of_deltas_rewrites_the_oldest_pack_once_a_month() {
        let (mut ends, mut at, mut written) = (vec![1_000_000_u64], 1_000_000, 0);
        for _ in 0..1_000 {
            let (packs, deltas) = (packs(&ends), deltas(&[at, at + 130]));
            let plan = plan(&packs, &deltas, Growth::at_tip(128), bounds(at + 130, None)).expect("a buried delta");
            at += 130;
            ends.truncate(ends.len() - plan.packs);
            written += at - ends.last().copied().unwrap_or(0);
            ends.push(at);
            assert!(ends.len() <= PACKS_MAX, "{ends:?}");
        }
        assert!(written < 16 * at, "{written} transactions were written, of {at}");
    }
}
