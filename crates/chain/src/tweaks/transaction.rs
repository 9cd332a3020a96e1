//! The tweak of one transaction, from its bytes and the scripts that it spends.

use birdhouse_silentpayments::{Input, Summed, TWEAK_BYTES, Witness, taproot_key};
use bitcoin::{Txid, consensus};

use crate::block::{Block, Cursor, Malformed};
use crate::error::{Error, Result};
use crate::state::Snapshot;

/// Silent payments and one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionTweak {
    /// The tweak, a compressed point; `None` if the transaction cannot pay a silent payment address by its inputs.
    pub tweak: Option<[u8; TWEAK_BYTES]>,
    /// Numbers of its taproot outputs, which alone can be silent payments.
    pub outputs: Vec<u32>,
}

impl Snapshot {
    /// Returns the tweak of a transaction, whether an index keeps it or not; `None` if neither chain nor mempool has
    /// the transaction, or what it spends is unknown. Blocks before taproot are not left out.
    ///
    /// # Errors
    /// Those of [`Self::resolved`].
    pub fn tweak_of(&self, txid: Txid) -> Result<Option<TransactionTweak>> {
        let Some(found) = self.resolved(txid)?.filter(|found| !found.is_unresolved()) else { return Ok(None) };
        let scripts = found.transaction.output.iter().map(|output| output.script_pubkey.as_bytes());
        let outputs = (0..).zip(scripts).filter_map(|(vout, script)| taproot_key(script).map(|_| vout)).collect();
        if found.transaction.is_coinbase() {
            return Ok(Some(TransactionTweak { tweak: None, outputs }));
        }
        let raw = consensus::serialize(&found.transaction);
        let spent = found.prevouts.iter().map(|output| output.script_pubkey.as_bytes());
        let tweak = tweak_of(&raw, spent).map_err(|_| Error::unreadable_transaction())?;
        Ok(Some(TransactionTweak { tweak, outputs }))
    }
}

/// Returns the tweak of a serialised transaction; `None` if it cannot pay a silent payment address. `spent` are the
/// scriptPubKeys of the outputs that it spends, in the order of its inputs.
pub(crate) fn tweak_of<'s>(
    raw: &[u8],
    spent: impl Iterator<Item = &'s [u8]>,
) -> Result<Option<[u8; TWEAK_BYTES]>, Malformed> {
    let block = Block::of_transaction(raw)?;
    let scripts = block.outputs.iter().map(|output| output.script);
    let summed = summed(raw, scripts, spent)?;
    Ok(summed.map(|summed| summed.tweaked().tweak))
}

/// Returns the keys' sum and the taproot outputs of a serialised transaction; `None` if it cannot pay a silent payment
/// address. Most have no taproot output, and are not looked at further.
pub(super) fn summed<'a, 's>(
    raw: &[u8],
    scripts: impl Iterator<Item = &'a [u8]> + Clone,
    spent: impl Iterator<Item = &'s [u8]>,
) -> Result<Option<Summed<'a>>, Malformed> {
    if !scripts.clone().any(|script| taproot_key(script).is_some()) {
        return Ok(None);
    }
    Ok(Summed::of(&inputs(raw, spent)?, scripts))
}

/// Returns the inputs of a serialised transaction, with the scripts that they spend.
fn inputs<'a, 's: 'a>(raw: &'a [u8], spent: impl Iterator<Item = &'s [u8]>) -> Result<Vec<Input<'a>>, Malformed> {
    let mut cursor = Cursor::new(raw);
    cursor.take(4, "version")?;
    let mut count = cursor.length("input count")?;
    let has_witness = count == 0;
    if has_witness {
        cursor.u8("segwit flag")?;
        count = cursor.length("input count")?;
    }
    let mut inputs = Vec::with_capacity(count);
    for (_, spent_script) in (0..count).zip(spent) {
        let outpoint = cursor.array("outpoint")?;
        let len = cursor.length("scriptSig length")?;
        let script_sig = cursor.take(len, "scriptSig")?;
        cursor.take(4, "sequence")?;
        inputs.push(Input { outpoint, script_sig, witness: Witness::default(), spent_script });
    }
    if inputs.len() < count {
        return Err(cursor.malformed("spent outputs"));
    }
    for _ in 0..cursor.length("output count")? {
        cursor.take(8, "value")?;
        let len = cursor.length("scriptPubKey length")?;
        cursor.take(len, "scriptPubKey")?;
    }
    if has_witness {
        for input in &mut inputs {
            for _ in 0..cursor.length("witness count")? {
                let len = cursor.length("witness item length")?;
                input.witness.push(cursor.take(len, "witness item")?);
            }
        }
    }
    Ok(inputs)
}
