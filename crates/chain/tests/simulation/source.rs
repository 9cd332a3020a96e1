//! The block source of a first build: one branch of a tree.

use std::ops::Range;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceResult, SpentBytes, Unit, Visit,
};
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::node_state::{Form, NodeState};
use crate::tree::{BlockNumber, Tree};

/// One branch of a tree.
pub(crate) struct TreeSource {
    tree: Tree,
    node: Mutex<NodeState>,
}

impl TreeSource {
    pub(crate) fn new(tree: Tree, tip: BlockNumber, form: Form) -> Self {
        let node = Mutex::new(NodeState::new(form, &tree, tip, None));
        Self { tree, node }
    }
}

/// The branch of a node, as a build reads it.
pub(crate) fn chain(tree: &Tree, node: &NodeState) -> Vec<BlockMeta> {
    let meta = |block: &BlockNumber| {
        let mined = tree.block(*block);
        BlockMeta {
            hash: mined.hash,
            header: mined.header,
            tx_count: u32::try_from(mined.txids.len()).expect("few transactions"),
            bytes: u32::try_from(mined.bytes.len()).expect("a small block"),
            position: node.position(*block),
        }
    };
    node.path.iter().map(meta).collect()
}

impl BlockSource for TreeSource {
    fn describe(&self) -> String {
        "a simulated chain".to_owned()
    }

    fn chain(&self, _: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        Ok(chain(&self.tree, &self.node.lock()))
    }

    fn units(&self, _: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        vec![Unit { heights: (heights.start.0..heights.end.0).map(Height).collect() }]
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        unit.heights.iter().try_for_each(|height| {
            let block = self.tree.find(&chain[height.0 as usize].hash).expect("a block of the tree");
            let mined = self.tree.block(block);
            visit(*height, &mined.bytes, SpentBytes::Undo(&mined.undo))
        })
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.node.lock().block(&self.tree, &hash)
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        self.node.lock().read_part(&self.tree, &hash, offset, len)
    }
}
