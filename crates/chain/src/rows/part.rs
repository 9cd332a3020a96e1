//! The part of a script's history that one pack, or the rows of some blocks, hold. Pure.
//!
//! Parts of consecutive ranges of txnums add up: the history is all txnums, the unspent outputs are all outputs funded
//! less all outputs spent, and a balance is a sum that reads no unspent output. Nothing but the txnum of a funding
//! transaction is looked up in one part to write the next.

use crate::names::TxNum;
use crate::rows::recent::Recent;
use crate::rows::{Coin, TxOutNum};

/// A number of outputs and the sum of their values in satoshis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

/// The transactions of one script in a range of txnums, and what they fund and spend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The transactions that touch the script, ascending.
    pub(crate) txnums: Vec<TxNum>,
    /// Outputs funded in the range and not spent in it, ascending.
    pub(crate) coins: Vec<Coin>,
    /// Outputs funded before the range and spent in it, ascending.
    pub(crate) spends: Vec<Coin>,
    /// Outputs funded and spent in the range.
    pub(crate) inner: Tally,
    /// Leading transactions of `txnums` whose `inner` outputs are not counted: the oldest pack does not keep these
    /// counts for a script with few transactions, because the transactions themselves can be read.
    pub(crate) uncounted: u64,
}

/// The slices of a [`Part`] from which rows are made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartSlices<'a> {
    pub(crate) txnums: &'a [TxNum],
    pub(crate) coins: &'a [Coin],
    pub(crate) spends: &'a [Coin],
    pub(crate) inner: Tally,
}

impl Tally {
    pub(crate) fn of(coins: &[Coin]) -> Self {
        Self { count: coins.len() as u64, sum: coins.iter().map(|coin| coin.value).sum() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
    }

    fn subtract(&mut self, other: Self) {
        self.count = self.count.saturating_sub(other.count);
        self.sum = self.sum.saturating_sub(other.sum);
    }
}

impl Part {
    pub(crate) fn slices(&self) -> PartSlices<'_> {
        PartSlices { txnums: &self.txnums, coins: &self.coins, spends: &self.spends, inner: self.inner }
    }

    pub(crate) fn clear(&mut self) {
        self.txnums.clear();
        self.coins.clear();
        self.spends.clear();
        self.inner = Tally::default();
        self.uncounted = 0;
    }

    /// Adds the part of the next range, which becomes the whole if nothing came before.
    pub(crate) fn add(&mut self, next: Self) {
        if *self == Self::default() { *self = next } else { self.append(&next) }
    }

    /// Adds the part of the next range.
    pub(crate) fn append(&mut self, next: &Self) {
        if self.txnums.is_empty() {
            self.uncounted = next.uncounted;
        }
        self.txnums.extend_from_slice(&next.txnums);
        self.inner.add(next.inner);
        let spent = cancel(&mut self.coins, next.spends.clone(), &mut self.spends);
        self.inner.add(spent);
        self.coins.extend_from_slice(&next.coins);
    }

    /// Adds what later transactions did, by their rows, in chain order.
    pub(crate) fn extend(&mut self, rows: &[(TxNum, Recent)]) {
        let mut spent = Vec::new();
        for (txnum, row) in rows {
            self.txnums.push(*txnum);
            let coin =
                |(vout, value): &(u32, u64)| Coin { out: TxOutNum { txnum: *txnum, vout: *vout }, value: *value };
            self.coins.extend(row.funded.iter().map(coin));
            spent.extend_from_slice(&row.spent);
        }
        self.spend(spent);
    }

    /// Takes spent outputs off the coins, all at once: one by one, each would pass over all unspent outputs.
    pub(crate) fn spend(&mut self, spent: Vec<Coin>) {
        self.inner.add(cancel(&mut self.coins, spent, &mut self.spends));
    }

    /// Takes stale transactions back. `respent` are the outputs that they spent; `is_live` tells which transactions
    /// remain.
    pub(crate) fn roll_back(&mut self, respent: &[Coin], is_live: impl Fn(TxNum) -> bool) {
        let mut restored = Vec::new();
        // An output that was funded earlier is among the spends; any other was funded and spent in this range.
        cancel(&mut self.spends, respent.to_vec(), &mut restored);
        self.inner.subtract(Tally::of(&restored));
        self.coins.append(&mut restored);
        self.coins.retain(|coin| is_live(coin.out.txnum));
        self.coins.sort_unstable();
        self.txnums.retain(|txnum| is_live(*txnum));
        self.uncounted = self.uncounted.min(self.txnums.len() as u64);
    }

    /// The sums of the outputs funded and of those spent; their difference is what the part adds to the balance.
    pub(crate) fn sums(&self) -> (u64, u64) {
        (Tally::of(&self.coins).sum, Tally::of(&self.spends).sum)
    }
}

/// Removes the outputs `spends` from `coins`, which ascend, and appends those that are not there to `rest`. An output
/// that occurs several times is removed as often as it is spent. Returns the tally of the outputs removed.
pub(super) fn cancel(coins: &mut Vec<Coin>, mut spends: Vec<Coin>, rest: &mut Vec<Coin>) -> Tally {
    let mut removed = Tally::default();
    if spends.is_empty() {
        return removed;
    }
    let before = rest.len();
    spends.sort_unstable();
    let mut spends = spends.into_iter().peekable();
    coins.retain(|coin| {
        while let Some(absent) = spends.next_if(|spend| spend.out < coin.out) {
            rest.push(absent);
        }
        let is_spent = spends.next_if(|spend| spend.out == coin.out).is_some();
        if is_spent {
            removed.add(Tally::of(&[*coin]));
        }
        !is_spent
    });
    rest.extend(spends);
    if rest.len() > before {
        rest.sort_unstable();
    }
    removed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coin(txnum: u64, vout: u32) -> Coin {
        Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value: 10 + txnum }
    }

    /// A step of a script: the transaction funds outputs and spends some that are unspent.
    fn steps() -> impl Strategy<Value = Vec<(u32, Vec<prop::sample::Index>)>> {
        prop::collection::vec((0..4_u32, prop::collection::vec(any::<prop::sample::Index>(), 0..3)), 1..120)
    }

    /// The rows of each transaction, and the unspent outputs after all.
    fn rows(steps: &[(u32, Vec<prop::sample::Index>)]) -> (Vec<(TxNum, Recent)>, Vec<Coin>) {
        let (mut unspent, mut rows): (Vec<Coin>, Vec<_>) = Default::default();
        for ((funded, indexes), txnum) in steps.iter().zip(0..) {
            let mut spent = Vec::new();
            for index in indexes {
                if !unspent.is_empty() {
                    spent.push(unspent.remove(index.index(unspent.len())));
                }
            }
            let funded: Vec<_> = (0..*funded).map(|vout| (vout, coin(txnum, vout).value)).collect();
            unspent.extend(funded.iter().map(|(vout, _)| coin(txnum, *vout)));
            rows.push((TxNum(txnum), Recent { funded, spent }));
        }
        (rows, unspent)
    }

    fn part(rows: &[(TxNum, Recent)]) -> Part {
        let mut part = Part::default();
        part.extend(rows);
        part
    }

    /// One part per transaction.
    fn parts(rows: &[(TxNum, Recent)]) -> Vec<Part> {
        rows.chunks(1).map(part).collect()
    }

    fn sum(parts: &[Part]) -> Part {
        let mut sum = Part::default();
        for part in parts {
            sum.append(part);
        }
        sum
    }

    proptest! {
        #[test]
        fn parts_add_up_in_any_grouping(steps in steps(), cut: prop::sample::Index) {
            let (rows, mut unspent) = rows(&steps);
            let parts = parts(&rows);
            let whole = sum(&parts);
            prop_assert_eq!(&part(&rows), &whole);
            unspent.sort_unstable();
            prop_assert_eq!(&whole.coins, &unspent);
            prop_assert_eq!(&whole.spends, &[]);
            let funded: u64 = steps.iter().map(|(funded, _)| u64::from(*funded)).sum();
            prop_assert_eq!(whole.inner.count + unspent.len() as u64, funded);
            let (first, second) = parts.split_at(cut.index(parts.len()));
            prop_assert_eq!(&sum(&[sum(first), sum(second)]), &whole);
            let mut longer = part(&rows[..first.len()]);
            longer.extend(&rows[first.len()..]);
            prop_assert_eq!(&longer, &whole);
            let mut added = Part::default();
            added.add(sum(first));
            added.add(sum(second));
            prop_assert_eq!(added, whole);
        }

        #[test]
        fn what_stale_transactions_did_is_taken_back(steps in steps(), keep: prop::sample::Index, from: prop::sample::Index) {
            let parts = parts(&rows(&steps).0);
            let keep = keep.index(parts.len());
            // A part of a later range, so that it may spend outputs that it does not have.
            let from = from.index(keep + 1);
            let mut whole = sum(&parts[from..]);
            let respent: Vec<Coin> = parts[keep..].iter().flat_map(|part| part.spends.clone()).collect();
            whole.roll_back(&respent, |txnum| txnum.0 < keep as u64);
            prop_assert_eq!(whole, sum(&parts[from..keep]));
        }
    }

    #[test]
    fn spends_without_their_outputs_remain() {
        let all: Vec<Coin> = (0..100).map(|txnum| coin(txnum, 0)).collect();
        let spends: Vec<Coin> = (50..150).map(|txnum| coin(txnum, 0)).collect();
        let (mut coins, mut rest) = (all.clone(), Vec::new());
        let removed = cancel(&mut coins, spends.clone(), &mut rest);
        assert_eq!((coins, rest), (all[..50].to_vec(), spends[50..].to_vec()));
        assert_eq!(removed, Tally::of(&all[50..]));
    }
}
