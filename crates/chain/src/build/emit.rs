//! Pass 1: turns blocks into records, in parallel and in any order.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::block::{BlockError, BlockTouches, Origin, ProvedBlock};
use crate::build::funding::Naming;
use crate::build::parallel::in_parallel;
use crate::build::progress::Progress;
use crate::build::record::{Record, Side};
use crate::build::spool::{Positions, Spool, SpoolWriter};
use crate::build::txids::Txids;
use crate::derived::Taking;
use crate::error::{Error, Result};
use crate::names::{Height, Keyer, ScriptHash, TxNum};
use crate::outside::{BlockMeta, BlockSource, SourceError, SourceErrorKind, SpentBytes, Unit};

/// Input and output of pass 1.
pub(super) struct Emit<'a> {
    pub(crate) source: &'a dyn BlockSource,
    pub(crate) chain: &'a [BlockMeta],
    /// First txnum of every block of `chain`.
    pub(super) first_txnums: &'a [TxNum],
    pub(super) keyer: &'a Keyer,
    pub(crate) scripts: &'a Spool<Record>,
    pub(super) txids: &'a Txids<'a>,
    pub(super) positions: &'a Positions,
    pub(crate) progress: &'a Progress,
    /// Derived indexes that take each block.
    pub(super) takings: &'a [Taking<'a>],
}

impl Emit<'_> {
    /// Reads all units on `threads` threads.
    pub(super) fn run(&self, units: &[Unit], threads: usize) -> Result<()> {
        let next = AtomicUsize::new(0);
        in_parallel(threads, || {
            let mut worker = Worker { emit: self, scripts: self.scripts.writer(), failure: None };
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.progress.check()?;
                worker.unit(unit).inspect_err(|_| next.store(units.len(), Ordering::Relaxed))?;
            }
            worker.scripts.finish()
        })
    }
}

struct Worker<'a> {
    emit: &'a Emit<'a>,
    scripts: SpoolWriter<'a, Record>,
    /// The error of a callback, kept while the source returns.
    failure: Option<Error>,
}

impl Worker<'_> {
    fn unit(&mut self, unit: &Unit) -> Result<()> {
        let read = self.emit.source.read_unit(self.emit.chain, unit, &mut |height, block, spent| {
            self.block(height, block, spent).map_err(|error| {
                let stopped = SourceError { message: error.to_string(), kind: SourceErrorKind::Permanent };
                self.failure = Some(error);
                stopped
            })
        });
        match (read, self.failure.take()) {
            (_, Some(failure)) => Err(failure),
            (read, None) => read.map_err(Error::from),
        }
    }

    fn block(&mut self, height: Height, block: &[u8], spent: SpentBytes<'_>) -> Result<()> {
        let meta = &self.emit.chain[height.0 as usize];
        let refused = |error| Error::Block { height, error };
        let proved = ProvedBlock::of(block, spent).map_err(refused)?;
        if block[..80] == meta.header {
            self.emit.takings.iter().for_each(|taking| taking.take(height, &proved));
        }
        let touches = BlockTouches::of_proved(proved).map_err(refused)?;
        if block[..80] != meta.header || touches.txids.len() != meta.tx_count as usize {
            return Err(Error::Block { height, error: BlockError::MerkleRoot });
        }
        let first = self.emit.first_txnums[height.0 as usize];
        self.emit.positions.push(height, touches.weight, &touches.offsets)?;
        let hashes: Vec<u64> = touches.txids.iter().map(|txid| self.emit.keyer.txid(txid)).collect();
        self.emit.txids.write(first, &touches.txids, &hashes)?;
        let naming = Naming::of(self.emit.source);
        let names = self.emit.source.outpoint_txids(height);
        let names = names.map(|names| names.iter().map(|txid| self.emit.keyer.txid(txid)).collect());
        let hashes = names.unwrap_or(hashes);
        let numbered = NumberedBlock { touches: &touches, height, first, hashes: &hashes };
        each_record(numbered, self.emit.keyer, naming, |record| self.scripts.push(record.prefix(), record))?;
        self.emit.progress.add_block(block.len() as u64);
        self.emit.progress.check()
    }
}

/// A block whose transactions have numbers.
pub(crate) struct NumberedBlock<'a> {
    pub(crate) touches: &'a BlockTouches,
    pub(crate) height: Height,
    /// The number of its first transaction.
    pub(crate) first: TxNum,
    /// The keyed hashes of the txids by which inputs name its transactions.
    pub(crate) hashes: &'a [u64],
}

/// Passes on the records of one block: those of its outputs, then those of its spent outputs.
///
/// # Errors
/// [`Error::Block`] with a number that consensus does not allow; the errors of `push`.
pub(crate) fn each_record(
    NumberedBlock { touches, height, first, hashes }: NumberedBlock<'_>,
    keyer: &Keyer,
    naming: Naming,
    mut push: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let refused = || Error::Block { height, error: BlockError::SpentCount };
    let txnum = |tx: u32| TxNum(first.0 + u64::from(tx));
    for funded in &touches.funded {
        let key = keyer.script(&ScriptHash(funded.scripthash));
        let origin = Origin { height, is_coinbase: funded.tx == 0 };
        let funding = naming.name(hashes[funded.tx as usize], Some(origin)).ok_or_else(refused)?;
        let record = Record::new(key, Side::Funded, txnum(funded.tx), funded.vout, funded.value, funding);
        push(record.ok_or_else(refused)?)?;
    }
    for spent in &touches.spent {
        let key = keyer.script(&ScriptHash(spent.scripthash));
        let funding = naming.name(keyer.txid(&spent.prev_txid), spent.origin).ok_or_else(refused)?;
        let record = Record::new(key, Side::Spent, txnum(spent.tx), spent.prev_vout, spent.value, funding);
        push(record.ok_or_else(refused)?)?;
    }
    Ok(())
}
