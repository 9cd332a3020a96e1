//! Outputs whose transactions the node has removed, by the rows of the scripts that their spenders show.
//!
//! Most inputs show the script that they spend from: the output has the hash of a key or of a script in them. Rows of
//! that script have the value of an output that is unspent, or that another pack spends than the one which funds it.
//! They name the output, so they also prove that it pays the script. Inputs of taproot show no script.

use bitcoin::hashes::Hash as _;
use bitcoin::script::Instruction;
use bitcoin::{
    Amount, PubkeyHash, ScriptBuf, ScriptHash as RedeemHash, Transaction, TxIn, TxOut, WPubkeyHash, WScriptHash,
};

use crate::error::Result;
use crate::names::{Hash256, ScriptHash, ScriptKey};
use crate::rows::{Kind, TxOutNum};
use crate::state::Snapshot;

/// The most outputs of one transaction that are searched for in rows: its first ones.
const OUTPUTS_MAX: usize = 128;

impl Snapshot {
    /// Adds those outputs that rows have, one for each input of the transaction.
    pub(super) fn add_from_rows(&self, transaction: &Transaction, prevouts: &mut [Option<TxOut>]) -> Result<()> {
        let mut unknown: Vec<(&TxIn, &mut Option<TxOut>)> =
            transaction.input.iter().zip(prevouts).filter(|(_, known)| known.is_none()).collect();
        unknown.truncate(OUTPUTS_MAX);
        if unknown.is_empty() {
            return Ok(());
        }
        let txids: Vec<Hash256> = unknown.iter().map(|(input, _)| input.previous_output.txid.to_byte_array()).collect();
        self.budget.charge_lookups(txids.len())?;
        for ((input, prevout), txnum) in unknown.iter_mut().zip(self.find_txnums(&txids)?) {
            let (Some(script), Some(txnum)) = (script_of(input), txnum) else { continue };
            let out = TxOutNum { txnum, vout: input.previous_output.vout };
            let value = self.value_of(self.key_of(&ScriptHash::of(script.as_bytes()))?, out)?;
            **prevout = value.map(|sat| TxOut { value: Amount::from_sat(sat), script_pubkey: script });
        }
        Ok(())
    }

    /// The value of an output of a script in satoshis, if a row has it.
    fn value_of(&self, key: ScriptKey, out: TxOutNum) -> Result<Option<u64>> {
        for (txnum, row) in self.recent(key, out.txnum)? {
            let funded = row.funded.iter().find(|(vout, _)| txnum == out.txnum && *vout == out.vout);
            let spent = row.spent.iter().find(|coin| coin.out == out);
            if let Some(value) = funded.map(|(_, value)| *value).or(spent.map(|coin| coin.value)) {
                return Ok(Some(value));
            }
        }
        for pack in self.packs_with(key).filter(|pack| out.txnum < pack.end) {
            let kind = if pack.start <= out.txnum { Kind::Coins } else { Kind::Spends };
            if let Some(coin) = self.packed_output(pack, key, kind, out)? {
                return Ok(Some(coin.value));
            }
        }
        Ok(None)
    }
}

/// The script of the output that an input spends, as the input shows it; `None` where it shows none. An input of
/// another form than this one supposes gets a script that the output does not pay.
fn script_of(input: &TxIn) -> Option<ScriptBuf> {
    let pushes = input.script_sig.instructions().map_while(Result::ok);
    let pushes: Vec<&[u8]> = pushes
        .filter_map(|push| match push {
            Instruction::PushBytes(bytes) => Some(bytes.as_bytes()),
            Instruction::Op(_) => None,
        })
        .collect();
    match (&pushes[..], input.witness.last()) {
        ([], Some(key)) if input.witness.len() == 2 && is_key(key) => {
            Some(ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(key)))
        }
        ([], last) => last.map(|script| ScriptBuf::new_p2wsh(&WScriptHash::hash(script))),
        ([_, key], None) if is_key(key) => Some(ScriptBuf::new_p2pkh(&PubkeyHash::hash(key))),
        ([.., script], _) => Some(ScriptBuf::new_p2sh(&RedeemHash::hash(script))),
    }
}

fn is_key(bytes: &[u8]) -> bool {
    matches!((bytes.len(), bytes.first()), (33, Some(2 | 3)) | (65, Some(4)))
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use birdhouse_testkit::mix::{self, Size};
    use bitcoin::{OutPoint, ScriptBuf};

    use super::*;

    #[test]
    fn inputs_show_the_scripts_of_key_and_script_hashes_and_of_no_other_kind() {
        let chain = mix::sample(7, Size::SMALL);
        let mut funded: HashMap<OutPoint, ScriptBuf> = HashMap::new();
        let mut kinds = HashSet::new();
        for transaction in chain.blocks().iter().flat_map(|block| &block.txdata) {
            for input in transaction.input.iter().filter(|_| !transaction.is_coinbase()) {
                let script = &funded[&input.previous_output];
                let hashes = [script.is_p2pkh(), script.is_p2sh(), script.is_p2wpkh(), script.is_p2wsh()];
                kinds.extend(hashes.iter().position(|is_one| *is_one));
                assert_eq!(script_of(input).as_ref() == Some(script), hashes.contains(&true), "{script}");
            }
            let txid = transaction.compute_txid();
            let outputs = (0..).zip(&transaction.output);
            funded.extend(outputs.map(|(vout, output)| (OutPoint { txid, vout }, output.script_pubkey.clone())));
        }
        assert_eq!(kinds.len(), 4);
    }
}
