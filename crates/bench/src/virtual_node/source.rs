//! The chain as a block source: each block is made again whenever it is read. Only headers are kept.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceError, SourceErrorKind, SourceResult, SpentBuf,
    SpentBytes, Unit, Visit,
};
use birdhouse_chain::{Hash256, Height, ScriptHash, sha256d_many};
use birdhouse_testkit::block::{BlockPosition, mine_header};
use birdhouse_testkit::usage::thread_cpu;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Network, TxMerkleNode, consensus};
use parking_lot::Mutex;

use super::answers::{Answer, Sample};
use super::encode::{Encoder, Made};
use super::layout::Layout;
use super::places::Script;

/// Bytes of a unit, about.
const UNIT_BYTES: u64 = 16 << 20;
/// Blocks that were made for parts of them and are kept.
const KEPT: usize = 8;
/// Offset of a block in a file of its own: after the header of its record.
const OFFSET: u32 = 8;

/// A node whose blocks are made again from the height whenever they are read.
pub(crate) struct VirtualNode {
    pub(super) encoder: Encoder,
    chain: Vec<BlockMeta>,
    /// Parts that were read, as blocks.
    kept: Mutex<Vec<Kept>>,
    /// CPU time of making blocks that were read, in nanoseconds.
    making_ns: AtomicU64,
}

struct Kept {
    height: u64,
    block: Vec<u8>,
}

/// Contents of a header that depend on the transactions.
#[derive(Debug, Clone, Copy, Default)]
struct Digest {
    merkle_root: Hash256,
    bytes: u32,
}

impl VirtualNode {
    /// Makes the headers of a chain, for which every block is made once, on `threads` threads.
    pub(crate) fn make(layout: Layout, threads: usize) -> Self {
        let encoder = Encoder::new(layout);
        let digests = digests(&encoder, threads);
        let genesis = genesis_block(Network::Bitcoin);
        let meta = |header: &bitcoin::block::Header, height: u64, bytes, tx_count| BlockMeta {
            hash: header.block_hash(),
            header: consensus::serialize(header).try_into().expect("a header has 80 bytes"),
            tx_count,
            bytes,
            position: Some(FilePosition { file: u32::try_from(height).expect("heights fit"), offset: OFFSET }),
        };
        let bytes = u32::try_from(consensus::serialize(&genesis).len()).expect("it is small");
        let mut chain = vec![meta(&genesis.header, 0, bytes, 1)];
        for (height, Digest { merkle_root, bytes }) in (1..).zip(digests) {
            let prev = chain[chain.len() - 1].hash;
            let position = BlockPosition { height: u32::try_from(height).expect("heights fit"), prev, salt: 0 };
            let header = mine_header(position, TxMerkleNode::from_byte_array(merkle_root));
            let txs = encoder.layout.first_txnum(height + 1) - encoder.layout.first_txnum(height);
            chain.push(meta(&header, height, bytes, u32::try_from(txs).expect("a block has fewer")));
        }
        Self { encoder, chain, kept: Mutex::default(), making_ns: AtomicU64::new(0) }
    }

    /// Returns the numbers of the chain.
    pub(crate) fn layout(&self) -> &Layout {
        &self.encoder.layout
    }

    /// Returns the bytes of all blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.chain.iter().map(|block| u64::from(block.bytes)).sum()
    }

    /// Returns the CPU time of making the blocks that were read.
    pub(crate) fn making_cpu(&self) -> Duration {
        Duration::from_nanos(self.making_ns.load(Ordering::Relaxed))
    }

    /// Returns the hash of a script.
    pub(crate) fn scripthash(&self, script: Script) -> ScriptHash {
        self.encoder.scripthash(script)
    }

    /// Returns everything about a script, from the numbers of the chain alone.
    pub(crate) fn answer(&self, script: Script) -> Answer {
        self.encoder.answer(script)
    }

    /// Returns random scripts of every length, `count` in all, about; a few of those with the longest histories.
    pub(crate) fn samples(&self, count: usize, seed: u64) -> Vec<Sample> {
        self.encoder.samples(count, seed)
    }

    /// Makes a block; the bytes of the genesis block are those of mainnet.
    pub(super) fn put_block(&self, height: u64, made: &mut Made, block: &mut Vec<u8>) {
        block.clear();
        if height == 0 {
            block.extend(consensus::serialize(&genesis_block(Network::Bitcoin)));
            made.undo.clear();
            made.undo.push(0);
            return;
        }
        let before = thread_cpu();
        self.encoder.block(height, made);
        block.extend_from_slice(&self.chain[usize::try_from(height).expect("a height")].header);
        block.extend_from_slice(&made.body);
        let spent = thread_cpu().saturating_sub(before).as_nanos();
        self.making_ns.fetch_add(u64::try_from(spent).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn height_of(&self, hash: BlockHash) -> SourceResult<u64> {
        let at = self.chain.iter().position(|block| block.hash == hash);
        at.map(|at| at as u64).ok_or_else(|| not_found(format!("failed to find block {hash}: no block has this hash")))
    }

    fn part(&self, height: u64, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        let range = offset as usize..offset as usize + len as usize;
        let cut = |block: &[u8]| {
            block
                .get(range.clone())
                .map(<[u8]>::to_vec)
                .ok_or_else(|| not_found(format!("failed to read a part of block {height}: it is shorter")))
        };
        if let Some(kept) = self.kept.lock().iter().find(|kept| kept.height == height) {
            return cut(&kept.block);
        }
        let mut block = Vec::new();
        self.put_block(height, &mut Made::default(), &mut block);
        let part = cut(&block);
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Kept { height, block });
        part
    }
}

fn not_found(message: String) -> SourceError {
    SourceError { message, kind: SourceErrorKind::NotFound }
}

/// The merkle root and the size of every block after the genesis block.
fn digests(encoder: &Encoder, threads: usize) -> Vec<Digest> {
    const BATCH: u64 = 64;
    let blocks = encoder.layout.blocks();
    let digests = Mutex::new(vec![Digest::default(); usize::try_from(blocks - 1).expect("heights fit")]);
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut made = Made::default();
                loop {
                    let start = next.fetch_add(BATCH, Ordering::Relaxed);
                    if start >= blocks {
                        return;
                    }
                    for height in start..blocks.min(start + BATCH) {
                        encoder.block(height, &mut made);
                        let bytes = u32::try_from(80 + made.body.len()).expect("a block is smaller");
                        let digest = Digest { merkle_root: merkle_root(&made), bytes };
                        digests.lock()[usize::try_from(height - 1).expect("heights fit")] = digest;
                    }
                }
            });
        }
    });
    digests.into_inner()
}

fn merkle_root(made: &Made) -> Hash256 {
    let mut hashes = Vec::new();
    sha256d_many(&made.stripped(), &mut hashes);
    while hashes.len() > 1 {
        if hashes.len() % 2 == 1 {
            hashes.push(hashes[hashes.len() - 1]);
        }
        let pairs: Vec<&[u8]> = hashes.chunks_exact(2).map(<[Hash256]>::as_flattened).collect();
        let mut above = Vec::new();
        sha256d_many(&pairs, &mut above);
        hashes = above;
    }
    hashes[0]
}

impl BlockSource for VirtualNode {
    fn describe(&self) -> String {
        format!("a made-up chain of {} blocks", self.chain.len())
    }

    fn gives_undo_data(&self) -> bool {
        true
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let end = tip.map_or(Ok(self.chain.len() as u64 - 1), |tip| self.height_of(tip))?;
        Ok(self.chain[..=usize::try_from(end).expect("a height")].to_vec())
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        let (mut units, mut heights_of_unit, mut bytes) = (Vec::new(), Vec::new(), 0);
        for height in heights.start.0..heights.end.0 {
            heights_of_unit.push(Height(height));
            bytes += u64::from(chain[height as usize].bytes);
            if bytes >= UNIT_BYTES {
                units.push(Unit { heights: std::mem::take(&mut heights_of_unit) });
                bytes = 0;
            }
        }
        units.extend((!heights_of_unit.is_empty()).then_some(Unit { heights: heights_of_unit }));
        units
    }

    fn read_unit(&self, _: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        let (mut made, mut block) = (Made::default(), Vec::new());
        unit.heights.iter().try_for_each(|height| {
            self.put_block(height.0.into(), &mut made, &mut block);
            visit(*height, &block, SpentBytes::Undo(&made.undo))
        })
    }

    fn outpoint_txids(&self, height: Height) -> Option<Vec<Hash256>> {
        let first = |height: u32| self.encoder.layout.first_txnum(height.into());
        Some((first(height.0)..first(height.0 + 1)).map(|txnum| self.encoder.name(txnum)).collect())
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let height = self.height_of(hash)?;
        let (mut made, mut block) = (Made::default(), Vec::new());
        self.put_block(height, &mut made, &mut block);
        let position = self.chain[usize::try_from(height).expect("a height")].position;
        Ok(FetchedBlock { block, txids: None, spent: SpentBuf::Undo(made.undo), position, has_sibling: false })
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.part(position.file.into(), offset, len).map(Some)
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        let height = position.map_or_else(|| self.height_of(hash), |position| Ok(position.file.into()))?;
        self.part(height, offset, len)
    }
}
