//! Unconfirmed transactions that others replaced, the newest of them, as a value.
//!
//! The node tells that a transaction left before, or in the same listing as, it tells what came in its place. So the
//! outputs that a leaving transaction spent are kept for a while: the next transaction that spends one of them replaced
//! it.
//!
//! Invariant: entries are forgotten in the order in which they came, so what replaced a remembered transaction is
//! known, too. The maps are persistent, as those of the mempool.

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};
use imbl::{HashMap, OrdMap, OrdSet};

/// Replaced transactions that are remembered. Beyond it the one that was replaced first is forgotten.
pub const REPLACED_MAX: usize = 10_000;
/// Outputs that transactions spent which left, kept to find what replaces them. Beyond it the first is forgotten.
const ABANDONED_MAX: usize = 10_000;

/// A transaction that was replaced, or replaced another one, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Its txid.
    pub txid: Txid,
    /// Fee in satoshis.
    pub fee: u64,
    /// Virtual bytes.
    pub vsize: u64,
    /// Sum of its outputs, in satoshis.
    pub paid: u64,
    /// Time at which it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// True if it signals that it may be replaced
    /// ([BIP 125](https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki)).
    pub is_replaceable: bool,
}

/// A transaction that left the mempool without having been confirmed, and that no other one is known to have replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The transaction in short.
    pub version: Version,
    /// Outputs that it spent, but those for which another transaction left later.
    pub spent: Vec<OutPoint>,
}

/// The newest replacements.
#[derive(Debug, Clone, Default)]
pub struct Replacements {
    versions: HashMap<Txid, Version>,
    /// The replacement of each replaced transaction, with the number of the entry.
    replaced: HashMap<Txid, (Txid, u64)>,
    /// The same by the replacement.
    by_replacement: OrdSet<(Txid, u64, Txid)>,
    /// Replaced transactions by the number of the entry.
    order: OrdMap<u64, Txid>,
    /// The transaction that spent an output and left, with the number of the entry.
    abandoned: HashMap<OutPoint, (Version, u64)>,
    abandoned_order: OrdMap<u64, OutPoint>,
}

// === impl Replacements: changes ===

impl Replacements {
    /// Notes that a transaction, which spent these outputs, left without having been confirmed.
    pub(super) fn left(&mut self, version: Version, spent: impl Iterator<Item = OutPoint>) {
        for outpoint in spent {
            let number = next_number(&self.abandoned_order);
            if let Some((_, before)) = self.abandoned.insert(outpoint, (version, number)) {
                self.abandoned_order.remove(&before);
            }
            self.abandoned_order.insert(number, outpoint);
        }
        while self.abandoned.len() > ABANDONED_MAX {
            let Some((number, outpoint)) = self.abandoned_order.get_min().copied() else { break };
            self.abandoned_order.remove(&number);
            self.abandoned.remove(&outpoint);
        }
    }

    /// Notes that a transaction came, which replaces those that spent one of these outputs and left.
    pub(super) fn came(&mut self, own: Version, spent: impl Iterator<Item = OutPoint>) {
        // One that comes back was not replaced after all.
        self.forget(&own.txid);
        for outpoint in spent {
            let Some((version, number)) = self.abandoned.remove(&outpoint) else { continue };
            self.abandoned_order.remove(&number);
            if version.txid != own.txid {
                self.add(version, own);
            }
        }
        while self.order.len() > REPLACED_MAX {
            let Some((_, txid)) = self.order.get_min().copied() else { break };
            self.forget(&txid);
        }
    }

    fn add(&mut self, replaced: Version, by: Version) {
        if self.replaced.contains_key(&replaced.txid) {
            return;
        }
        let number = next_number(&self.order);
        self.replaced.insert(replaced.txid, (by.txid, number));
        self.by_replacement.insert((by.txid, number, replaced.txid));
        self.order.insert(number, replaced.txid);
        self.versions.insert(replaced.txid, replaced);
        self.versions.insert(by.txid, by);
    }

    /// Forgets that a transaction was replaced.
    fn forget(&mut self, txid: &Txid) {
        let Some((by, number)) = self.replaced.remove(txid) else { return };
        self.order.remove(&number);
        self.by_replacement.remove(&(by, number, *txid));
        for one in [*txid, by] {
            if !self.replaced.contains_key(&one) && self.of(&one).next().is_none() {
                self.versions.remove(&one);
            }
        }
    }
}

// === impl Replacements: answers ===

impl Replacements {
    /// Returns the number of replaced transactions.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if no transaction was replaced.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns a transaction that was replaced, or replaced another one.
    pub fn version(&self, txid: &Txid) -> Option<&Version> {
        self.versions.get(txid)
    }

    /// Returns the transaction that replaced another one.
    pub fn replacement(&self, txid: &Txid) -> Option<Txid> {
        self.replaced.get(txid).map(|(by, _)| *by)
    }

    /// Returns a transaction that left without a replacement. It reads all outputs that are kept, 10 000 at most.
    pub fn dropped(&self, txid: &Txid) -> Option<Dropped> {
        if self.replaced.contains_key(txid) {
            return None;
        }
        let of_it = self.abandoned.iter().filter(|(_, (version, _))| version.txid == *txid);
        let (mut spent, versions): (Vec<OutPoint>, Vec<Version>) =
            of_it.map(|(outpoint, (version, _))| (*outpoint, *version)).unzip();
        spent.sort_unstable();
        Some(Dropped { version: *versions.first()?, spent })
    }

    /// Returns the transactions that a transaction replaced, in the order in which they were noted.
    pub fn of(&self, by: &Txid) -> impl Iterator<Item = Txid> {
        let first = (*by, 0, Txid::from_byte_array([0; 32]));
        let last = (*by, u64::MAX, Txid::from_byte_array([0xff; 32]));
        self.by_replacement.range(first..=last).map(|(_, _, txid)| *txid)
    }

    /// Returns the transaction at the end of the replacements of one: the last version.
    pub fn latest(&self, txid: &Txid) -> Txid {
        let mut latest = *txid;
        while let Some(next) = self.replacement(&latest) {
            latest = next;
        }
        latest
    }

    /// Returns the transaction that was replaced last.
    pub fn last(&self) -> Option<Txid> {
        self.order.get_max().map(|(_, txid)| *txid)
    }

    /// Returns the last versions, each once for each transaction that it replaced, the newest replacement first.
    pub fn newest(&self) -> impl Iterator<Item = Txid> {
        let replacements = self.order.values().rev().filter_map(|txid| self.replacement(txid));
        replacements.filter(|by| !self.replaced.contains_key(by))
    }
}

/// The number of the next entry. One that was forgotten is used again only if it was the last.
fn next_number<T: Clone>(order: &OrdMap<u64, T>) -> u64 {
    order.get_max().map_or(0, |(last, _)| last + 1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn txid(number: usize) -> Txid {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Txid::from_byte_array(bytes)
    }

    fn version(number: usize) -> Version {
        Version { txid: txid(number), fee: 10, vsize: 100, paid: 1000, first_seen: 7, is_replaceable: true }
    }

    /// The outputs of one parent.
    fn spent(vouts: &[u32]) -> impl Iterator<Item = OutPoint> {
        vouts.iter().map(|vout| OutPoint { txid: txid(usize::MAX), vout: *vout })
    }

    #[test]
    fn a_chain_of_replacements_has_a_last_version() {
        let mut known = Replacements::default();
        known.left(version(1), spent(&[0]));
        known.left(version(2), spent(&[1]));
        known.came(version(3), spent(&[0, 1, 2]));
        let before = known.clone();
        known.left(version(3), spent(&[0, 1, 2]));
        known.came(version(4), spent(&[2]));
        assert_eq!(known.of(&txid(3)).collect::<Vec<_>>(), [txid(1), txid(2)]);
        assert_eq!((known.latest(&txid(1)), known.replacement(&txid(4))), (txid(4), None));
        assert_eq!(known.newest().collect::<Vec<_>>(), [txid(4)]);
        assert_eq!(known.version(&txid(2)), Some(&version(2)));
        assert_eq!(before.latest(&txid(1)), txid(3));
    }

    #[test]
    fn a_transaction_that_comes_back_was_not_replaced() {
        let mut known = Replacements::default();
        known.left(version(1), spent(&[0]));
        assert!(known.is_empty());
        known.came(version(2), spent(&[0]));
        assert_eq!(known.replacement(&txid(1)), Some(txid(2)));
        known.left(version(2), spent(&[0]));
        known.came(version(1), spent(&[0]));
        assert_eq!((known.replacement(&txid(1)), known.replacement(&txid(2))), (None, Some(txid(1))));
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn a_transaction_that_left_is_dropped_until_it_comes_back_or_another_one_replaces_it() {
        let mut known = Replacements::default();
        known.left(version(1), spent(&[4, 0]));
        let dropped = Dropped { version: version(1), spent: spent(&[0, 4]).collect() };
        assert_eq!((known.dropped(&txid(1)), known.dropped(&txid(2))), (Some(dropped), None));
        let mut back = known.clone();
        back.came(version(1), spent(&[4, 0]));
        assert_eq!(back.dropped(&txid(1)), None);
        known.came(version(2), spent(&[4]));
        assert_eq!((known.dropped(&txid(1)), known.replacement(&txid(1))), (None, Some(txid(2))));
    }

    #[test]
    fn the_oldest_replacements_are_forgotten_with_everything_about_them() {
        let mut known = Replacements::default();
        for number in 0..=REPLACED_MAX + 5 {
            known.came(version(number), spent(&[0]));
            known.left(version(number), spent(&[0]));
        }
        assert_eq!((known.len(), known.versions.len()), (REPLACED_MAX, REPLACED_MAX + 1));
        assert_eq!((known.by_replacement.len(), known.abandoned.len()), (REPLACED_MAX, 1));
        assert_eq!((known.version(&txid(4)), known.replacement(&txid(5))), (None, Some(txid(6))));
        for vout in 0..=u32::try_from(ABANDONED_MAX).unwrap() {
            known.left(version(100_000), spent(&[vout + 1]));
        }
        assert_eq!((known.abandoned.len(), known.abandoned_order.len()), (ABANDONED_MAX, ABANDONED_MAX));
    }
}
