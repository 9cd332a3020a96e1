//! The choice of what a merge takes. Pure.

use crate::rows::pack::{Delta, Pack};
use crate::txnum::TxNum;

/// Packs of a ready index: a lookup reads one bucket of each.
pub(crate) const PACKS_MAX: usize = 4;
/// A merge takes an older pack, too, while that has less than this multiple of the transactions that it has already
/// taken. Each transaction is then rewritten a few times for each fourfold growth.
const GROWTH: u64 = 4;

/// The input of a merge: the newest packs and the oldest deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) packs: usize,
    pub(crate) deltas: usize,
}

/// Chooses the next merge; `None` while no delta is buried. `buried` is the first txnum of the blocks that a reorg may
/// replace, `stale` the first txnum in a pack that one did replace.
pub(crate) fn plan(packs: &[Pack], deltas: &[Delta], buried: TxNum, stale: Option<TxNum>) -> Option<Plan> {
    let buried_deltas = deltas.windows(2).take_while(|pair| pair[1].start <= buried).count();
    if buried_deltas == 0 {
        return None;
    }
    let mut taken = deltas[buried_deltas].start.0 - deltas[0].start.0;
    let mut left = packs.len();
    while let Some(next) = left.checked_sub(1).map(|index| packs[index]) {
        let txs = next.end.0 - next.start.0;
        let has_stale = stale.is_some_and(|stale| stale < next.end);
        if txs >= GROWTH * taken && left < PACKS_MAX && !has_stale {
            break;
        }
        taken += txs;
        left -= 1;
    }
    Some(Plan { packs: packs.len() - left, deltas: buried_deltas })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::KeyLength;

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

    fn chosen(ends: &[u64], starts: &[u64], buried: u64, stale: Option<u64>) -> Option<(usize, usize)> {
        let plan = plan(&packs(ends), &deltas(starts), TxNum(buried), stale.map(TxNum));
        plan.map(|plan| (plan.packs, plan.deltas))
    }

    #[test]
    fn only_buried_deltas_are_merged_and_never_the_one_that_grows() {
        assert_eq!(chosen(&[], &[0], 1000, None), None);
        assert_eq!(chosen(&[], &[0, 10, 20], 9, None), None);
        assert_eq!(chosen(&[], &[0, 10, 20], 10, None), Some((0, 1)));
        assert_eq!(chosen(&[], &[0, 10, 20], 1000, None), Some((0, 2)));
    }

    #[test]
    fn packs_are_taken_while_they_are_not_much_larger() {
        assert_eq!(chosen(&[100], &[100, 110, 120], 110, None), Some((0, 1)));
        assert_eq!(chosen(&[300, 339], &[339, 349, 359], 349, None), Some((1, 1)));
        assert_eq!(chosen(&[100, 139], &[139, 149], 149, None), Some((2, 1)));
    }

    #[test]
    fn packs_stay_few_and_those_with_stale_transactions_are_taken() {
        assert_eq!(chosen(&[10_000, 12_000, 12_400, 12_480], &[12_480, 12_481, 12_482], 12_481, None), Some((1, 1)));
        assert_eq!(chosen(&[10_000, 12_000, 12_400], &[12_400, 12_401], 12_401, Some(12_100)), Some((1, 1)));
        assert_eq!(chosen(&[10_000, 12_000, 12_400], &[12_400, 12_401], 12_401, Some(9_000)), Some((3, 1)));
    }

    #[test]
    fn years_of_deltas_rewrite_each_transaction_a_few_times() {
        let (mut ends, mut at, mut written) = (vec![1_000_000_u64], 1_000_000, 0);
        for _ in 0..10_000 {
            let plan = plan(&packs(&ends), &deltas(&[at, at + 130]), TxNum(at + 130), None).expect("a buried delta");
            at += 130;
            ends.truncate(ends.len() - plan.packs);
            written += at - ends.last().copied().unwrap_or(0);
            ends.push(at);
            assert!(ends.len() <= PACKS_MAX, "{ends:?}");
        }
        let rewrites = written / (at - 1_000_000);
        assert!(rewrites < 40, "each transaction was written {rewrites} times");
    }
}
