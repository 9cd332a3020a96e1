//! One transaction from what was known of it to what a snapshot says, as a notice. Pure.

use birdhouse_chain::source::BlockId;
use bitcoin::Txid;

use crate::notice::NoticeKind;
use crate::state::Open;

/// Place of a transaction in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In this block of the chain.
    Block(BlockId),
    Mempool,
    /// Nowhere: another transaction spends one of its inputs.
    Replaced {
        by: Txid,
    },
    /// Nowhere.
    Absent,
}

/// The rules by which steps are announced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    /// Levels of confirmations, ascending.
    pub(super) levels: &'a [u32],
    /// Height of the snapshot's tip.
    pub(super) tip: u32,
    /// Seconds since 1970.
    pub(super) now: u64,
    /// Seconds for which a transaction is absent before it counts as dropped.
    pub(super) dropped_after_s: u64,
    /// False before the node's mempool is known: an unconfirmed transaction is absent then, and tells nothing.
    pub(super) is_mempool_known: bool,
}

/// Result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The transaction from now on; `None` if it is gone.
    pub(super) open: Option<Open>,
    /// Notices, in this order, with the block of each.
    pub(super) announced: Vec<(NoticeKind, Option<BlockId>)>,
}

impl Rules<'_> {
    /// The highest level that a transaction has reached.
    fn level(&self, place: Place) -> Option<u32> {
        let confirmations = match place {
            Place::Block(block) => (self.tip + 1).saturating_sub(block.height.0),
            Place::Mempool => 0,
            Place::Replaced { .. } | Place::Absent => return None,
        };
        self.levels.iter().copied().filter(|level| *level <= confirmations).max()
    }
}

/// Takes a step. A transaction that is new has `announced` of `None`.
pub(super) fn step(mut open: Open, place: Place, rules: Rules<'_>) -> Step {
    let mut announced = Vec::new();
    let block = match place {
        Place::Block(block) => Some(block),
        _ => None,
    };
    if open.block.is_some() && open.block != block {
        if open.announced.is_some() {
            announced.push((NoticeKind::Reorganised, open.block));
        }
        open.announced = open.announced.map(|_| 0);
    }
    match place {
        Place::Replaced { by } => {
            if open.announced.is_some() {
                announced.push((NoticeKind::Replaced { by }, None));
            }
            return Step { open: None, announced };
        }
        Place::Absent => {
            open.block = None;
            if !rules.is_mempool_known {
                return Step { open: Some(open), announced };
            }
            let since = *open.absent_since.get_or_insert(rules.now);
            if rules.now.saturating_sub(since) >= rules.dropped_after_s {
                if open.announced.is_some() {
                    announced.push((NoticeKind::Dropped, None));
                }
                return Step { open: None, announced };
            }
            return Step { open: Some(open), announced };
        }
        Place::Block(_) | Place::Mempool => open.absent_since = None,
    }
    open.block = block;
    let level = rules.level(place);
    if level > open.announced {
        announced.extend(level.map(|level| {
            let kind = if level == 0 { NoticeKind::Seen } else { NoticeKind::Confirmed { confirmations: level } };
            (kind, block)
        }));
        open.announced = level;
    }
    Step { open: Some(open), announced }
}

/// Takes a step of the past: nothing is announced, and what it reaches counts as announced.
pub(super) fn step_silently(open: Open, place: Place, rules: Rules<'_>) -> Option<Open> {
    let mut open = step(open, place, rules).open?;
    // A level that is still ahead is announced; a payment of the past is known, whatever its levels.
    open.announced = open.announced.or(Some(0));
    Some(open)
}
