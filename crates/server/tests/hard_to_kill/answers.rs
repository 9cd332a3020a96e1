//! All answers of an index, read from its folder while no other process has it open.

#[path = "../../../chain/tests/index/answers.rs"]
mod of_a_snapshot;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use birdhouse_chain::{Index, Profile, Secret, TABLES};
use birdhouse_node::BlockFiles;
use birdhouse_store::{SegmentOptions, SegmentStore};
use birdhouse_testkit::ChainBuilder;
use bitcoin::constants::genesis_block;
use bitcoin::{Network, ScriptBuf};

pub(crate) use of_a_snapshot::Answers;

/// Returns every script that these blocks pay.
fn scripts_of(chain: &ChainBuilder) -> BTreeSet<ScriptBuf> {
    let outputs = chain.blocks().iter().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    outputs.map(|output| output.script_pubkey.clone()).collect()
}

/// Opens the index in `index_dir` and reads the answers for all scripts of a chain.
pub(crate) fn read(index_dir: &Path, blocks_dir: &Path, profile: Profile, chain: &ChainBuilder) -> Answers {
    let store = SegmentStore::open(index_dir, &TABLES, SegmentOptions::default()).unwrap();
    let source = BlockFiles::open(blocks_dir, Network::Regtest).unwrap();
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open(Arc::new(store), Arc::new(source), genesis, profile, Secret([0; 16])).unwrap();
    Answers::of(&index.snapshot().unwrap(), &scripts_of(chain))
}
