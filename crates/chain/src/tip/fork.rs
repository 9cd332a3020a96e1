//! The decision at a fork: does the node's chain replace ours, or is the node behind? Pure.
//!
//! A node that calls our tip invalid, or prefers another chain although it has connected ours, has changed its mind and
//! is followed, even to less work. A node that does not know our tip, or knows its header alone, says nothing about
//! it: it was wiped or restored, or reindexes. It is followed only to more work.

use bitcoin::Work;

use crate::names::Height;
use crate::outside::{BlockId, BlockStanding, ChainView, Waiting};

/// The next step towards the node's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    InSync,
    /// Append the node's blocks to ours.
    Append,
    /// The chains fork: [`decide`] needs the node's [`ChainView`].
    Fork,
}

/// Decides the next step without a question to the node. `ours` is the length of our chain, `shared` the number of its
/// blocks that the node's chain has.
pub(super) fn next_step(ours: u32, shared: u32, node_tip: Height) -> Step {
    match shared == ours {
        true if node_tip.0 + 1 == ours => Step::InSync,
        true => Step::Append,
        false => Step::Fork,
    }
}

/// Our side of a fork.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    pub(crate) tip: BlockId,
    /// Blocks that both chains share, at least one.
    pub(super) shared: u32,
    /// Work of our blocks above the fork.
    pub(super) work: Work,
}

/// The decision at a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Roll back to the shared blocks and append the node's.
    Follow,
    /// Serve the known chain and look again.
    Wait(Waiting),
}

/// Decides at a fork. A reorg of more than `depth_max` blocks needs the operator's approval, `is_accepted`.
pub(super) fn decide(branch: &Branch, node: &ChainView, depth_max: u32, is_accepted: Accepted) -> Verdict {
    let (tip, ours) = (node.tip, branch.tip);
    let behind = Verdict::Wait(Waiting::NodeBehind { node: tip, ours });
    let has_more_work = node.work > branch.work;
    match node.ours {
        // It connects its blocks anew, for example with -reindex-chainstate, and has not reached ours yet.
        BlockStanding::Fork if node.work < branch.work && node.is_syncing => return behind,
        BlockStanding::Unconnected if !has_more_work => return behind,
        BlockStanding::Unknown if node.is_syncing => return behind,
        BlockStanding::Unknown if !has_more_work => {
            return Verdict::Wait(Waiting::ShorterChain { node: tip, ours });
        }
        _ => {}
    }
    let depth = ours.height.0 + 1 - branch.shared;
    if depth > depth_max && is_accepted == Accepted::No {
        let fork = Height(branch.shared - 1);
        return Verdict::Wait(Waiting::DeepReorg { node: tip, fork, depth, depth_max });
    }
    Verdict::Follow
}

/// The operator's approval of a deep reorg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    /// Approved.
    Yes,
    /// Not approved.
    No,
}

#[cfg(test)]
mod tests {
    use bitcoin::BlockHash;
    use bitcoin::hashes::Hash as _;

    use super::*;

    #[test]
    fn the_next_step_follows_from_what_both_chains_share() {
        assert_eq!(next_step(10, 10, Height(9)), Step::InSync);
        assert_eq!(next_step(10, 10, Height(12)), Step::Append);
        assert_eq!(next_step(10, 7, Height(9)), Step::Fork);
        assert_eq!(next_step(10, 8, Height(7)), Step::Fork);
    }

    fn tip(height: u32) -> BlockId {
        BlockId { height: Height(height), hash: BlockHash::all_zeros() }
    }

    fn work(units: u8) -> Work {
        let mut bytes = [0; 32];
        bytes[31] = units;
        Work::from_be_bytes(bytes)
    }

    /// Our chain has 10 blocks above a fork at height 90, each of one unit of work.
    fn verdict(node: &ChainView, depth_max: u32) -> Verdict {
        let branch = Branch { tip: tip(100), shared: 91, work: work(10) };
        decide(&branch, node, depth_max, Accepted::No)
    }

    /// A node that does not sync, with this work above the fork.
    fn node(ours: BlockStanding, units: u8) -> ChainView {
        ChainView { tip: tip(90 + u32::from(units)), work: work(units), is_syncing: false, ours }
    }

    #[test]
    fn a_node_that_changed_its_mind_is_followed_and_one_that_is_behind_is_waited_for() {
        use BlockStanding::{Fork, Invalid, Unconnected, Unknown};
        let (follow, behind, shorter) = ("follow", "node behind", "node on another chain");
        // The node's work above the fork, against our 10.
        let (less, equal, more) = (3, 10, 11);
        let table = [
            // invalidateblock, whatever the work and the state of the node.
            (Invalid, 0, false, follow),
            (Invalid, less, true, follow),
            (Invalid, more, false, follow),
            // An ordinary reorg; preciousblock; a fork that an older Core does not call invalid yet.
            (Fork, more, false, follow),
            (Fork, more, true, follow),
            (Fork, equal, false, follow),
            (Fork, less, false, follow),
            // -reindex-chainstate, or a start after a power cut: it connects again what it has.
            (Fork, less, true, behind),
            (Fork, 0, true, behind),
            // -reindex, or initial download: our block is a header, or was not connected yet.
            (Unconnected, less, true, behind),
            (Unconnected, less, false, behind),
            (Unconnected, equal, false, behind),
            // Our tip was stale, and the node never needed it.
            (Unconnected, more, false, follow),
            (Unconnected, more, true, follow),
            // Wiped or restored.
            (Unknown, 0, false, shorter),
            (Unknown, less, false, shorter),
            (Unknown, equal, false, shorter),
            (Unknown, less, true, behind),
            (Unknown, more, true, behind),
            (Unknown, more, false, follow),
        ];
        for (ours, work, is_syncing, expected) in table {
            let verdict = verdict(&ChainView { is_syncing, ..node(ours, work) }, 10);
            let kind = match &verdict {
                Verdict::Follow => follow,
                Verdict::Wait(waiting) => waiting.kind(),
            };
            assert_eq!(kind, expected, "{ours:?}, work {work}, syncing {is_syncing}");
        }
    }

    #[test]
    fn a_reorg_below_the_set_depth_needs_the_operators_approval() {
        for ours in [BlockStanding::Invalid, BlockStanding::Fork, BlockStanding::Unknown] {
            assert_eq!(verdict(&node(ours, 11), 10), Verdict::Follow);
            let deep = Waiting::DeepReorg { node: tip(101), fork: Height(90), depth: 10, depth_max: 9 };
            assert_eq!(verdict(&node(ours, 11), 9), Verdict::Wait(deep));
        }
        let branch = Branch { tip: tip(100), shared: 91, work: work(10) };
        assert_eq!(decide(&branch, &node(BlockStanding::Invalid, 5), 9, Accepted::Yes), Verdict::Follow);
    }
}
