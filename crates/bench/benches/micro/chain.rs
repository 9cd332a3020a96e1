//! The chain: from a block to rows, and from rows to a history.

use std::collections::HashMap;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceError, SourceErrorKind, SourceResult, SpentBuf,
    SpentBytes, Unit, Visit,
};
use birdhouse_chain::{BuildOptions, Height, Index, Profile, ScriptHash, Secret};
use birdhouse_regtest::mix::{self, Size};
use birdhouse_regtest::script::{Form, Lock};
use birdhouse_regtest::{ChainBuilder, wallet};
use birdhouse_store::MemoryStore;
use bitcoin::consensus::encode::{VarInt, serialize};
use bitcoin::{Block, BlockHash, OutPoint, TxOut};
use criterion::{Criterion, Throughput};

/// Locks of the busy scripts begin with this number (`mix::busy_script`).
const BUSY: u32 = 710_000;
const BUSY_TXS: [u32; 3] = [10, 1000, 5000];
const SIZE: Size = Size { blocks: 20, block_txs: 400, scripts_per_form: 300, busy: &BUSY_TXS };

pub(crate) fn benches(criterion: &mut Criterion) {
    let chain = mix::sample(1, SIZE);
    let blocks = Blocks::of(&chain);
    block_to_rows(criterion, &blocks);
    history(criterion, chain.wallet(), blocks);
}

fn block_to_rows(criterion: &mut Criterion, blocks: &Blocks) {
    let largest = blocks.0.iter().max_by_key(|block| block.meta.tx_count).expect("the chain has blocks");
    let mut group = criterion.benchmark_group("chain");
    group.throughput(Throughput::Bytes(largest.bytes.len() as u64));
    group.bench_function(format!("block to rows, {} transactions", largest.meta.tx_count), |bencher| {
        bencher.iter(|| birdhouse_chain::bench::block_touches(black_box(&largest.bytes), &largest.spent));
    });
    group.finish();
}

fn history(criterion: &mut Criterion, wallet: &wallet::Wallet, blocks: Blocks) {
    let genesis = blocks.0[0].meta.hash;
    let index = Index::open(Arc::new(MemoryStore::new()), Arc::new(blocks), genesis, Profile::Full, Secret([7; 16]))
        .expect("an empty store is a new index");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = BuildOptions::modest(folder.path());
    index.build(None, &options).expect("the chain is valid");
    let snapshot = index.snapshot().unwrap_or_else(|_| panic!("the index was built"));
    let mut group = criterion.benchmark_group("history");
    for (number, txs) in (BUSY..).zip(BUSY_TXS) {
        let script = wallet.script_pubkey(Lock::new(Form::P2wpkh, number));
        let scripthash = ScriptHash::of(script.as_bytes());
        let entries = snapshot.history(&scripthash).expect("the rows are whole").len();
        assert!(entries >= txs as usize, "{entries} entries of {txs}");
        group.throughput(Throughput::Elements(entries as u64));
        group.bench_function(format!("{txs} transactions"), |bencher| {
            bencher.iter(|| snapshot.history(black_box(&scripthash)));
        });
    }
    group.finish();
}

/// The blocks of a chain with the outputs they spend; index = height.
struct Blocks(Vec<Stored>);

struct Stored {
    meta: BlockMeta,
    bytes: Vec<u8>,
    /// In the form of `/rest/spenttxouts`.
    spent: Vec<u8>,
}

impl Blocks {
    fn of(chain: &ChainBuilder) -> Self {
        let mut outputs: HashMap<OutPoint, TxOut> = HashMap::new();
        let stored = chain.blocks().iter().map(|block| {
            for tx in &block.txdata {
                let txid = tx.compute_txid();
                outputs.extend((0..).zip(&tx.output).map(|(vout, output)| (OutPoint { txid, vout }, output.clone())));
            }
            Stored::of(block, &outputs)
        });
        Self(stored.collect())
    }

    fn at(&self, hash: BlockHash) -> SourceResult<&Stored> {
        let found = self.0.iter().find(|block| block.meta.hash == hash);
        found.ok_or_else(|| SourceError { message: format!("no block {hash}"), kind: SourceErrorKind::NotFound })
    }
}

impl Stored {
    fn of(block: &Block, outputs: &HashMap<OutPoint, TxOut>) -> Self {
        let count = |count: usize| serialize(&VarInt(count as u64));
        let mut spent = count(block.txdata.len());
        for tx in &block.txdata {
            let inputs: &[_] = if tx.is_coinbase() { &[] } else { &tx.input };
            spent.extend(count(inputs.len()));
            spent.extend(inputs.iter().flat_map(|input| serialize(&outputs[&input.previous_output])));
        }
        let bytes = serialize(block);
        let meta = BlockMeta {
            hash: block.block_hash(),
            header: *bytes.first_chunk().expect("a block has a header"),
            tx_count: u32::try_from(block.txdata.len()).expect("a block has fewer than 2^32 transactions"),
            bytes: u32::try_from(bytes.len()).expect("a block is shorter than 4 GiB"),
            position: None,
        };
        Self { meta, bytes, spent }
    }
}

impl BlockSource for Blocks {
    fn describe(&self) -> String {
        "blocks in memory".to_owned()
    }

    fn chain(&self, _: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        Ok(self.0.iter().map(|block| block.meta.clone()).collect())
    }

    fn units(&self, _: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        vec![Unit { heights: (heights.start.0..heights.end.0).map(Height).collect() }]
    }

    fn read_unit(&self, _: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        unit.heights.iter().try_for_each(|height| {
            let block = &self.0[height.0 as usize];
            visit(*height, &block.bytes, SpentBytes::TxOuts(&block.spent))
        })
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let Stored { bytes, spent, .. } = self.at(hash)?;
        Ok(FetchedBlock {
            block: bytes.clone(),
            txids: None,
            spent: SpentBuf::TxOuts(spent.clone()),
            position: None,
            has_sibling: false,
        })
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        let (start, len) = (offset as usize, len as usize);
        Ok(self.at(hash)?.bytes[start..start + len].to_vec())
    }
}
