//! Chains to begin with, and their built indexes: made once a process, copied for each seed.

use std::sync::{Arc, OnceLock};

use birdhouse_chain::source::BlockSource;
use birdhouse_chain::{BuildOptions, Index, MergeOptions, Profile, Secret};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::rng::Rng;
use bitcoin::Network;
use bitcoin::constants::genesis_block;

use crate::miner::{Miner, Pool};
use crate::node_state::Form;
use crate::source::TreeSource;
use crate::tree::{BlockNumber, GENESIS, Tree};

/// Number of templates.
pub(crate) const TEMPLATES: usize = 16;

/// A chain and its index.
pub(crate) struct Template {
    pub(crate) tree: Arc<Tree>,
    pub(crate) tip: BlockNumber,
    pub(crate) miner: Miner,
    pub(crate) store: MemoryStore,
    pub(crate) profile: Profile,
    pub(crate) form: Form,
    /// No reorg reaches below this height.
    pub(crate) floor: usize,
}

/// Returns a template.
pub(crate) fn template(number: usize) -> &'static Template {
    static ALL: [OnceLock<Template>; TEMPLATES] = [const { OnceLock::new() }; TEMPLATES];
    ALL[number].get_or_init(|| make(number))
}

fn make(number: usize) -> Template {
    let mut rng = Rng::new(number as u64);
    let is_long = number % 8 == 7;
    let blocks = if is_long { 230 } else { 15 + rng.index(70) };
    let block_txs = if is_long { 4 } else { 1 + rng.below(7) };
    let scripts = u8::try_from(8 + rng.below(30)).expect("below 256");
    let busy = if is_long { 700 } else { *rng.pick(&[0, 100, 300]) };
    let mut miner = Miner::new(scripts, busy, 300);
    let mut tree = Tree::new();
    let mut tip = GENESIS;
    let has_overwritten = number.is_multiple_of(3);
    let mut repeated = None;
    for height in 1..=blocks {
        let coinbase = match repeated.take() {
            Some(coinbase) => coinbase,
            None => miner.coinbase(&mut rng),
        };
        let is_repeated = has_overwritten && matches!(height, 4 | 8);
        if is_repeated {
            repeated = Some(coinbase.clone());
        }
        let mut txs = Vec::new();
        // Nothing may spend a coinbase between its two times.
        if !has_overwritten || height > 9 {
            let (mut pool, path) = (Pool::default(), tree.path(tip));
            for _ in 0..rng.below(block_txs + 1) {
                let Some(tx) = miner.payment(&mut rng, &tree, &path, &pool, 3) else { break };
                pool.push(tree.add_tx(&tx));
                txs.push(tx);
            }
        }
        tip = miner.mine(&mut tree, tip, coinbase, txs, 0);
        if is_repeated {
            tree.overwritten.push(tip);
        }
    }
    let profile = if rng.per_mille(300) { Profile::Lean } else { Profile::Full };
    let form = if rng.per_mille(500) { Form::Files } else { Form::Rest };
    let tip_blocks = if rng.per_mille(500) { 0 } else { rng.below_u32(10) };
    let store = build(&tree, tip, profile, form, MergeOptions { tip_blocks, ..MergeOptions::default() });
    let floor = if has_overwritten { 10 } else { 1 };
    Template { tree: Arc::new(tree), tip, miner, store, profile, form, floor }
}

/// Builds the index of a branch.
fn build(tree: &Tree, tip: BlockNumber, profile: Profile, form: Form, merging: MergeOptions) -> MemoryStore {
    let store = MemoryStore::new();
    let source: Arc<dyn BlockSource> = Arc::new(TreeSource::new(tree.clone(), tip, form));
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open_with(Arc::new(store.clone()), source, genesis, profile, Secret([7; 16]), merging)
        .expect("an empty store opens");
    let temp = tempfile::tempdir().expect("a temporary folder");
    let options = BuildOptions { threads: 1, ..BuildOptions::modest(temp.path()) };
    index.build(None, &options).expect("the chain is built");
    store
}
