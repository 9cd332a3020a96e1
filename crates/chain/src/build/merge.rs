//! Pass 2: sorts the records of one partition into whole scripts in order, as a run or as rows.

use crate::build::merged_runs::MergedRuns;
use crate::build::record::{PARTITION_BITS, Record};
use crate::build::row_writer::BuildRows;
use crate::build::runs::RunWriter;
use crate::build::script_state::{ScriptState, Unknown};
use crate::build::sort::sorted;
use crate::error::Result;
use crate::names::{ScriptKey, TxNum};

/// Sorts the records of a partition into a run.
pub(super) fn write_run(records: &[Record], run: &mut RunWriter) -> Result<()> {
    let mut state = ScriptState::default();
    by_script(records, |key, group| {
        state.clear();
        state.apply(group, Unknown::Keep)?;
        run.push(key, &state)
    })
}

/// Sorts the records of a partition, merges them with the runs of earlier blocks, and writes the rows of every script:
/// its state before `packs_end`, then what each transaction from there on did.
pub(super) fn write_rows(
    records: &[Record],
    mut earlier: MergedRuns<'_>,
    packs_end: TxNum,
    rows: &mut BuildRows<'_, '_>,
) -> Result<()> {
    let (mut waiting, mut state) = (ScriptState::default(), ScriptState::default());
    let mut waiting_key = earlier.next(&mut waiting)?;
    by_script(records, |key, group| {
        while let Some(before) = waiting_key.filter(|before| *before < key) {
            rows.push(before, &waiting)?;
            waiting_key = earlier.next(&mut waiting)?;
        }
        if waiting_key == Some(key) {
            std::mem::swap(&mut state, &mut waiting);
            waiting_key = earlier.next(&mut waiting)?;
        } else {
            state.clear();
        }
        let (packed, tip) = group.split_at(group.partition_point(|record| record.txnum() < packs_end));
        state.apply(packed, Unknown::Refuse)?;
        if !state.txnums.is_empty() {
            rows.push(key, &state)?;
        }
        if tip.is_empty() {
            return Ok(());
        }
        earlier.tip_rows(&state, tip)?.iter().try_for_each(|(txnum, row)| rows.push_tip(key, *txnum, row))
    })?;
    while let Some(key) = waiting_key {
        rows.push(key, &waiting)?;
        waiting_key = earlier.next(&mut waiting)?;
    }
    Ok(())
}

/// Sorts records of one partition and visits those of each script, ascending by key and in the order of the chain.
pub(crate) fn by_script(records: &[Record], mut visit: impl FnMut(ScriptKey, &[Record]) -> Result<()>) -> Result<()> {
    let mut records = sorted(&[records], PARTITION_BITS, Record::order);
    for same_prefix in records.chunk_by_mut(|one, other| one.prefix() == other.prefix()) {
        order_by_check(same_prefix);
        for group in same_prefix.chunk_by(|one, other| one.check() == other.check()) {
            visit(group[0].key(), group)?;
        }
    }
    Ok(())
}

/// Returns records of one partition sorted by script, then in the order of the chain.
pub(crate) fn by_key(records: &[Record]) -> Vec<Record> {
    let mut records = sorted(&[records], PARTITION_BITS, Record::order);
    records.chunk_by_mut(|one, other| one.prefix() == other.prefix()).for_each(order_by_check);
    records
}

/// Sorts records by check, which distinguishes scripts that share a prefix.
fn order_by_check(same_prefix: &mut [Record]) {
    if same_prefix.iter().any(|record| record.check() != same_prefix[0].check()) {
        same_prefix.sort_unstable_by_key(|record| (record.check(), record.position()));
    }
}
