//! Notices in the making: their order, and one for many. Pure.

use std::collections::BTreeSet;

use birdhouse_chain::source::BlockId;
use bitcoin::{OutPoint, Txid};

use crate::notice::{Amounts, NoticeKind};
use crate::state::Lines;

/// Notices of one watch in one update beyond which parents are not put before their children.
const ORDERED_MAX: usize = 1_000;

/// The part of an update that a notice tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A payment of which nothing was announced before.
    Payment,
    /// One that was announced before.
    OfKnown,
}

/// A notice in the making.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) txid: Option<Txid>,
    pub(super) kind: NoticeKind,
    pub(super) subject: Subject,
    pub(super) block: Option<BlockId>,
    pub(super) lines: Lines,
    pub(super) spends: Vec<OutPoint>,
}

/// One notice for many. Its sums are of payments that are new: of those that were announced before, the balance has not
/// changed.
pub(super) fn digest(all: &[Announced]) -> Announced {
    let txids: BTreeSet<Txid> = all.iter().filter_map(|announced| announced.txid).collect();
    let mut amounts = Amounts::default();
    let mut counted = BTreeSet::new();
    let is_here = |announced: &&Announced| matches!(announced.kind, NoticeKind::Seen | NoticeKind::Confirmed { .. });
    let is_new = |announced: &&Announced| announced.subject == Subject::Payment && is_here(announced);
    let mut is_partial = false;
    for announced in all.iter().filter(is_new).filter(|announced| counted.insert(announced.txid)) {
        is_partial |= announced.lines.is_partial;
        amounts.received += announced.lines.amounts.received;
        amounts.spent += announced.lines.amounts.spent;
    }
    let transactions = u32::try_from(txids.len()).unwrap_or(u32::MAX);
    let lines = Lines { amounts, is_partial, ..Lines::default() };
    digest_of(NoticeKind::Digest { transactions, is_past: false }, lines)
}

pub(super) fn digest_of(kind: NoticeKind, lines: Lines) -> Announced {
    Announced { txid: None, kind, subject: Subject::Payment, block: None, lines, spends: Vec::new() }
}

/// Orders notices as their transactions follow each other: by height, the mempool last, and parents first.
pub(super) fn in_order(mut announced: Vec<Announced>) -> Vec<Announced> {
    announced.sort_by_key(|announced| announced.block.map_or(u32::MAX, |block| block.height.0));
    if announced.len() > ORDERED_MAX {
        return announced;
    }
    let mut waiting: BTreeSet<Option<Txid>> = announced.iter().map(|announced| announced.txid).collect();
    let mut ordered = Vec::with_capacity(announced.len());
    while !announced.is_empty() {
        let has_parent = |announced: &Announced| {
            announced
                .spends
                .iter()
                .any(|spent| Some(spent.txid) != announced.txid && waiting.contains(&Some(spent.txid)))
        };
        let next = announced.iter().position(|announced| !has_parent(announced)).unwrap_or(0);
        let next = announced.remove(next);
        waiting.remove(&next.txid);
        ordered.push(next);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn announced(number: u8, kind: NoticeKind, received: u64) -> Announced {
        let lines = Lines { amounts: Amounts { received, spent: 0 }, ..Lines::default() };
        let txid = Some(Txid::from_byte_array([number; 32]));
        Announced { txid, kind, subject: Subject::Payment, block: None, lines, spends: Vec::new() }
    }

    #[test]
    fn a_digest_counts_what_came_and_not_what_is_gone() {
        let by = Txid::from_byte_array([2; 32]);
        let all = [
            announced(1, NoticeKind::Replaced { by }, 50),
            announced(2, NoticeKind::Seen, 50),
            announced(2, NoticeKind::Confirmed { confirmations: 1 }, 50),
            announced(3, NoticeKind::Dropped, 7),
            Announced { subject: Subject::OfKnown, ..announced(4, NoticeKind::Confirmed { confirmations: 1 }, 9) },
        ];
        let Announced { kind, lines, .. } = digest(&all);
        assert_eq!((kind, lines.amounts.received), (NoticeKind::Digest { transactions: 4, is_past: false }, 50));
    }

    /// An announced transaction was an alarm then, and one that is gone spends nothing.
    #[test]
    fn a_part_of_a_digest_is_unknown_only_where_its_sums_are() {
        let partial = |subject, kind| {
            let mut one = Announced { subject, ..announced(1, kind, 50) };
            one.lines.is_partial = true;
            digest(&[one, announced(2, NoticeKind::Seen, 7)]).lines.is_partial
        };
        assert!(partial(Subject::Payment, NoticeKind::Seen));
        assert!(!partial(Subject::OfKnown, NoticeKind::Confirmed { confirmations: 1 }));
        assert!(!partial(Subject::OfKnown, NoticeKind::Dropped));
    }
}
