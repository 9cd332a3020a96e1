//! New blocks whose records lie on disk, from which one pack is written.
//!
//! As in the first build, records are spooled by partition, and sorted one partition at a time when rows are written. A
//! spent output meets the output of the same blocks by the name of its funding transaction, so nothing is looked up.
//! The height in undo data tells which outputs earlier blocks funded: their transactions are looked up, many at a time,
//! and the records have the number in place of the name.
//!
//! The files have no names, so none outlives the process that writes them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::block::{BlockTouches, SpendingInput};
use crate::build::{
    NUMBERS_END, Naming, NumberedBlock, Record, ScriptState, Side, Spool, SpoolWriter, TxRecord, Unknown, by_key,
    each_record, sorted,
};
use crate::error::{Error, Result};
use crate::merging::fresh::{PARTITIONS, coin, groups};
use crate::names::{Height, Keyer, TxNum};
use crate::query::Funding;
use crate::rows::{Coin, Part, SHARE_BITS_MAX, Share, txnum};

/// Records that are counted by script, at least; in whole partitions, for keyed hashes are spread evenly. A third of
/// them are the first of their script, so the count errs by some hundredths.
const COUNTED_RECORDS: u64 = 1 << 14;
/// Bits of the hash that choose the partition of a transaction: the scripts' partitions take enough files.
const HASH_BITS: u32 = 6;
const _: () = assert!(SHARE_BITS_MAX <= HASH_BITS);

/// Blocks that follow each other, as records on disk.
pub(crate) struct Spooled {
    /// The height of the first block.
    start: Height,
    scripts: Spool<Record>,
    /// The part of each transaction's hash that packs keep.
    hashes: Spool<TxRecord>,
    /// Bytes of all records, buffered ones included.
    bytes: AtomicU64,
    scripts_about: u64,
}

/// Writes blocks, in any order, beside other writers.
pub(crate) struct SpooledWriter<'a> {
    spooled: &'a Spooled,
    scripts: SpoolWriter<'a, Record>,
    hashes: SpoolWriter<'a, TxRecord>,
}

/// An output of an earlier block that a spooled block spends.
pub(crate) struct EarlierSpend {
    /// The keyed hash of the txid.
    hash: u64,
    funding: Funding,
    record: Record,
}

impl Spooled {
    /// Creates empty files in a folder, for the blocks from the height `start` on.
    pub(crate) fn create(dir: &Path, start: Height) -> Result<Self> {
        let scripts = Spool::create(dir, "behind-scripts", PARTITIONS)?;
        let hashes = Spool::create(dir, "behind-hashes", 1 << HASH_BITS)?;
        Ok(Self { start, scripts, hashes, bytes: AtomicU64::new(0), scripts_about: 0 })
    }

    /// A buffer in front of the files, for one thread.
    pub(crate) fn writer(&self) -> SpooledWriter<'_> {
        SpooledWriter { spooled: self, scripts: self.scripts.writer(), hashes: self.hashes.writer() }
    }

    /// Bytes of all records so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the longest partition of scripts, as far as they are written: all records of one script are in one.
    pub(crate) fn longest(&self) -> u64 {
        self.scripts.longest()
    }

    /// Estimates the number of scripts, when all blocks were written.
    pub(crate) fn count_scripts(&mut self) -> Result<()> {
        let all = self.scripts.bytes() / size_of::<Record>() as u64;
        let step = (all / COUNTED_RECORDS).clamp(1, PARTITIONS as u64 / 2);
        let (mut counted, mut scripts) = (0, 0);
        for number in (0..PARTITIONS).step_by(usize::try_from(step).expect("at most half of the partitions")) {
            scripts += groups(&by_key(&self.scripts.read(number)?)).count() as u64;
            counted += 1;
        }
        self.scripts_about = scripts * PARTITIONS as u64 / counted;
        Ok(())
    }

    pub(super) fn scripts_about(&self) -> u64 {
        self.scripts_about
    }

    /// Takes the records of a partition, by script, then in the order of the chain.
    pub(super) fn partition(&self, number: usize) -> Result<Vec<Record>> {
        Ok(by_key(&self.scripts.take(number)?))
    }

    /// Takes the transactions of a share: the part of each hash that packs keep, with the txnum; ascending, in lists
    /// that follow each other.
    pub(super) fn kept_hashes(&self, share: Share) -> impl Iterator<Item = Result<Vec<(u64, TxNum)>>> {
        share.partitions(HASH_BITS).map(|number| {
            let records = sorted(&[&self.hashes.take(number)?], HASH_BITS, TxRecord::order);
            Ok(records.iter().map(|record| (record.hash, TxNum(record.txnum))).collect())
        })
    }

    /// Adds the records of a script to the part of what came before. `state` is any.
    pub(super) fn add(records: &[Record], state: &mut ScriptState, part: &mut Part) -> Result<()> {
        state.clear();
        state.apply(records, Unknown::Keep)?;
        state.check_whole_but(|name| name < NUMBERS_END)?;
        let earlier = records.iter().filter(|record| record.side() == Side::Spent && record.funding() < NUMBERS_END);
        let mut spends: Vec<Coin> = earlier.map(|record| coin(record, TxNum(record.funding()))).collect();
        spends.sort_unstable();
        let before = std::mem::take(part);
        std::mem::swap(&mut part.txnums, &mut state.txnums);
        std::mem::swap(&mut part.coins, &mut state.coins);
        (part.spends, part.inner) = (spends, std::mem::take(&mut state.spent));
        if before.txnums.is_empty() {
            // Memory for the next script.
            (state.txnums, state.coins) = (before.txnums, before.coins);
        } else {
            let next = std::mem::replace(part, before);
            part.append(&next);
        }
        Ok(())
    }
}

impl SpooledWriter<'_> {
    /// Adds a block, whose transactions begin at `first`. Returns what it spends of blocks before the spooled ones.
    ///
    /// # Errors
    /// [`Error::Block`] with a number that consensus does not allow, or without the place of a spent output; failures
    /// of the file system.
    pub(crate) fn push(
        &mut self,
        touches: &BlockTouches,
        height: Height,
        first: TxNum,
        keyer: &Keyer,
    ) -> Result<Vec<EarlierSpend>> {
        let hashes: Vec<u64> = touches.txids.iter().map(|txid| keyer.txid(txid)).collect();
        for (hash, txnum) in hashes.iter().zip(first.0..) {
            self.hashes.push(*hash, TxRecord { hash: txnum::kept(*hash, keyer.length()), txnum })?;
        }
        let mut earlier = Vec::new();
        let mut inputs = touches.spent.iter();
        let numbered = NumberedBlock { touches, height, first, hashes: &hashes };
        each_record(numbered, keyer, Naming::Place, |record| {
            if record.side() == Side::Spent {
                let input = inputs.next().expect("a record for each spent output");
                if input.origin.is_some_and(|origin| origin.height < self.spooled.start) {
                    earlier.push(EarlierSpend::of(input, record, keyer));
                    return Ok(());
                }
            }
            self.scripts.push(record.prefix(), record)
        })?;
        let records = touches.funded.len() + touches.spent.len();
        let bytes = records * size_of::<Record>() + hashes.len() * size_of::<TxRecord>();
        self.spooled.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(earlier)
    }

    /// Adds spends of earlier blocks. `look_up` finds the funding transactions, which it gets in the order of their
    /// rows, at most `at_once` of them.
    ///
    /// # Errors
    /// Those of `look_up`; [`Error::UnknownTransaction`] if it does not find one; failures of the file system.
    pub(crate) fn push_earlier(
        &mut self,
        mut spends: Vec<EarlierSpend>,
        at_once: usize,
        mut look_up: impl FnMut(&[Funding]) -> Result<Vec<Option<TxNum>>>,
    ) -> Result<()> {
        spends.sort_unstable_by_key(|spend| spend.hash);
        let same = |one: &EarlierSpend, other: &EarlierSpend| one.hash == other.hash && one.funding == other.funding;
        let groups: Vec<&[EarlierSpend]> = spends.chunk_by(same).collect();
        for some in groups.chunks(at_once.max(1)) {
            let fundings: Vec<Funding> = some.iter().map(|group| group[0].funding).collect();
            for ((group, funding), found) in some.iter().zip(&fundings).zip(look_up(&fundings)?) {
                let unknown = || Error::UnknownTransaction { txid: Txid::from_byte_array(funding.txid) };
                let found = found.ok_or_else(unknown)?;
                for EarlierSpend { record, .. } in *group {
                    let mut record = *record;
                    record.set_funding(found.0);
                    self.scripts.push(record.prefix(), record)?;
                }
            }
        }
        Ok(())
    }

    /// Writes out what is buffered.
    pub(crate) fn finish(self) -> Result<()> {
        self.scripts.finish()?;
        self.hashes.finish()
    }
}

impl EarlierSpend {
    fn of(input: &SpendingInput, record: Record, keyer: &Keyer) -> Self {
        let funding = Funding { txid: input.prev_txid, height: input.origin.map(|origin| origin.height) };
        Self { hash: keyer.txid(&input.prev_txid), funding, record }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::block::{Funded, Origin};
    use crate::merging::new_blocks::NewBlocks;
    use crate::names::{KeyLength, ScriptKey, Secret};

    const START: Height = Height(100);

    fn keyer() -> Keyer {
        Keyer::new(Secret([1; 16]), KeyLength::Wide)
    }

    fn txid(number: u64) -> [u8; 32] {
        let mut txid = [7; 32];
        txid[..8].copy_from_slice(&number.to_le_bytes());
        txid
    }

    /// A block of one transaction that funds a script for each of `outputs`.
    fn block(number: u64, outputs: std::ops::Range<u32>) -> BlockTouches {
        let funded = |vout: u32| Funded { scripthash: txid(vout.into()), tx: 0, vout, value: 50 };
        BlockTouches { txids: vec![txid(number)], funded: outputs.map(funded).collect(), ..BlockTouches::default() }
    }

    #[test]
    fn scripts_are_counted_and_hashes_ascend_whether_few_or_many() {
        for outputs in [0, 1000, 300_000] {
            let folder = tempfile::tempdir().unwrap();
            let mut spooled = Spooled::create(folder.path(), START).unwrap();
            let mut writer = spooled.writer();
            for number in 0..200 {
                // Some scripts are funded in each block.
                let outputs = if number < 2 { 0..outputs } else { 0..0 };
                let height = Height(START.0 + u32::try_from(number).unwrap());
                writer.push(&block(number, outputs), height, TxNum(1000 + number), &keyer()).unwrap();
            }
            writer.finish().unwrap();
            let records = u64::from(outputs) * 2;
            assert_eq!(spooled.bytes(), records * 32 + 200 * 16);
            spooled.count_scripts().unwrap();
            let (about, exact) = (spooled.scripts_about(), u64::from(outputs));
            assert!(about.abs_diff(exact) <= exact / 20, "{about} of {exact} scripts");
            let mut hashes: Vec<(u64, TxNum)> = Vec::new();
            for share in Share::each(SHARE_BITS_MAX) {
                spooled.kept_hashes(share).for_each(|list| hashes.extend(list.unwrap()));
            }
            let kept = |number: u64| txnum::kept(keyer().txid(&txid(number)), KeyLength::Wide);
            let mut expected: Vec<(u64, TxNum)> = (0..200).map(|number| (kept(number), TxNum(1000 + number))).collect();
            expected.sort_unstable();
            assert_eq!(hashes, expected);
        }
    }

    #[test]
    fn spends_meet_outputs_of_the_same_blocks_and_earlier_ones_are_looked_up_in_portions() {
        let folder = tempfile::tempdir().unwrap();
        let spooled = Spooled::create(folder.path(), START).unwrap();
        let mut writer = spooled.writer();
        let spend = |number: u64, height: u32| SpendingInput {
            scripthash: txid(0),
            tx: 0,
            prev_txid: txid(number),
            prev_vout: 0,
            value: 50,
            origin: Some(Origin { height: Height(height), is_coinbase: true }),
        };
        assert!(writer.push(&block(1, 0..1), START, TxNum(1000), &keyer()).unwrap().is_empty());
        let spent = vec![spend(1, 100), spend(71, 71), spend(72, 72), spend(73, 73), spend(72, 72)];
        let second = BlockTouches { spent, ..block(2, 0..0) };
        let earlier = writer.push(&second, Height(101), TxNum(1001), &keyer()).unwrap();
        let mut portions = Vec::new();
        let look_up = |fundings: &[Funding]| {
            portions.push(fundings.len());
            Ok(fundings.iter().map(|funding| funding.height.map(|height| TxNum(height.0.into()))).collect())
        };
        writer.push_earlier(earlier, 2, look_up).unwrap();
        writer.finish().unwrap();
        assert_eq!(portions, [2, 1]);
        let blocks = NewBlocks::Spooled(spooled);
        let (mut part, mut scripts) = (Part::default(), blocks.scripts(Share::ALL).unwrap());
        let key: ScriptKey = scripts.key().unwrap();
        scripts.add_to(key, &mut part).unwrap();
        assert_eq!((scripts.key(), part.coins.len(), part.inner.count), (None, 0, 1));
        assert_eq!(part.txnums, [TxNum(1000), TxNum(1001)]);
        assert_eq!(part.spends.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>(), [71, 72, 72, 73]);
    }

    #[test]
    fn a_funding_transaction_that_is_not_found_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let spooled = Spooled::create(folder.path(), START).unwrap();
        let mut writer = spooled.writer();
        let origin = Some(Origin { height: Height(9), is_coinbase: false });
        let input = SpendingInput { scripthash: [1; 32], tx: 0, prev_txid: [2; 32], prev_vout: 0, value: 1, origin };
        let touches = BlockTouches { spent: vec![input], ..block(1, 0..0) };
        let earlier = writer.push(&touches, START, TxNum(5), &keyer()).unwrap();
        let error = writer.push_earlier(earlier, 9, |fundings| Ok(vec![None; fundings.len()])).err();
        assert!(matches!(error, Some(Error::UnknownTransaction { .. })), "{error:?}");
    }
}
