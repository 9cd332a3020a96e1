//! Pass 2: the records of one partition, sorted, and merged with the run before -> whole scripts, in order.

use crate::build::record::{Record, TxRecord};
use crate::build::runs::{RunReader, RunWriter};
use crate::build::script_state::{ScriptState, Unknown};
use crate::build::{BuildResult, RunSet};
use crate::prefix::ScriptKey;
use crate::rows::script::{self, Bucket, INLINE_MAX};
use crate::rows::{bucket_key, bucket_of, history, summary, txnum, unspent};
use crate::txnum::TxNum;

/// Where whole scripts go, ascending by key.
pub(crate) trait ScriptSink {
    fn push(&mut self, key: ScriptKey, state: &ScriptState) -> BuildResult<()>;
}

impl ScriptSink for RunWriter {
    fn push(&mut self, key: ScriptKey, state: &ScriptState) -> BuildResult<()> {
        self.push_script(key, state)
    }
}

/// Sorts the records of a partition and hands every script of them and of the earlier run to `sink`.
pub(crate) fn scripts(records: &[Record], mut earlier: RunReader, sink: &mut impl ScriptSink) -> BuildResult<()> {
    let (mut waiting, mut state) = (ScriptState::default(), ScriptState::default());
    let mut waiting_key = earlier.next_script(&mut waiting)?;
    by_script(records, |key, group| {
        while let Some(before) = waiting_key.filter(|before| *before < key) {
            sink.push(before, &waiting)?;
            waiting_key = earlier.next_script(&mut waiting)?;
        }
        if waiting_key == Some(key) {
            std::mem::swap(&mut state, &mut waiting);
            waiting_key = earlier.next_script(&mut waiting)?;
        } else {
            state.clear();
        }
        state.apply(group, Unknown::Refuse).map_err(|unknown| crate::Error::UnknownCoin { txnum: unknown.txnum })?;
        sink.push(key, &state)
    })?;
    while let Some(key) = waiting_key {
        sink.push(key, &waiting)?;
        waiting_key = earlier.next_script(&mut waiting)?;
    }
    Ok(())
}

/// Sorts records of one partition and visits those of each script, ascending by key and in the order of the chain.
pub(crate) fn by_script(
    records: &[Record],
    mut visit: impl FnMut(ScriptKey, &[Record]) -> BuildResult<()>,
) -> BuildResult<()> {
    let mut records = distribute(records);
    for same_prefix in records.chunk_by_mut(|a, b| a.prefix() == b.prefix()) {
        // Scripts that share a prefix are told apart by their check bits.
        if same_prefix.iter().any(|record| record.check() != same_prefix[0].check()) {
            same_prefix.sort_unstable_by_key(|record| (record.check(), record.place()));
        }
        for group in same_prefix.chunk_by(|a, b| a.check() == b.check()) {
            visit(group[0].key(), group)?;
        }
    }
    Ok(())
}

/// Bits of the prefix, after the partition's, that [`distribute`] tells records apart by.
const SLOT_BITS: u32 = 12;

/// Records sorted by [`Record::order`]: moved once to slots of some dozens by their next prefix bits, which are sorted in
/// the nearest cache.
fn distribute(records: &[Record]) -> Vec<Record> {
    let slot = |record: &Record| {
        let bits = record.prefix() << super::PARTITION_BITS >> (64 - SLOT_BITS);
        usize::try_from(bits).expect("twelve bits")
    };
    let mut ends = vec![0_usize; 1 << SLOT_BITS];
    for record in records {
        ends[slot(record)] += 1;
    }
    let mut starts = 0;
    for end in &mut ends {
        starts += std::mem::replace(end, starts);
    }
    // Each entry is now where its slot starts, and moves to its end while the slot fills.
    let Some(any) = records.first() else { return Vec::new() };
    let mut sorted = vec![*any; records.len()];
    for record in records {
        let place = &mut ends[slot(record)];
        sorted[*place] = *record;
        *place += 1;
    }
    let mut start = 0;
    for end in ends {
        sorted[start..end].sort_unstable_by_key(Record::order);
        start = end;
    }
    sorted
}

/// The same for transactions.
pub(crate) fn txids(
    mut records: Vec<TxRecord>,
    mut earlier: RunReader,
    mut push: impl FnMut(TxRecord) -> BuildResult<()>,
) -> BuildResult<()> {
    records.sort_unstable();
    let mut waiting = earlier.next_tx()?;
    for record in records {
        while let Some(before) = waiting.filter(|before| *before < record) {
            push(before)?;
            waiting = earlier.next_tx()?;
        }
        push(record)?;
    }
    while let Some(before) = waiting {
        push(before)?;
        waiting = earlier.next_tx()?;
    }
    Ok(())
}

/// Writes whole scripts as rows.
pub(crate) struct ScriptRows<'a, 's> {
    runs: &'a mut RunSet<'s>,
    generation: u32,
    bits: u32,
    width: usize,
    bucket: Bucket,
    bucket_number: u32,
    value: Vec<u8>,
    /// How many scripts went in.
    pub(crate) scripts: u64,
}

impl<'a, 's> ScriptRows<'a, 's> {
    /// `width` bytes hold every txnum.
    pub(crate) fn new(runs: &'a mut RunSet<'s>, generation: u32, bits: u32, width: usize) -> Self {
        let bucket = Bucket::default();
        Self { runs, generation, bits, width, bucket, bucket_number: 0, value: Vec::new(), scripts: 0 }
    }

    pub(crate) fn finish(mut self) -> BuildResult<u64> {
        self.end_bucket()?;
        Ok(self.scripts)
    }

    fn end_bucket(&mut self) -> BuildResult<()> {
        if !self.bucket.is_empty() {
            self.bucket.value(self.bits, self.width, &mut self.value);
            self.runs.push(script::TABLE, &bucket_key(self.generation, self.bucket_number), &self.value)?;
            self.bucket.clear();
        }
        Ok(())
    }

    fn push_long(&mut self, key: ScriptKey, state: &ScriptState) -> BuildResult<()> {
        for (key, value) in history::rows(key, &state.txnums) {
            self.runs.push(history::TABLE, &key, &value)?;
        }
        for (key, value) in unspent::rows(key, &state.coins) {
            self.runs.push(unspent::TABLE, &key, &value)?;
        }
        self.runs.push(summary::TABLE, &summary::key(key), &summary::value(&state.summary))
    }
}

impl ScriptSink for ScriptRows<'_, '_> {
    fn push(&mut self, key: ScriptKey, state: &ScriptState) -> BuildResult<()> {
        let bucket = bucket_of(key.prefix, self.bits);
        if bucket != self.bucket_number {
            self.end_bucket()?;
            self.bucket_number = bucket;
        }
        self.scripts += 1;
        if state.txnums.len() <= INLINE_MAX && state.coins.len() <= INLINE_MAX {
            self.bucket.push(key, &state.txnums, &state.coins);
            return Ok(());
        }
        self.bucket.push(key, &[], &[]);
        self.push_long(key, state)
    }
}

/// Writes transactions, ascending by hash, as rows.
pub(crate) struct TxnumRows<'a, 's> {
    runs: &'a mut RunSet<'s>,
    generation: u32,
    bits: u32,
    bucket: Vec<(u64, TxNum)>,
    bucket_number: u32,
}

impl<'a, 's> TxnumRows<'a, 's> {
    pub(crate) fn new(runs: &'a mut RunSet<'s>, generation: u32, bits: u32) -> Self {
        Self { runs, generation, bits, bucket: Vec::new(), bucket_number: 0 }
    }

    pub(crate) fn push(&mut self, record: TxRecord) -> BuildResult<()> {
        let bucket = bucket_of(record.hash, self.bits);
        if bucket != self.bucket_number {
            self.end_bucket()?;
            self.bucket_number = bucket;
        }
        self.bucket.push((record.hash, TxNum(record.txnum)));
        Ok(())
    }

    pub(crate) fn finish(mut self) -> BuildResult<()> {
        self.end_bucket()
    }

    fn end_bucket(&mut self) -> BuildResult<()> {
        if !self.bucket.is_empty() {
            let value = txnum::value(&self.bucket, self.bits);
            self.runs.push(txnum::TABLE, &bucket_key(self.generation, self.bucket_number), &value)?;
            self.bucket.clear();
        }
        Ok(())
    }
}
