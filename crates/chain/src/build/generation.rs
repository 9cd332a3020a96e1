//! One generation of the build: pass 1 over some blocks, then their records as sorted runs.

use zerocopy::IntoBytes as _;

use crate::build::context::Build;
use crate::build::emit::Emit;
use crate::build::funding::Naming;
use crate::build::merge::write_run;
use crate::build::parallel::in_stripes;
use crate::build::record::{PARTITION_BITS, Record};
use crate::build::runs::{RunHead, RunWriter, gap_bytes};
use crate::build::spool::{Positions, Spool};
use crate::build::temp_files::{sync_names, write_durably};
use crate::build::txids::Txids;
use crate::derived::Taking;
use crate::error::Result;
use crate::names::{Height, KeyLength, Keyer, TxNum};
use crate::outside::BlockMeta;

/// Partitions of script records, a power of two.
pub(super) const SCRIPT_PARTITIONS: usize = 256;
/// Buckets never span partitions.
const _: () = assert!(SCRIPT_PARTITIONS == 1 << PARTITION_BITS);
/// Consecutive partitions that one thread sorts.
const STRIPE: usize = 16;
/// Blocks are read in windows of about this many bytes; the size of the spool is compared with its bound between them.
const WINDOW_BYTES: u64 = 4 << 30;
/// The most generations of a build, whatever the bound on temporary disk: their runs are read together.
const GENERATIONS_MAX: u64 = 256;

/// About one record in three is the first of its script.
pub(crate) const RECORDS_PER_SCRIPT: u64 = 3;

/// Kind of the files of sorted runs, and of the records that are not packed.
pub(super) const RUNS: &str = "run";
pub(super) const TIP: &str = "tip";

/// One generation at work: its input and its temporary files.
pub(super) struct Generation<'a> {
    pub(super) build: &'a Build<'a>,
    pub(super) number: u32,
    /// Its first block.
    pub(super) start: Height,
    pub(super) first_txnums: &'a [TxNum],
    pub(super) keyer: &'a Keyer,
    pub(super) txids: &'a Txids<'a>,
    pub(crate) scripts: &'a Spool<Record>,
    /// Bytes of records after which it ends.
    pub(super) spool_bytes_max: u64,
    pub(super) positions: Positions,
}

impl Generation<'_> {
    /// Pass 1, window by window, until the height `limit` or until the spool is full. Returns the height after the last
    /// block.
    pub(super) fn read(&self, limit: Height) -> Result<Height> {
        let Build { source, chain, options, progress, .. } = *self.build;
        let spool_bytes_max = self.spool_bytes_max;
        let block_bytes_min = bytes(chain) / GENERATIONS_MAX;
        let mut at = self.start;
        let takings = Taking::begin(self.build.derived, chain, self.start);
        let emit = Emit {
            source,
            chain,
            first_txnums: self.first_txnums,
            keyer: self.keyer,
            scripts: self.scripts,
            txids: self.txids,
            positions: &self.positions,
            progress,
            takings: &takings,
        };
        while at < limit {
            let end = window_end(&chain[..limit.0 as usize], at, WINDOW_BYTES.min(spool_bytes_max / 2));
            emit.run(&source.units(chain, at..end), options.threads)?;
            at = end;
            let left = u32::try_from(chain.len()).expect("heights fit 32 bits") - at.0;
            if self.scripts.bytes() >= spool_bytes_max
                && left > options.reorg_blocks
                && bytes(&chain[self.start.0 as usize..at.0 as usize]) >= block_bytes_min
            {
                break;
            }
        }
        takings.into_iter().for_each(Taking::finish);
        Ok(at)
    }

    /// Sorts the records into runs, one a partition. The last generation keeps those of transactions from `packs_end`
    /// on as they are. All of it is durable afterwards.
    pub(super) fn write_runs(&self, packs_end: Option<TxNum>, key_length: KeyLength) -> Result<()> {
        let build = self.build;
        build.progress.start_sorting(SCRIPT_PARTITIONS as u64);
        let (base, naming) = (self.first_txnums[self.start.0 as usize], Naming::of(build.source));
        in_stripes(build.options.threads, SCRIPT_PARTITIONS, STRIPE, |mut stripe| {
            stripe.try_for_each(|partition| {
                build.progress.check()?;
                build.progress.add_partition();
                let mut records = self.scripts.take(partition)?;
                if let Some(packs_end) = packs_end {
                    let tip: Vec<Record> = records.extract_if(.., |record| record.txnum() >= packs_end).collect();
                    write_durably(&build.run_file(TIP, self.number, partition), tip.as_slice().as_bytes())?;
                }
                let path = build.run_file(RUNS, self.number, partition);
                let gap_bytes = gap_bytes(records.len() as u64 / RECORDS_PER_SCRIPT);
                let mut run = RunWriter::create(path, RunHead { base, naming, gap_bytes }, key_length)?;
                write_run(&records, &mut run)?;
                run.finish()
            })
        })?;
        self.txids.sync()?;
        self.positions.save(&build.block_file("blocks", self.number))?;
        sync_names(&build.options.temp_dir)
    }
}

pub(super) fn bytes(blocks: &[BlockMeta]) -> u64 {
    blocks.iter().map(|block| u64::from(block.bytes)).sum()
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
