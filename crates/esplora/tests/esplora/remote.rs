//! An index that was built over the node's REST interface, without its files.

use std::sync::Arc;

use birdhouse_chain::{BuildOptions, Index, Profile, Secret};
use birdhouse_node::{Auth, RestSource, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::Options;
use birdhouse_testkit::live::LiveNode;
use bitcoin::Network;
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;

use crate::world::SMALL;

#[test]
fn blocks_that_were_read_over_rest_have_their_sizes_and_bytes() {
    let live = LiveNode::start(171, SMALL, Options::default()).unwrap();
    let address = format!("127.0.0.1:{}", live.node().rpc_port());
    let rpc = Rpc::new(&address, Auth::Cookie(live.node().cookie()));
    let source = Arc::new(RestSource::open(&rpc, Network::Regtest).unwrap());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let store = Arc::new(MemoryStore::new());
    let index = Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap();
    let temp = tempfile::tempdir().unwrap();
    index.build(None, &BuildOptions::modest(temp.path())).unwrap();
    let at = index.snapshot().unwrap();
    for mined in live.ledger().chain() {
        let height = at.block_height(&mined.hash).unwrap();
        let bytes = serialize(&mined.block);
        let size = u32::try_from(bytes.len()).unwrap();
        assert_eq!(at.block_summary(height).unwrap().bytes, size, "{height}");
        assert_eq!(at.block_bytes(height, 0..size).unwrap(), Some(bytes), "{height}");
    }
}
