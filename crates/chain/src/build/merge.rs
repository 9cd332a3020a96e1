//! Pass 2: sorts the records of one partition and merges them with the run before, into whole scripts in order.

use crate::build::record::{PARTITION_BITS, Record, TxRecord};
use crate::build::runs::{RunReader, RunWriter};
use crate::build::script_state::{ScriptState, Unknown, UnknownCoin};
use crate::error::{Error, Result};
use crate::prefix::ScriptKey;
use crate::rows::recent::Recent;
use crate::txnum::TxNum;

/// Receiver of whole scripts, ascending by key.
pub(crate) trait ScriptSink {
    fn push(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()>;

    /// Receives what a transaction that is not packed did to the script of the last [`push`](Self::push), or of a
    /// later one that has no packed transaction.
    fn push_tip(&mut self, key: ScriptKey, txnum: TxNum, row: &Recent) -> Result<()>;
}

impl ScriptSink for RunWriter {
    fn push(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
        self.push_script(key, state)
    }

    fn push_tip(&mut self, _: ScriptKey, _: TxNum, _: &Recent) -> Result<()> {
        unreachable!("runs end below the blocks that are not packed")
    }
}

/// Sorts the records of a partition, merges them with the earlier run, and passes every script to `sink`: its state
/// before `packs_end`, then what each transaction from there on did.
pub(crate) fn merge_scripts(
    records: &[Record],
    mut earlier: RunReader,
    packs_end: TxNum,
    sink: &mut impl ScriptSink,
) -> Result<()> {
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
        let (packed, tip) = group.split_at(group.partition_point(|record| record.txnum() < packs_end));
        let refuse = |unknown: UnknownCoin| Error::UnknownCoin { txnum: unknown.txnum };
        state.apply(packed, Unknown::Refuse).map_err(refuse)?;
        if !state.txnums.is_empty() {
            sink.push(key, &state)?;
        }
        for (txnum, row) in state.tip_rows(tip).map_err(refuse)? {
            sink.push_tip(key, txnum, &row)?;
        }
        Ok(())
    })?;
    while let Some(key) = waiting_key {
        sink.push(key, &waiting)?;
        waiting_key = earlier.next_script(&mut waiting)?;
    }
    Ok(())
}

/// Sorts records of one partition and visits those of each script, ascending by key and in the order of the chain.
pub(crate) fn by_script(records: &[Record], mut visit: impl FnMut(ScriptKey, &[Record]) -> Result<()>) -> Result<()> {
    let mut records = distribute(records);
    for same_prefix in records.chunk_by_mut(|a, b| a.prefix() == b.prefix()) {
        // Check bits distinguish scripts that share a prefix.
        if same_prefix.iter().any(|record| record.check() != same_prefix[0].check()) {
            same_prefix.sort_unstable_by_key(|record| (record.check(), record.position()));
        }
        for group in same_prefix.chunk_by(|a, b| a.check() == b.check()) {
            visit(group[0].key(), group)?;
        }
    }
    Ok(())
}

/// Bits of the prefix, after the partition's, that choose the slot of a record in [`distribute`].
const SLOT_BITS: u32 = 12;

/// Returns the records sorted by [`Record::order`]. Each is moved once, to a slot of some dozens by its next prefix
/// bits; the slots are then sorted in the nearest cache.
fn distribute(records: &[Record]) -> Vec<Record> {
    let slot = |record: &Record| {
        let bits = record.prefix() << PARTITION_BITS >> (64 - SLOT_BITS);
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
    // Each entry is now the start of its slot, and moves to its end while the slot fills.
    let Some(any) = records.first() else { return Vec::new() };
    let mut sorted = vec![*any; records.len()];
    for record in records {
        let next = &mut ends[slot(record)];
        sorted[*next] = *record;
        *next += 1;
    }
    let mut start = 0;
    for end in ends {
        sorted[start..end].sort_unstable_by_key(Record::order);
        start = end;
    }
    sorted
}

/// Sorts the transactions of a partition, merges them with the earlier run, and passes each to `push`.
pub(crate) fn merge_txids(
    mut records: Vec<TxRecord>,
    mut earlier: RunReader,
    mut push: impl FnMut(TxRecord) -> Result<()>,
) -> Result<()> {
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
