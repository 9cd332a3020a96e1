//! The plan of a seed: a list of steps with the time before each.

use std::time::Duration;

use birdhouse_chain::{MergeOptions, SpoolBounds};
use birdhouse_testkit::rng::Rng;

/// Multiples by which merges take the oldest pack.
const OLDEST_MULTIPLES: [u64; 3] = [4, 16, 128];
/// Blocks that are appended by way of records on disk, at least.
const SPOOLED_BLOCKS: [u32; 4] = [MergeOptions::DEFAULT.spooled_blocks, 1, MergeOptions::DEFAULT.spooled_blocks, 8];
/// Bounds of these that are reached.
const SPOOLING: SpoolBounds =
    SpoolBounds { bytes_max: 1 << 13, bytes_min: 0, asked_blocks: 20, spends_held: 5, looked_up: 2 };

/// Something that happens to the network, the node, the disk or the process, or that somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Some blocks on the tip of the network.
    Mine,
    /// Some transactions enter the mempool.
    Pay,
    /// A transaction replaces one of the mempool, with its descendants.
    Replace,
    /// A transaction leaves the mempool, with its descendants.
    Evict,
    /// A branch with more work from a few blocks below the tip.
    Reorg,
    /// The same from up to 200 blocks below.
    DeepReorg,
    /// A block is replaced by one with inputs of the same number, and the node mixes up their undo data.
    Twin,
    /// An older branch becomes the one with most work.
    ComeBack,
    /// The node prefers another branch with as much work.
    Prefer,
    /// `invalidateblock`: the node leaves blocks for fewer.
    Invalidate,
    /// `reconsiderblock` for all of them.
    Reconsider,
    /// The node falls behind and catches up.
    FallBehind,
    /// The same, and it stays behind until the index has been looked at.
    StayBehind,
    Restart,
    /// The node does not answer.
    Stall,
    /// Some calls fail.
    Flaky,
    /// Messages are lost.
    LoseMessages,
    /// The node loses stale blocks.
    LoseStale,
    /// The node writes its block files anew, in another order.
    Rewrite,
    /// Writes fail for some time.
    DiskFault,
    /// Some reads fail for some time.
    ReadFault,
    /// The power is cut at a later write.
    PowerCut,
    /// The process is killed at a later write.
    Kill,
    /// The index is closed in order.
    Close,
    /// A reader keeps a snapshot.
    Hold,
    /// Readers ask.
    Check,
    /// A client shows a transaction that the mirror may lack.
    Admit,
    /// A person accepts a deep reorg.
    Accept,
    /// Nothing happens any more until index and node agree.
    Calm,
    /// The same, while transactions and blocks go on to come.
    Traffic,
}

/// Steps with their usual frequency.
const FREQUENCIES: &[(Step, u64)] = &[
    (Step::Mine, 16),
    (Step::Pay, 14),
    (Step::Replace, 4),
    (Step::Evict, 4),
    (Step::Reorg, 10),
    (Step::DeepReorg, 1),
    (Step::Twin, 2),
    (Step::ComeBack, 3),
    (Step::Prefer, 1),
    (Step::Invalidate, 2),
    (Step::Reconsider, 2),
    (Step::FallBehind, 3),
    (Step::StayBehind, 2),
    (Step::Restart, 2),
    (Step::Stall, 2),
    (Step::Flaky, 2),
    (Step::LoseMessages, 3),
    (Step::LoseStale, 1),
    (Step::Rewrite, 1),
    (Step::DiskFault, 2),
    (Step::ReadFault, 1),
    (Step::PowerCut, 3),
    (Step::Kill, 2),
    (Step::Close, 1),
    (Step::Hold, 4),
    (Step::Check, 8),
    (Step::Admit, 3),
    (Step::Accept, 2),
    (Step::Calm, 3),
    (Step::Traffic, 2),
];

/// The choices of a seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) template: usize,
    pub(crate) steps: Vec<(Duration, Step)>,
    pub(crate) merging: MergeOptions,
    pub(crate) has_zmq: bool,
    pub(crate) has_txindex: bool,
    pub(crate) depth_max: u32,
    /// Thousandths of the calls at which the next step happens at once.
    pub(crate) eager: u64,
    /// Thousandths of the calls at which readers ask.
    pub(crate) curious: u64,
}

impl Plan {
    pub(crate) fn of(seed: u64, templates: usize) -> Self {
        let mut rng = Rng::new(seed ^ 0x7369_6d75_6c61_7465);
        // Each seed has steps that it likes, and some that it never takes.
        let liked = |rng: &mut Rng, (step, usual): &(Step, u64)| (*step, usual * *rng.pick(&[0, 1, 1, 1, 2, 5]));
        let mut weights: Vec<(Step, u64)> = FREQUENCIES.iter().map(|entry| liked(&mut rng, entry)).collect();
        weights.push((Step::Mine, 4));
        let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
        let count = 12 + rng.index(36);
        let hurry = *rng.pick(&[1, 4, 20]);
        let mut steps = Vec::new();
        for _ in 0..count {
            let mut at = rng.below(total);
            let chosen = weights.iter().find(|(_, weight)| {
                let is_here = at < *weight;
                at = at.saturating_sub(*weight);
                is_here
            });
            let gap_ms = if rng.per_mille(30) { 70_000 } else { rng.below(3000) / hurry };
            steps.push((Duration::from_millis(gap_ms), chosen.expect("below the total").0));
        }
        steps.push((Duration::ZERO, Step::Calm));
        Self {
            seed,
            template: rng.index(templates),
            steps,
            merging: MergeOptions {
                tip_blocks: rng.below_u32(9),
                delta_txs: 1 + rng.below(40),
                bulk_blocks: 1 + rng.below_u32(12),
                // Not of the generator, so that older seeds keep their steps.
                oldest_multiple: OLDEST_MULTIPLES[usize::try_from(seed % 3).expect("below 3")],
                spooled_blocks: SPOOLED_BLOCKS[usize::try_from(seed % 4).expect("below 4")],
                spooling: SPOOLING,
                ..MergeOptions::DEFAULT
            },
            has_zmq: rng.per_mille(600),
            has_txindex: rng.per_mille(300),
            depth_max: if rng.per_mille(250) { 2 + rng.below_u32(12) } else { 1000 },
            eager: *rng.pick(&[0, 20, 100, 300]),
            curious: *rng.pick(&[5, 20, 60]),
        }
    }

    /// The random numbers of one step: the same whatever other steps are taken.
    pub(crate) fn rng_of(&self, step: usize) -> Rng {
        Rng::new(birdhouse_testkit::rng::mix(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(step as u64)))
    }
}
