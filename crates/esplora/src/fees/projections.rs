//! The projected blocks of the last mempool that was asked about.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::MiningRules;
use bitcoin::{BlockHash, Txid};
use parking_lot::Mutex;

use crate::fees::projection::{Place, Projected, ProjectedBlock, candidates, project};

/// Factor from the time that a projection took to the time for which it stays valid at the same tip: with many clients
/// and a large mempool that changes all the time, projections take a twentieth of a processor.
const FRESH_FACTOR: u32 = 20;

/// Blocks that miners would make of a mempool.
#[derive(Debug)]
pub struct Projection {
    /// The blocks, the next first.
    pub blocks: Vec<ProjectedBlock>,
    places: HashMap<Txid, Place>,
    /// The transactions of each block, in the order of mining.
    members: Vec<Vec<Txid>>,
}

/// The projection of the last mempool that was asked about.
#[derive(Debug, Default)]
pub(crate) struct Projections {
    last: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    state: State,
    rules: MiningRules,
    until: Instant,
    projection: Arc<Projection>,
}

/// Differs, with all likelihood, between any two mempools that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    tip: BlockHash,
    transactions: usize,
    vsize: u64,
    fees: u64,
}

impl Projection {
    /// Projects the blocks of a snapshot's mempool.
    pub fn of(at: &Snapshot) -> Self {
        let candidates = candidates(at.mempool());
        let Projected { blocks, order, places } = project(&candidates, at.mempool().rules().ranking);
        let txid = |at: &usize| candidates[*at].txid;
        let members = order.iter().map(|block| block.iter().map(txid).collect()).collect();
        let places = candidates.iter().zip(places).map(|(candidate, place)| (candidate.txid, place)).collect();
        Self { blocks, places, members }
    }

    /// The transactions of a block in the order of mining; none of a block that there is not.
    pub fn transactions(&self, block: usize) -> &[Txid] {
        self.members.get(block).map_or(&[], Vec::as_slice)
    }

    /// The block of a transaction of this size, and the virtual bytes in it up to the middle of the transaction; `None`
    /// if it came later.
    pub(crate) fn position(&self, txid: &Txid, vsize: u64) -> Option<(usize, u64)> {
        let place = self.place(txid)?;
        let blocks_before: u64 = self.blocks[..place.block].iter().map(|block| block.vsize).sum();
        Some((place.block, place.vbytes_before.saturating_sub(blocks_before) + vsize / 2))
    }

    /// The place of a transaction; `None` if it came later.
    pub fn place(&self, txid: &Txid) -> Option<Place> {
        self.places.get(txid).copied()
    }
}

impl Projections {
    /// Returns the blocks that miners would make of a snapshot's mempool.
    pub(crate) fn of(&self, at: &Snapshot) -> Arc<Projection> {
        let mempool = at.mempool();
        let state =
            State { tip: at.tip().hash, transactions: mempool.len(), vsize: mempool.vsize(), fees: mempool.fees() };
        // Those who come meanwhile wait for the same projection.
        let mut last = self.last.lock();
        let began = Instant::now();
        if let Some(known) = &*last
            && (known.state == state && known.rules == *mempool.rules()
                || known.state.tip == state.tip && began < known.until)
        {
            return Arc::clone(&known.projection);
        }
        let projection = Arc::new(Projection::of(at));
        let until = Instant::now() + fresh_for(began.elapsed());
        let rules = mempool.rules().clone();
        *last = Some(Known { state, rules, until, projection: Arc::clone(&projection) });
        projection
    }
}

/// The time for which a projection stays valid, by the time that it took. A cheap one is made anew.
fn fresh_for(took: Duration) -> Duration {
    if took < Duration::from_millis(5) { Duration::ZERO } else { took * FRESH_FACTOR }
}
