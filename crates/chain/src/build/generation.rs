//! One generation of the build: pass 1 over some blocks, then pass 2 into runs or rows.

use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::Array;
use parking_lot::Mutex;

use crate::build::context::Build;
use crate::build::emit::Emit;
use crate::build::merge::{merge_scripts, merge_txids};
use crate::build::options::BuildReport;
use crate::build::parallel::in_stripes;
use crate::build::progress::Phase;
use crate::build::record::{PARTITION_BITS, Record, TxRecord};
use crate::build::row_writer::{BuildRows, TxnumRowWriter};
use crate::build::run_set::RunSet;
use crate::build::runs::{RunReader, RunWriter};
use crate::build::spool::{Positions, Spool};
use crate::build::temp_files::sync_names;
use crate::error::Result;
use crate::manifest::{Manifest, State};
use crate::prefix::Keyer;
use crate::rows::header::{self, HeaderRow};
use crate::rows::pack::{Delta, Pack};
use crate::rows::{self, bucket_bits, recent_txnum, script, txnum, txpos};
use crate::source::BlockMeta;
use crate::txnum::{Height, TxNum};

/// Partitions of script records, and of transaction records. Powers of two.
pub(crate) const SCRIPT_PARTITIONS: usize = 256;
pub(crate) const TXID_PARTITIONS: usize = 64;
/// Buckets never span partitions.
const _: () = assert!(SCRIPT_PARTITIONS == 1 << PARTITION_BITS && TXID_PARTITIONS <= SCRIPT_PARTITIONS);
/// Consecutive partitions that one thread merges into the same bulk runs.
const STRIPE: usize = 16;
/// Blocks are read in windows of about this many bytes; the size of the spool is compared with its bound between them.
const WINDOW_BYTES: u64 = 4 << 30;

/// One generation at work: its input and its temporary files.
pub(crate) struct Generation<'a> {
    pub(crate) build: &'a Build<'a>,
    pub(crate) number: u32,
    /// Its first block.
    pub(crate) start: Height,
    pub(crate) first_txnums: &'a [TxNum],
    pub(crate) keyer: &'a Keyer,
    /// The array of txids, in the full profile.
    pub(crate) array: Option<&'a dyn Array>,
    pub(crate) scripts: Spool<Record>,
    pub(crate) txids: Spool<TxRecord>,
    pub(crate) positions: Positions,
}

impl Generation<'_> {
    /// Pass 1, window by window, until the chain ends or the spool is full. Returns the height after the last block.
    pub(crate) fn read(&self, start: Height) -> Result<Height> {
        let Build { source, chain, options, progress, .. } = *self.build;
        let spool_bytes_max = options.spool_bytes_max(SCRIPT_PARTITIONS);
        let mut at = start;
        let emit = Emit {
            source,
            chain,
            first_txnums: self.first_txnums,
            keyer: self.keyer,
            scripts: &self.scripts,
            txids: &self.txids,
            positions: &self.positions,
            txid_array: self.array,
            progress,
        };
        while (at.0 as usize) < chain.len() {
            let end = window_end(chain, at, WINDOW_BYTES.min(spool_bytes_max));
            emit.run(&source.units(chain, at..end), options.threads)?;
            at = end;
            let left = u32::try_from(chain.len()).expect("heights fit 32 bits") - at.0;
            if self.scripts.bytes() >= spool_bytes_max && left > options.reorg_blocks {
                break;
            }
        }
        Ok(at)
    }

    /// Pass 2 of every generation but the last: merges the records with the earlier runs into new runs.
    pub(crate) fn merge_into_runs(&self) -> Result<()> {
        let build = self.build;
        build.progress.start(Phase::Sorting, 0, (SCRIPT_PARTITIONS + TXID_PARTITIONS) as u64);
        self.each_partition(SCRIPT_PARTITIONS, |partition| {
            let mut sink = RunWriter::create(build.run_file("scripts", self.number, partition))?;
            let records = self.scripts.take(partition)?;
            merge_scripts(&records, self.earlier("scripts", partition)?, TxNum(TxNum::LIMIT), &mut sink)?;
            sink.finish()
        })?;
        self.each_partition(TXID_PARTITIONS, |partition| {
            let mut sink = RunWriter::create(build.run_file("txids", self.number, partition))?;
            let earlier = self.earlier("txids", partition)?;
            merge_txids(self.txids.take(partition)?, earlier, |record| sink.push_tx(record))?;
            sink.finish()
        })?;
        self.positions.save(&build.block_file("blocks", self.number))?;
        sync_names(&build.options.temp_dir)
    }

    /// Runs `work` for every partition, in parallel.
    fn each_partition(&self, partitions: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        let progress = self.build.progress;
        in_stripes(self.build.options.threads, partitions, STRIPE, |mut stripe| {
            stripe.try_for_each(|partition| {
                progress.check()?;
                progress.add_partition();
                work(partition)
            })
        })
    }

    /// The run of the generation before; empty for the first.
    fn earlier(&self, kind: &str, partition: usize) -> Result<RunReader> {
        let before = self.number - 1;
        RunReader::open((before > 0).then(|| self.build.run_file(kind, before, partition)))
    }

    /// Pass 2 of the last generation: turns records and earlier runs into rows, which one publish makes visible.
    pub(crate) fn merge_into_rows(&self, manifest: &mut Manifest) -> Result<BuildReport> {
        let build = self.build;
        let store = build.store;
        build.progress.start(Phase::Sorting, 0, (SCRIPT_PARTITIONS + TXID_PARTITIONS) as u64);
        for table in rows::TABLES {
            store.clear(table)?;
        }
        let blocks = build.chain.len();
        // A generation before this one has packed its blocks.
        let packed = blocks.saturating_sub(build.tip_blocks as usize).max(self.start.0 as usize);
        let packs_end = self.first_txnums[packed];
        let txs = packs_end.0;
        // About one record in three is the first of its script.
        let scripts_about = (self.scripts.bytes() / size_of::<Record>() as u64 / 3).max(txs);
        let pack = Pack {
            slot: 0,
            key_length: manifest.key_length,
            script_bits: bucket_bits(scripts_about, script::PER_BUCKET).max(PARTITION_BITS),
            txnum_bits: bucket_bits(txs, txnum::PER_BUCKET).max(PARTITION_BITS),
            start: TxNum(0),
            end: packs_end,
            scripts: 0,
        };
        let delta = Delta { slot: 0, start: packs_end };
        let runs = Mutex::new(Vec::new());
        let (packed_scripts, scripts) = (AtomicU64::new(0), AtomicU64::new(0));
        let keep = |set: RunSet| -> Result<()> {
            runs.lock().extend(set.finish()?);
            Ok(())
        };
        in_stripes(build.options.threads, SCRIPT_PARTITIONS, STRIPE, |stripe| {
            let mut set = RunSet::new(store);
            for partition in stripe {
                build.progress.check()?;
                let mut rows = BuildRows::new(&mut set, pack, delta);
                merge_scripts(
                    &self.scripts.take(partition)?,
                    self.earlier("scripts", partition)?,
                    pack.end,
                    &mut rows,
                )?;
                let written = rows.finish()?;
                packed_scripts.fetch_add(written.packed, Ordering::Relaxed);
                scripts.fetch_add(written.all, Ordering::Relaxed);
                build.progress.add_partition();
            }
            keep(set)
        })?;
        in_stripes(build.options.threads, TXID_PARTITIONS, STRIPE, |stripe| {
            let mut set = RunSet::new(store);
            for partition in stripe {
                build.progress.check()?;
                let mut rows = TxnumRowWriter::new(pack);
                let earlier = self.earlier("txids", partition)?;
                merge_txids(self.txids.take(partition)?, earlier, |record| {
                    if record.txnum < pack.end.0 {
                        return rows.push(&mut set, record.hash, TxNum(record.txnum));
                    }
                    let key = recent_txnum::key(record.hash, TxNum(record.txnum));
                    set.push(recent_txnum::table(&delta), &key, &[])
                })?;
                rows.finish(&mut set)?;
                build.progress.add_partition();
            }
            keep(set)
        })?;
        keep(self.blocks_as_rows()?)?;
        store.bulk_load(runs.into_inner())?;
        let pack = Pack { scripts: packed_scripts.into_inner(), ..pack };
        manifest.packs = if txs > 0 { vec![pack] } else { Vec::new() };
        manifest.deltas = vec![delta];
        manifest.stale.clear();
        manifest.live.clear();
        manifest.extend(TxNum(0), manifest.next);
        manifest.state = State::Ready(build.id(Height(u32::try_from(blocks - 1).expect("heights fit 32 bits"))));
        store.publish(&manifest.encode())?;
        Ok(BuildReport { blocks: blocks as u64, txs: manifest.next.0, scripts: scripts.into_inner() })
    }

    /// The `header` and `txpos` rows of every block, of this generation and of those before.
    fn blocks_as_rows(&self) -> Result<RunSet<'_>> {
        let build = self.build;
        let mut set = RunSet::new(build.store);
        let mut push = |height: Height, weight: u32, offsets: &[u32]| {
            let meta = &build.chain[height.0 as usize];
            let row = HeaderRow {
                first_txnum: self.first_txnums[height.0 as usize],
                header: meta.header,
                height,
                tx_count: meta.tx_count,
                // A source without files does not know the size before it has read the block.
                bytes: *offsets.last().expect("offsets end with the block's size"),
                weight,
                position: meta.position,
            };
            set.push(header::TABLE, &header::key(row.first_txnum), &header::value(&row))?;
            for (key, value) in txpos::rows(row.first_txnum, offsets) {
                set.push(txpos::TABLE, &rows::txnum_bytes(key), &value)?;
            }
            Ok(())
        };
        for number in 1..self.number {
            let positions =
                Positions::load(build.block_file("positions", number), &build.block_file("blocks", number))?;
            positions.for_each(&mut push)?;
        }
        self.positions.for_each(&mut push)?;
        Ok(set)
    }
}

/// The height after a window of blocks of about `bytes`.
fn window_end(chain: &[BlockMeta], start: Height, bytes: u64) -> Height {
    let mut sum = 0;
    let end = chain[start.0 as usize..].iter().position(|block| {
        sum += u64::from(block.bytes);
        sum >= bytes
    });
    let len = end.map_or(chain.len() - start.0 as usize, |last| last + 1);
    Height(start.0 + u32::try_from(len).expect("heights fit 32 bits"))
}
