//! Core's own index of spenders (`txospenderindex`), beside the blocks of a node.

use std::ops::Range;
use std::sync::Arc;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, NodeError, SourceResult, Unit, Visit,
};
use bitcoin::{BlockHash, OutPoint, Txid};
use serde::Deserialize;
use serde_json::json;

use crate::rpc::Rpc;
use crate::text::Parsed;

/// A source of blocks whose node is asked for spenders.
pub(crate) struct WithSpenders {
    pub(crate) source: Box<dyn BlockSource>,
    pub(crate) rpc: Arc<Rpc>,
}

/// One answer of `gettxspendingprevout`.
#[derive(Deserialize)]
struct SpentOutput {
    /// Absent where the output is unspent, or where the node keeps no index.
    spendingtxid: Option<Parsed<Txid>>,
}

impl BlockSource for WithSpenders {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn gives_undo_data(&self) -> bool {
        self.source.gives_undo_data()
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.source.chain(tip)
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        self.source.units(chain, heights)
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        self.source.read_unit(chain, unit, visit)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.source.block(hash)
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.source.peek(position, offset, len)
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        self.source.read_part(hash, position, offset, len)
    }

    fn spending_txids(&self, outputs: &[OutPoint]) -> SourceResult<Vec<Txid>> {
        let asked: Vec<_> = outputs.iter().map(|output| json!({ "txid": output.txid, "vout": output.vout })).collect();
        // Without options the node asks its index, if it has one, after its mempool (Core's `rpc/mempool.cpp`).
        match self.rpc.call::<Vec<SpentOutput>>("gettxspendingprevout", &json!([asked])) {
            Ok(spent) => Ok(spent.into_iter().filter_map(|output| Some(output.spendingtxid?.0)).collect()),
            // A node before Core 24 does not know the method, and an index may not have caught up.
            Err(NodeError::Rejected { .. }) => Ok(Vec::new()),
            Err(NodeError::Unavailable(error)) => Err(error),
        }
    }
}
