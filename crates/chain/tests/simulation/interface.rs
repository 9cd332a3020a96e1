//! The simulation as the index sees it: a node, a source of blocks, a clock and threads.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use birdhouse_chain::source::{
    BlockId, BlockMeta, BlockSource, ChainView, FetchedBlock, FilePosition, MempoolSize, MempoolTxids, Node,
    NodeUpdate, SourceResult, Unit, Visit,
};
use birdhouse_chain::{Height, Runtime, Spawned};
use bitcoin::{BlockHash, Txid};

use crate::sim::Sim;

/// The clock and the threads of a simulation.
#[derive(Debug)]
pub(crate) struct SimRuntime(pub(crate) Arc<Sim>);

impl Runtime for SimRuntime {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn unix_time(&self) -> u64 {
        self.0.now().as_secs()
    }

    fn sleep(&self, pause: Duration, _: &AtomicBool) {
        self.0.sleep(pause);
    }

    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, _: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Spawned>> {
        let number = self.0.spawn(work);
        Ok(Box::new(SimTask { sim: Arc::clone(&self.0), number }))
    }
}

/// Work that the simulation runs.
#[derive(Debug)]
struct SimTask {
    sim: Arc<Sim>,
    number: usize,
}

impl Spawned for SimTask {
    fn is_finished(&self) -> bool {
        self.sim.tasks.is_finished(self.number, self.sim.now())
    }

    fn join(self: Box<Self>) -> thread::Result<()> {
        self.sim.tasks.remove(self.number);
        Ok(())
    }
}

impl BlockSource for Sim {
    fn describe(&self) -> String {
        "a simulated node".to_owned()
    }

    fn gives_undo_data(&self) -> bool {
        self.gives_undo()
    }

    fn chain(&self, _: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.call(|world| Ok(crate::source::chain(&world.tree, &world.node)))
    }

    fn units(&self, _: &[BlockMeta], _: Range<Height>) -> Vec<Unit> {
        unreachable!("the index is built")
    }

    fn read_unit(&self, _: &[BlockMeta], _: &Unit, _: &mut Visit<'_>) -> SourceResult<()> {
        unreachable!("the index is built")
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.call(|world| world.node.block(&world.tree, &hash))
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.call(|world| Ok(world.node.peek(&world.tree, position, offset, len)))
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        self.call(|world| world.node.read_part(&world.tree, &hash, offset, len))
    }
}

impl Node for Sim {
    fn best_block(&self) -> SourceResult<BlockId> {
        self.call(|world| Ok(world.node.best_block(&world.tree)))
    }

    fn chain_view(&self, ours: BlockHash, fork: BlockHash) -> SourceResult<ChainView> {
        self.call(|world| world.node.chain_view(&world.tree, ours, fork))
    }

    fn missing_blocks(&self, _: Height) -> SourceResult<Option<String>> {
        self.call(|_| Ok(None))
    }

    fn block_hashes(&self, heights: Range<Height>) -> SourceResult<Vec<BlockHash>> {
        self.call(|world| Ok(world.node.block_hashes(&world.tree, heights)))
    }

    fn wait_for_update(&self, known: BlockHash, timeout: Duration) -> SourceResult<NodeUpdate> {
        self.turn();
        Ok(Self::wait_for_update(self, known, timeout))
    }

    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>> {
        self.call(|world| Ok(world.node.mempool_size(world.now)))
    }

    fn mempool_txids(&self) -> SourceResult<MempoolTxids> {
        self.call(|world| Ok(world.node.mempool_txids()))
    }

    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>> {
        self.call(|world| {
            let raw = |txid: &Txid| world.node.mempool_transaction(&world.tree, txid);
            Ok(txids.iter().map(raw).collect())
        })
    }
}
