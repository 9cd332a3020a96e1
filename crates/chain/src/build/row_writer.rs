//! Pass 2 of the last generation: whole scripts and transactions become rows.

use crate::build::merge::ScriptSink;
use crate::build::record::TxRecord;
use crate::build::run_set::RunSet;
use crate::build::script_state::ScriptState;
use crate::error::Result;
use crate::prefix::ScriptKey;
use crate::rows::script::{self, Bucket, INLINE_MAX};
use crate::rows::{bucket_key, bucket_of, history, summary, txnum, unspent};
use crate::txnum::TxNum;

/// Writes whole scripts as rows, ascending by key.
pub(crate) struct ScriptRowWriter<'a, 's> {
    runs: &'a mut RunSet<'s>,
    generation: u32,
    bits: u32,
    width: usize,
    bucket: Bucket,
    bucket_number: u32,
    value: Vec<u8>,
    /// Scripts written.
    scripts: u64,
}

impl<'a, 's> ScriptRowWriter<'a, 's> {
    /// `width` bytes hold every txnum.
    pub(crate) fn new(runs: &'a mut RunSet<'s>, generation: u32, bits: u32, width: usize) -> Self {
        let bucket = Bucket::default();
        Self { runs, generation, bits, width, bucket, bucket_number: 0, value: Vec::new(), scripts: 0 }
    }

    /// Writes the last bucket. Returns the number of scripts written.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.end_bucket()?;
        Ok(self.scripts)
    }

    fn end_bucket(&mut self) -> Result<()> {
        if !self.bucket.is_empty() {
            self.bucket.value(self.bits, self.width, &mut self.value);
            self.runs.push(script::TABLE, &bucket_key(self.generation, self.bucket_number), &self.value)?;
            self.bucket.clear();
        }
        Ok(())
    }

    fn push_long(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
        for (key, value) in history::rows(key, &state.txnums) {
            self.runs.push(history::TABLE, &key, &value)?;
        }
        for (key, value) in unspent::rows(key, &state.coins) {
            self.runs.push(unspent::TABLE, &key, &value)?;
        }
        self.runs.push(summary::TABLE, &summary::key(key), &summary::value(&state.summary))
    }
}

impl ScriptSink for ScriptRowWriter<'_, '_> {
    fn push(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
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

/// Writes transactions as rows, ascending by hash.
pub(crate) struct TxnumRowWriter<'a, 's> {
    runs: &'a mut RunSet<'s>,
    generation: u32,
    bits: u32,
    bucket: Vec<(u64, TxNum)>,
    bucket_number: u32,
}

impl<'a, 's> TxnumRowWriter<'a, 's> {
    pub(crate) fn new(runs: &'a mut RunSet<'s>, generation: u32, bits: u32) -> Self {
        Self { runs, generation, bits, bucket: Vec::new(), bucket_number: 0 }
    }

    pub(crate) fn push(&mut self, record: TxRecord) -> Result<()> {
        let bucket = bucket_of(record.hash, self.bits);
        if bucket != self.bucket_number {
            self.end_bucket()?;
            self.bucket_number = bucket;
        }
        self.bucket.push((record.hash, TxNum(record.txnum)));
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.end_bucket()
    }

    fn end_bucket(&mut self) -> Result<()> {
        if !self.bucket.is_empty() {
            let value = txnum::value(&self.bucket, self.bits);
            self.runs.push(txnum::TABLE, &bucket_key(self.generation, self.bucket_number), &value)?;
            self.bucket.clear();
        }
        Ok(())
    }
}
