//! Transactions of a cluster, sets of them, and their fee rates. Pure.

use std::cmp::Ordering;

use bitcoin::Txid;

/// Members of a cluster as bits.
pub(super) type Set = u64;

/// The most transactions of a cluster
/// ([Core's `txgraph.h`](https://github.com/bitcoin/bitcoin/blob/master/src/txgraph.h), `MAX_CLUSTER_COUNT_LIMIT`).
pub(super) const CLUSTER_MAX: usize = 64;

/// Fees over size of one or several transactions, ordered by their quotient.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rate {
    /// In satoshis, with the node's own additions.
    pub(super) fee: i64,
    /// In weight units.
    pub(super) size: u64,
}

/// A transaction of a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) txid: Txid,
    pub(super) rate: Rate,
    /// Members that it spends from.
    pub(super) parents: Set,
}

/// The members of a set, ascending.
pub(super) fn bits(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
}

impl Rate {
    /// Returns that of several members together.
    pub(super) fn of(members: &[Member], set: Set) -> Self {
        bits(set).fold(Self::default(), |sum, at| sum.plus(members[at].rate))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { fee: self.fee.saturating_add(other.fee), size: self.size + other.size }
    }

    /// Returns the quotient in sat/vB.
    #[expect(clippy::cast_precision_loss, reason = "fees and sizes of a mempool are far below 2^52")]
    pub(super) fn sat_vb(self) -> f64 {
        (self.fee * 4) as f64 / self.size.max(1) as f64
    }

    /// Compares the quotients.
    pub(super) fn compare(self, other: Self) -> Ordering {
        let product = |fee: i64, size: u64| i128::from(fee) * i128::from(size);
        product(self.fee, other.size).cmp(&product(other.fee, self.size))
    }
}
