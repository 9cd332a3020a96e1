//! The rows of a block, written one by one: a thread may stop between two and leave the rest to another.

use std::collections::HashMap;

use birdhouse_chain::{
    Error, Height, Result, ScriptHash, ScriptOutput, Snapshot, Spender, TweakOutput, TweakOutputs, TweakRow, TweakRows,
    Tweaks, giving_way,
};
use bitcoin::Txid;

use super::coding::{Transaction, Written};
use crate::protocol::{SpentPayments, TweakCoding, TweakForm};

/// A block whose first rows are written.
#[derive(Debug)]
pub(crate) struct TweakBlock {
    form: TweakForm,
    /// `None` below the first block that has any.
    rows: Option<TweakRows>,
    txids: Vec<Txid>,
    /// Rows that are written, or left out.
    seen: usize,
    written: Written,
}

// === impl TweakBlock ===

impl TweakBlock {
    /// Reads the rows of a block; `None` if the index does not cover it.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn read(form: TweakForm, tweaks: &Tweaks, at: &Snapshot, height: u32) -> Result<Option<Self>> {
        let (written, height) = (Written::new(form.coding, height), Height(height));
        if height < tweaks.start() {
            return Ok(Some(Self { form, rows: None, txids: Vec::new(), seen: 0, written }));
        }
        let Some(rows) = giving_way(|| tweaks.read(at, height..Height(height.0 + 1)))? else { return Ok(None) };
        let txids = if rows.is_empty() { Vec::new() } else { at.txids_of_block(height)?.ok_or(Error::NoBlocks)? };
        Ok(Some(Self { form, rows: Some(rows), txids, seen: 0, written }))
    }

    /// Writes rows until all are written, or `is_over` after one. Returns true if all are.
    ///
    /// # Errors
    /// Failures of store and node.
    pub(crate) fn advance(&mut self, at: &Snapshot, is_over: impl Fn() -> bool) -> Result<bool> {
        let Some(rows) = &self.rows else { return Ok(true) };
        for row in rows.iter().skip(self.seen) {
            self.seen += 1;
            let txid = *self.txids.get(row.position as usize).ok_or(Error::NoBlocks)?;
            let outputs: Vec<TweakOutput> = row.outputs.iter().flat_map(TweakOutputs::iter).collect();
            if let Some(spenders) = giving_way(|| spenders(self.form, at, &row, &outputs))? {
                let (outputs, spenders) = (&outputs[..], &spenders);
                self.written.put(&Transaction { txid, tweak: row.tweak, outputs, spenders });
            }
            if is_over() {
                return Ok(self.seen == rows.len());
            }
        }
        Ok(true)
    }

    /// Returns the members of the object that clients read, once all rows are written.
    pub(crate) fn finish(self) -> String {
        self.written.finish()
    }
}

/// Returns the spenders that a transaction is sent with; `None` if it is left out. Blocks alone count: what the mempool
/// spends may come back.
fn spenders(
    form: TweakForm,
    at: &Snapshot,
    row: &TweakRow<'_>,
    outputs: &[TweakOutput],
) -> Result<Option<HashMap<u32, Spender>>> {
    let TweakForm { coding, spent } = form;
    if (coding, spent) == (TweakCoding::Binary, SpentPayments::Sent) {
        return Ok(Some(HashMap::new()));
    }
    let mut asked: Vec<ScriptOutput> = outputs.iter().map(script_output).collect();
    let found = at.spent_in_blocks(row.height, row.position, &asked)?;
    if spent == SpentPayments::LeftOut && found.len() == outputs.len() {
        return Ok(None);
    }
    if coding == TweakCoding::Binary || found.is_empty() {
        return Ok(Some(HashMap::new()));
    }
    asked.retain(|output| found.contains(&output.vout));
    at.spenders_in_blocks(row.height, row.position, &asked).map(Some)
}

fn script_output(output: &TweakOutput) -> ScriptOutput {
    let mut script = [0; 34];
    script[..2].copy_from_slice(&[0x51, 0x20]);
    script[2..].copy_from_slice(&output.key);
    ScriptOutput { vout: output.vout, scripthash: ScriptHash::of(&script) }
}
