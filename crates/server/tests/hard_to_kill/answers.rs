//! All answers of an index, read from its folder while no other process has it open.

#[path = "../../../chain/tests/index/answers.rs"]
mod of_a_snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use birdhouse_chain::{Height, Index, Profile, ScriptHash, Secret, Snapshot, TABLES};
use birdhouse_node::BlockFiles;
use birdhouse_store::{SegmentOptions, SegmentStore};
use birdhouse_testkit::ChainBuilder;
use bitcoin::constants::genesis_block;
use bitcoin::{Network, ScriptBuf};

pub(crate) use of_a_snapshot::Answers;
use of_a_snapshot::OfScript;

impl Answers {
    /// Asks about each of these scripts, and for no transaction: the blocks need not be there.
    fn of_scripts(snapshot: &Snapshot, scripts: &BTreeSet<ScriptBuf>) -> Self {
        let of = |script: &ScriptBuf| OfScript::of(snapshot, &ScriptHash::of(script.as_bytes()));
        Self {
            headers: snapshot.headers(Height(0), u32::MAX),
            scripts: scripts.iter().map(|script| (script.clone(), of(script))).collect(),
            transactions: BTreeMap::new(),
        }
    }

    pub(crate) fn without_transactions(&self) -> Self {
        let (headers, scripts) = (self.headers.clone(), self.scripts.clone());
        Self { headers, scripts, transactions: BTreeMap::new() }
    }
}

/// Returns every script that these blocks pay.
fn scripts_of(chain: &ChainBuilder) -> BTreeSet<ScriptBuf> {
    let outputs = chain.blocks().iter().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    outputs.map(|output| output.script_pubkey.clone()).collect()
}

/// Opens the index in `index_dir` and reads the answers for all scripts of a chain.
pub(crate) fn read(index_dir: &Path, blocks_dir: &Path, profile: Profile, chain: &ChainBuilder) -> Answers {
    Answers::of(&open(index_dir, blocks_dir, profile).snapshot().unwrap(), &scripts_of(chain))
}

/// The same without the transactions.
pub(crate) fn read_scripts(index_dir: &Path, blocks_dir: &Path, profile: Profile, chain: &ChainBuilder) -> Answers {
    Answers::of_scripts(&open(index_dir, blocks_dir, profile).snapshot().unwrap(), &scripts_of(chain))
}

fn open(index_dir: &Path, blocks_dir: &Path, profile: Profile) -> Index {
    let store = SegmentStore::open(index_dir, &TABLES, SegmentOptions::default()).unwrap();
    let source = BlockFiles::open(blocks_dir, Network::Regtest).unwrap();
    let genesis = genesis_block(Network::Regtest).block_hash();
    Index::open(Arc::new(store), Arc::new(source), genesis, profile, Secret([0; 16])).unwrap()
}
