//! Verification: compares the stored rows with the blocks.
//!
//! The rows of a range of blocks are rebuilt from the source and compared with the rows that queries read: headers,
//! txids, positions, and for every script touched its transactions and coins in that range. Over the whole chain the
//! comparison is complete: every script's history, coins and summary are equal, and there is no other row.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::block::BlockTouches;
use crate::build::{
    BuildOptions, Naming, NumberedBlock, Record, ScriptState, Spool, Unknown, by_script, each_record, in_parallel,
};
use crate::error::{Error, Result};
use crate::names::{Height, ScriptKey, TxNum};
use crate::outside::{BlockMeta, SourceError, SourceErrorKind, SpentBytes};
use crate::rows::{self, Found, HeaderRow, Pack, Part, Tally, bucket_of, long, recent};
use crate::state::{ChainBlock, Snapshot};

/// Differences that a report describes; later ones are only counted.
const DESCRIBED_MAX: usize = 20;
const PARTITIONS: usize = 256;
const HEADER_BYTES: u32 = 80;
/// Blocks whose stored positions are tried before all are believed.
const PLACES_TRIED: usize = 200;
/// Bytes of the records of one transaction, about.
const RECORD_BYTES_PER_TX: u64 = 160;

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Blocks read from the source.
    pub blocks: u64,
    /// Their transactions.
    pub txs: u64,
    /// Scripts compared.
    pub scripts: u64,
    /// Rows that differ from the blocks.
    pub differences: u64,
    /// Descriptions of the first differences.
    pub described: Vec<String>,
}

/// One verification at work.
struct Verify<'a> {
    snapshot: &'a Snapshot,
    chain: Vec<BlockMeta>,
    heights: Range<Height>,
    txnums: Range<TxNum>,
    blocks: AtomicU64,
    txs: AtomicU64,
    scripts: AtomicU64,
    packed_scripts: AtomicU64,
    recent_rows: AtomicU64,
    differences: Mutex<(u64, Vec<String>)>,
}

impl Snapshot {
    /// Rebuilds the rows of the blocks at `heights` and compares them with the stored ones.
    ///
    /// # Errors
    /// Failures to read blocks or rows. Differences are not errors: the report counts them.
    pub fn verify(&self, heights: Range<Height>, options: &BuildOptions) -> Result<VerifyReport> {
        let end = heights.end.min(Height(self.tip().height.0 + 1));
        let heights = heights.start.min(end)..end;
        let first = self.headers.get(heights.start).map_or(self.headers.end_txnum(), |block| block.first_txnum);
        let last = self.headers.get(end).map_or(self.headers.end_txnum(), |block| block.first_txnum);
        let verify = Verify {
            snapshot: self,
            chain: self.metas(&heights)?,
            heights,
            txnums: first..last,
            blocks: AtomicU64::new(0),
            txs: AtomicU64::new(0),
            scripts: AtomicU64::new(0),
            packed_scripts: AtomicU64::new(0),
            recent_rows: AtomicU64::new(0),
            differences: Mutex::default(),
        };
        verify.run(options)
    }

    /// Returns the chain as the source has it now: a restored index may know positions in another node's files.
    fn metas(&self, heights: &Range<Height>) -> Result<Vec<BlockMeta>> {
        let metas = self.stored_metas();
        let source = &self.shared.storage.source;
        let is_placed = |block: &BlockMeta| match block.position {
            None => Ok(true),
            Some(position) => {
                let found = source.peek(position, 0, HEADER_BYTES)?;
                Ok::<_, Error>(found.is_none_or(|found| found == block.header))
            }
        };
        let range = &metas[heights.start.0 as usize..heights.end.0 as usize];
        for block in range.iter().step_by(range.len() / PLACES_TRIED + 1).chain(range.last()) {
            if !is_placed(block)? {
                tracing::info!("the blocks lie elsewhere than they did, looking for them");
                return Ok(source.chain(Some(self.tip().hash))?);
            }
        }
        Ok(metas)
    }

    fn stored_metas(&self) -> Vec<BlockMeta> {
        let blocks = (0..self.headers.len()).filter_map(|height| self.headers.get(Height(height)));
        let meta = |block: &ChainBlock| BlockMeta {
            hash: block.block_hash(),
            header: block.header,
            tx_count: block.tx_count,
            bytes: block.bytes,
            position: block.position,
        };
        blocks.map(meta).collect()
    }
}

/// A pass over the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// It compares also what is found by block.
    First,
    Later,
}

impl Verify<'_> {
    fn run(self, options: &BuildOptions) -> Result<VerifyReport> {
        std::fs::create_dir_all(&options.temp_dir).map_err(Error::io("create", &options.temp_dir))?;
        let spooled = (self.txnums.end.0 - self.txnums.start.0) * RECORD_BYTES_PER_TX;
        let per_thread = options.memory_bytes / 2 / options.threads as u64;
        let bound = options.temp_bytes.min(per_thread * PARTITIONS as u64).max(1);
        // Each pass reads all blocks and keeps the records of its share of the partitions.
        let passes = usize::try_from(spooled / bound).unwrap_or(PARTITIONS).clamp(0, PARTITIONS - 1) + 1;
        let share = PARTITIONS.div_ceil(passes);
        for pass in 0..passes {
            self.pass(pass * share..PARTITIONS.min((pass + 1) * share), options)?;
        }
        if self.is_whole() {
            self.count_rows()?;
        }
        let (differences, described) = self.differences.into_inner();
        Ok(VerifyReport {
            blocks: self.blocks.into_inner(),
            txs: self.txs.into_inner(),
            scripts: self.scripts.into_inner(),
            differences,
            described,
        })
    }

    fn is_whole(&self) -> bool {
        self.heights.start == Height(0) && self.heights.end.0 == self.snapshot.headers.len()
    }

    fn pass(&self, partitions: Range<usize>, options: &BuildOptions) -> Result<()> {
        let spool: Spool<Record> = Spool::create(&options.temp_dir, "verify", PARTITIONS)?;
        let source = &self.snapshot.shared.storage.source;
        let pass = if partitions.start == 0 { Pass::First } else { Pass::Later };
        let units = source.units(&self.chain, self.heights.clone());
        let next = AtomicUsize::new(0);
        in_parallel(options.threads, || {
            let mut writer = spool.writer();
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut failure = None;
                let read = source.read_unit(&self.chain, unit, &mut |height, block, spent| {
                    let mut emit = |record: Record| {
                        let partition = usize::try_from(record.prefix() >> 56).expect("one byte");
                        if partitions.contains(&partition) { writer.push(record.prefix(), record) } else { Ok(()) }
                    };
                    self.block(height, block, spent, pass, &mut emit).map_err(|error| {
                        let stop = SourceError { message: error.to_string(), kind: SourceErrorKind::Permanent };
                        failure = Some(error);
                        stop
                    })
                });
                failure.map_or(Ok(()), Err)?;
                read?;
            }
            writer.finish()
        })?;
        let next = AtomicUsize::new(partitions.start);
        in_parallel(options.threads, || {
            loop {
                let partition = next.fetch_add(1, Ordering::Relaxed);
                if partition >= partitions.end {
                    return Ok(());
                }
                let mut buckets = Buckets::default();
                by_script(&spool.take(partition)?, |key, group| self.script(key, group, &mut buckets))?;
            }
        })
    }

    fn differs(&self, what: impl FnOnce() -> String) {
        let mut differences = self.differences.lock();
        differences.0 += 1;
        if differences.1.len() < DESCRIBED_MAX {
            differences.1.push(what());
        }
    }

    fn block(
        &self,
        height: Height,
        bytes: &[u8],
        spent: SpentBytes<'_>,
        pass: Pass,
        emit: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let touches = BlockTouches::of(bytes, spent).map_err(|error| Error::Block { height, error })?;
        let block = self.snapshot.headers.get(height).expect("heights are below the tip");
        if bytes[..80] != block.header || touches.txids.len() != block.tx_count as usize {
            self.differs(|| format!("block {height}: the header row belongs to another block"));
            return Ok(());
        }
        let hashes: Vec<u64> = touches.txids.iter().map(|txid| self.snapshot.shared.keyer.txid(txid)).collect();
        if pass == Pass::First {
            self.blocks.fetch_add(1, Ordering::Relaxed);
            self.txs.fetch_add(touches.txids.len() as u64, Ordering::Relaxed);
            self.rows_of_block(height, block, &touches)?;
            self.transactions(height, block.first_txnum, &touches)?;
        }
        let keyer = &self.snapshot.shared.keyer;
        let numbered = NumberedBlock { touches: &touches, height, first: block.first_txnum, hashes: &hashes };
        each_record(numbered, keyer, Naming::Hash, emit)
    }

    /// Compares the rows that every block has.
    fn rows_of_block(&self, height: Height, block: &ChainBlock, touches: &BlockTouches) -> Result<()> {
        let row = HeaderRow {
            first_txnum: block.first_txnum,
            header: block.header,
            height,
            tx_count: block.tx_count,
            bytes: *touches.offsets.last().expect("offsets end with the block's size"),
            weight: touches.weight,
            // A restored index may know positions in another node's files; a transaction that is read there is proved.
            position: block.position,
        };
        let rebuilt: Vec<_> = rows::of_block(&row, &touches.offsets).collect();
        for rows in rebuilt.chunk_by(|(one, ..), (other, ..)| one == other) {
            let keys: Vec<&[u8]> = rows.iter().map(|(_, key, _)| key.as_slice()).collect();
            let stored = self.snapshot.storage.store.get_many(rows[0].0, &keys)?;
            if !stored.iter().zip(rows).all(|(stored, (.., value))| stored.as_ref() == Some(value)) {
                self.differs(|| format!("block {height}: stored rows of {} differ", rows[0].0.name));
            }
        }
        Ok(())
    }

    /// Compares txids and their lookups in one block.
    fn transactions(&self, height: Height, first: TxNum, touches: &BlockTouches) -> Result<()> {
        let snapshot = self.snapshot;
        let txnums: Vec<TxNum> = (first.0..).take(touches.txids.len()).map(TxNum).collect();
        // The lean profile stores no txids.
        if snapshot.storage.txids.is_some() && snapshot.txids_of(&txnums)? != touches.txids {
            self.differs(|| format!("block {height}: stored txids differ"));
        }
        for (candidates, txnum) in snapshot.candidates(&touches.txids)?.into_iter().zip(&txnums) {
            if !candidates.contains(txnum) {
                self.differs(|| format!("block {height}: transaction number {} is not found by its txid", txnum.0));
            }
        }
        Ok(())
    }

    fn script(&self, key: ScriptKey, group: &[Record], buckets: &mut Buckets) -> Result<()> {
        self.scripts.fetch_add(1, Ordering::Relaxed);
        let mut rebuilt = ScriptState::default();
        let unknown = if self.heights.start == Height(0) { Unknown::Refuse } else { Unknown::Ignore };
        rebuilt.apply(group, unknown)?;
        let packed = buckets.parts(self.snapshot, key)?;
        let part = self.snapshot.sum(key, packed.into_iter().map(Ok))?;
        let (mut txnums, mut coins) = (part.txnums.clone(), part.coins.clone());
        txnums.retain(|txnum| self.txnums.contains(txnum));
        coins.retain(|coin| self.txnums.contains(&coin.out.txnum));
        let name = || format!("script {:016x} from transaction number {}", key.prefix, group[0].txnum().0);
        if txnums != rebuilt.txnums {
            self.differs(|| format!("{}: history differs", name()));
        }
        if !part.spends.is_empty() {
            self.differs(|| format!("{}: no row funds some of the outputs that are spent", name()));
        }
        if self.is_whole() {
            if coins != rebuilt.coins {
                self.differs(|| format!("{}: unspent outputs differ", name()));
            }
            self.whole_script(&part, &rebuilt, name);
            self.balance(key, &rebuilt, name)
        } else {
            // Later blocks may have spent some coins.
            let known: HashSet<_> = rebuilt.coins.into_iter().collect();
            if !coins.iter().all(|coin| known.contains(coin)) {
                self.differs(|| format!("{}: unspent outputs differ", name()));
            }
            Ok(())
        }
    }

    fn whole_script(&self, part: &Part, rebuilt: &ScriptState, name: impl Fn() -> String) {
        let tables = &self.snapshot.tables;
        let touches = |pack: &&Pack| {
            let first = rebuilt.txnums.partition_point(|txnum| *txnum < pack.start);
            rebuilt.txnums.get(first).is_some_and(|txnum| *txnum < pack.end)
        };
        let packed = tables.packs.iter().filter(touches).count() as u64;
        let recent = rebuilt.txnums.len() - rebuilt.txnums.partition_point(|txnum| *txnum < self.snapshot.packs_end());
        self.packed_scripts.fetch_add(packed, Ordering::Relaxed);
        self.recent_rows.fetch_add(recent as u64, Ordering::Relaxed);
        if part.uncounted == 0 && part.inner != rebuilt.spent {
            self.differs(|| format!("{}: counts of spent outputs differ", name()));
        }
    }

    fn balance(&self, key: ScriptKey, rebuilt: &ScriptState, name: impl Fn() -> String) -> Result<()> {
        if self.snapshot.script_balance(key)? != Tally::of(&rebuilt.coins).sum {
            self.differs(|| format!("{}: balance differs", name()));
        }
        Ok(())
    }

    /// Checks that there are no rows beyond those that were compared.
    fn count_rows(&self) -> Result<()> {
        let scripts = self.snapshot.packed_script_count()?;
        let packed = self.packed_scripts.load(Ordering::Relaxed);
        if scripts != packed && self.snapshot.stale.is_empty() {
            self.differs(|| format!("{scripts} scripts are packed instead of {packed}"));
        }
        let mut recent_rows = 0;
        for delta in &self.snapshot.tables.deltas {
            let table = recent::table(delta);
            self.snapshot.reader().scan(table, &[], |(key, _)| {
                let (_, txnum) = recent::decode_key(key).map_err(Error::malformed(table))?;
                recent_rows += u64::from(self.snapshot.is_live(txnum));
                Ok(())
            })?;
        }
        let recent = self.recent_rows.load(Ordering::Relaxed);
        if recent_rows != recent {
            self.differs(|| format!("{recent_rows} rows of recent blocks instead of {recent}"));
        }
        Ok(())
    }
}

/// The row of the last bucket read in each pack. Scripts arrive in the order of buckets.
#[derive(Default)]
struct Buckets(Vec<(Option<u32>, Option<Vec<u8>>)>);

impl Buckets {
    /// The parts of a script in the packs, the oldest first.
    fn parts(&mut self, snapshot: &Snapshot, key: ScriptKey) -> Result<Vec<Part>> {
        let packs = &snapshot.tables.packs;
        self.0.resize(packs.len(), (None, None));
        let mut parts = Vec::new();
        for (pack, (number, row)) in packs.iter().zip(&mut self.0) {
            let bucket = bucket_of(key.prefix, pack.script_bits);
            if *number != Some(bucket) {
                *row = snapshot.bucket(pack, bucket)?;
                *number = Some(bucket);
            }
            parts.push(match Snapshot::found_in(pack, row.as_deref(), key)? {
                None => Part::default(),
                Some(Found::Inline(part)) => part,
                Some(Found::Long) => snapshot.long_part(pack, key, long::ALL)?,
            });
        }
        Ok(parts)
    }
}
