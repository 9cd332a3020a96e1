//! Whole scripts and transactions become the rows of a pack.

use crate::build::run_set::RunSet;
use crate::build::script_state::ScriptState;
use crate::error::Result;
use crate::names::{ScriptKey, TxNum};
use crate::rows::{
    Bucket, Delta, Pack, PartSlices, Recent, Summary, Tally, bucket_key, bucket_of, long, recent, script, txnum,
};

/// Writes the scripts of a pack, ascending by key.
pub(crate) struct ScriptRowWriter {
    pack: Pack,
    bucket: Bucket,
    bucket_number: u32,
    value: Vec<u8>,
    /// Scripts written.
    scripts: u64,
}

impl ScriptRowWriter {
    pub(crate) fn new(pack: Pack) -> Self {
        Self { pack, bucket: Bucket::default(), bucket_number: 0, value: Vec::new(), scripts: 0 }
    }

    /// Writes one script. `summary` is asked for only if the script is long.
    pub(crate) fn push(
        &mut self,
        runs: &mut RunSet<'_>,
        key: ScriptKey,
        part: PartSlices<'_>,
        summary: impl FnOnce() -> Summary,
    ) -> Result<()> {
        let bucket = bucket_of(key.prefix, self.pack.script_bits);
        if bucket != self.bucket_number {
            self.end_bucket(runs)?;
            self.bucket_number = bucket;
        }
        self.scripts += 1;
        self.bucket.push(&self.pack, key, part);
        if part.is_long() {
            for (key, value) in long::rows(key, &summary(), part) {
                runs.push(long::table(&self.pack), &key, &value)?;
            }
        }
        Ok(())
    }

    /// Writes the last bucket. Returns the number of scripts written.
    pub(crate) fn finish(mut self, runs: &mut RunSet<'_>) -> Result<u64> {
        self.end_bucket(runs)?;
        Ok(self.scripts)
    }

    fn end_bucket(&mut self, runs: &mut RunSet<'_>) -> Result<()> {
        if !self.bucket.is_empty() {
            self.bucket.take_value(&self.pack, &mut self.value);
            runs.push(script::table(&self.pack), &bucket_key(self.bucket_number), &self.value)?;
        }
        Ok(())
    }
}

/// Writes the transactions of a pack, ascending by hash.
pub(crate) struct TxnumRowWriter {
    pack: Pack,
    bucket: Vec<(u64, TxNum)>,
    bucket_number: u32,
}

impl TxnumRowWriter {
    pub(crate) fn new(pack: Pack) -> Self {
        Self { pack, bucket: Vec::new(), bucket_number: 0 }
    }

    pub(crate) fn push(&mut self, runs: &mut RunSet<'_>, hash: u64, txnum: TxNum) -> Result<()> {
        let bucket = bucket_of(hash, self.pack.txnum_bits);
        if bucket != self.bucket_number {
            self.end_bucket(runs)?;
            self.bucket_number = bucket;
        }
        self.bucket.push((hash, txnum));
        Ok(())
    }

    pub(crate) fn finish(mut self, runs: &mut RunSet<'_>) -> Result<()> {
        self.end_bucket(runs)
    }

    fn end_bucket(&mut self, runs: &mut RunSet<'_>) -> Result<()> {
        if !self.bucket.is_empty() {
            let value = txnum::value(&self.bucket, &self.pack);
            runs.push(txnum::table(&self.pack), &bucket_key(self.bucket_number), &value)?;
            self.bucket.clear();
        }
        Ok(())
    }
}

/// Writes the rows of the build: those of its pack, and those of the delta after it.
pub(super) struct BuildRows<'a, 's> {
    runs: &'a mut RunSet<'s>,
    delta: Delta,
    packed: ScriptRowWriter,
    /// Scripts that have rows of either kind.
    scripts: u64,
    last: Option<ScriptKey>,
}

/// Numbers of scripts written.
pub(super) struct ScriptsWritten {
    /// Those in the pack.
    pub(super) packed: u64,
    pub(super) all: u64,
}

impl<'a, 's> BuildRows<'a, 's> {
    pub(super) fn new(runs: &'a mut RunSet<'s>, pack: Pack, delta: Delta) -> Self {
        Self { runs, delta, packed: ScriptRowWriter::new(pack), scripts: 0, last: None }
    }

    pub(super) fn finish(self) -> Result<ScriptsWritten> {
        Ok(ScriptsWritten { packed: self.packed.finish(self.runs)?, all: self.scripts })
    }

    fn count(&mut self, key: ScriptKey) {
        self.scripts += u64::from(self.last != Some(key));
        self.last = Some(key);
    }

    /// Writes a packed script. Keys ascend.
    pub(super) fn push(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
        self.count(key);
        let part = PartSlices { txnums: &state.txnums, coins: &state.coins, spends: &[], inner: state.spent };
        let summary = || Summary {
            txs: state.txnums.len() as u64,
            coins: Tally::of(&state.coins),
            inner: state.spent,
            ..Summary::default()
        };
        self.packed.push(self.runs, key, part, summary)
    }

    /// Writes what a transaction that is not packed did to the script of the last [`push`](Self::push), or of a later
    /// one that has no packed transaction.
    pub(super) fn push_tip(&mut self, key: ScriptKey, txnum: TxNum, row: &Recent) -> Result<()> {
        self.count(key);
        self.runs.push(recent::table(&self.delta), &recent::key(key, txnum), &recent::value(row))
    }
}
