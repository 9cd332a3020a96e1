//! Indices of addresses for invoices: none is given twice, whatever happens to the process or its disk. Pure.
//!
//! The reserve of a branch has the next index, which the transaction that stores an invoice moves on, and the end of a
//! block of indices that is named before the first of them is used. A backup has both. What was given after the backup
//! lies below the end of its block, unless the shop sold more since; so a restored server asks its operator once.

/// Indices that are reserved together: half of the usual gap, so that a restored server has the other half left.
pub(crate) const BLOCK: u32 = 10;

/// Indices of one branch that were given, and those that may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserve {
    /// The first index that was never given.
    pub(crate) next: u32,
    /// The first index beyond the block that is reserved.
    pub(crate) end: u32,
}

/// Rule for an address whose payments a wallet that is restored from its seed would not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeyondGap {
    /// No address is given.
    Refuse,
    /// The answer warns.
    Warn,
}

/// An index for one invoice, and the reserve from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The index.
    pub(crate) index: u32,
    /// The reserve to store, together with the invoice.
    pub(crate) reserve: Reserve,
    /// Unused addresses in a row below it, if half of the gap or more: the wallet stops looking after `gap` of them.
    pub(crate) unused: Option<u32>,
}

/// Reason for which no index is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTaken {
    /// Too many addresses in a row are not used.
    #[error(
        "the last {unused} addresses of this wallet are unpaid, and a wallet that is restored from its seed looks only \
         {gap} ahead; raise the gap of the watch and of the wallet, or set watch-invoice-gap = \"warn\""
    )]
    Gap {
        /// Unused addresses in a row.
        unused: u32,
        /// Gap of the watch.
        gap: u32,
    },
    /// The watch has all scripts that are watched of one.
    #[error(
        "payments to further addresses of this wallet are not seen: {} scripts of its watch are watched, and no more; use \
         another account of the wallet",
        crate::limits::SCRIPTS_MAX
    )]
    Full,
    /// A descriptor without a range has one address.
    #[error("this watch has a single address, and an invoice needs one of its own; use a descriptor with a range")]
    NoRange,
    /// The branch ends.
    #[error("this wallet has no further addresses")]
    Exhausted,
}

/// The first index that BIP 32 keeps for hardened keys.
const HARDENED: u32 = 1 << 31;

impl Default for Reserve {
    /// The first block is reserved without a word.
    fn default() -> Self {
        Self { next: 0, end: BLOCK }
    }
}

impl Reserve {
    /// Takes the next index. `used` is the highest one that the chain or the mempool shows as used.
    ///
    /// # Errors
    /// The reason for which the wallet can give none.
    pub(crate) fn take(self, used: Option<u32>, gap: u32, beyond: BeyondGap) -> Result<Taken, NotTaken> {
        let after_used = used.map_or(0, |used| used.saturating_add(1));
        let index = self.next.max(after_used);
        let unused = index - after_used;
        if index >= HARDENED {
            return Err(NotTaken::Exhausted);
        }
        if unused >= gap && beyond == BeyondGap::Refuse {
            return Err(NotTaken::Gap { unused, gap });
        }
        let next = index + 1;
        let end = if next < self.end { self.end } else { next.saturating_add(BLOCK).min(HARDENED) };
        Ok(Taken {
            index,
            reserve: Self { next, end },
            unused: Some(unused).filter(|unused| *unused >= gap.div_ceil(2)),
        })
    }

    /// Returns the index at which a restored server goes on, unless its operator names a higher one: beyond the block
    /// that the backup names, and beyond all that the chain shows.
    pub(crate) fn after_restore(self, used: Option<u32>) -> u32 {
        self.end.max(self.next).max(used.map_or(0, |used| used.saturating_add(1)))
    }

    /// Returns the reserve from which indices go on at `index`.
    #[must_use]
    pub(crate) fn resumed(self, index: u32) -> Self {
        Self { next: self.next.max(index), end: self.end.max(index) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_gap_warns_from_its_half_on_and_then_refuses() {
        let mut reserve = Reserve::default();
        let mut warned = Vec::new();
        for index in 0..20 {
            let taken = reserve.take(None, 20, BeyondGap::Refuse).expect("within the gap");
            assert_eq!(taken.index, index);
            warned.extend(taken.unused);
            reserve = taken.reserve;
        }
        assert_eq!(warned, (10..20).collect::<Vec<u32>>());
        assert_eq!(reserve.take(None, 20, BeyondGap::Refuse), Err(NotTaken::Gap { unused: 20, gap: 20 }));
        assert_eq!(
            reserve.take(None, 20, BeyondGap::Warn).map(|taken| (taken.index, taken.unused)),
            Ok((20, Some(20)))
        );
        // A payment to the third address makes room for three more.
        let taken = reserve.take(Some(2), 20, BeyondGap::Refuse).expect("within the gap");
        assert_eq!((taken.index, taken.unused), (20, Some(17)));
    }

    #[test]
    fn a_restored_server_goes_on_beyond_the_block_of_its_backup_and_beyond_the_chain() {
        let backup = Reserve { next: 7, end: 21 };
        assert_eq!(backup.after_restore(None), 21);
        assert_eq!(backup.after_restore(Some(3)), 21);
        assert_eq!(backup.after_restore(Some(40)), 41);
        assert_eq!(backup.resumed(30).take(Some(25), 20, BeyondGap::Refuse).map(|taken| taken.index), Ok(30));
        assert_eq!(backup.resumed(3), backup);
    }

    #[test]
    fn no_index_is_hardened() {
        let last = Reserve { next: HARDENED - 1, end: HARDENED };
        let taken = last.take(Some(HARDENED - 2), 20, BeyondGap::Refuse).expect("the last one");
        assert_eq!((taken.index, taken.reserve.end), (HARDENED - 1, HARDENED));
        assert_eq!(taken.reserve.take(None, 20, BeyondGap::Warn), Err(NotTaken::Exhausted));
        assert_eq!(last.take(Some(u32::MAX), 20, BeyondGap::Warn), Err(NotTaken::Exhausted));
    }

    proptest! {
        /// Backups are taken at random, and restored after at most a block of further invoices.
        #[test]
        fn no_index_is_given_twice_over_restores(steps in prop::collection::vec((1..=BLOCK, any::<bool>()), 1..40)) {
            let (mut reserve, mut given) = (Reserve::default(), HashSet::new());
            for (invoices, is_restored) in steps {
                let backup = reserve;
                let mut left = invoices;
                // Those beyond the block of the backup are known to its operator alone.
                while left > 0 && (!is_restored || reserve.next < backup.end) {
                    let taken = reserve.take(None, 1, BeyondGap::Warn).expect("far from the end");
                    prop_assert!(given.insert(taken.index));
                    reserve = taken.reserve;
                    left -= 1;
                }
                if is_restored {
                    reserve = backup.resumed(backup.after_restore(None));
                }
            }
        }
    }
}
