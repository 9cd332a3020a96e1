//! Transactions that may pay silent payment addresses, by a model of BIP 352.

use birdhouse_testkit::ledger::Ledger;
use bitcoin::Txid;

use crate::bip352::{Mistake, Spend, Transaction, taproot_outputs, tweak};

/// A transaction that may pay a silent payment address.
pub(crate) struct Eligible {
    pub(crate) txid: Txid,
    pub(crate) tweak: [u8; 33],
    /// Of its taproot outputs.
    pub(crate) keys: Vec<[u8; 32]>,
    /// The value of the largest one of these in satoshis.
    pub(crate) largest: u64,
}

/// Those of each block, by the model.
pub(crate) fn eligible(ledger: &Ledger) -> Vec<Vec<Eligible>> {
    let outputs = ledger.outputs();
    let of = |tx: &bitcoin::Transaction| {
        if tx.is_coinbase() {
            return None;
        }
        let spend = |input: &bitcoin::TxIn| Spend {
            txid: *AsRef::<[u8; 32]>::as_ref(&input.previous_output.txid),
            vout: input.previous_output.vout,
            script_sig: input.script_sig.to_bytes(),
            witness: input.witness.to_vec(),
            spent: outputs[&input.previous_output].output.script_pubkey.to_bytes(),
        };
        let plain = Transaction {
            inputs: tx.input.iter().map(spend).collect(),
            outputs: tx.output.iter().map(|output| output.script_pubkey.to_bytes()).collect(),
        };
        let taproot = taproot_outputs(&plain);
        Some(Eligible {
            txid: tx.compute_txid(),
            tweak: tweak(&plain, Mistake::None)?,
            largest: taproot.iter().map(|(vout, _)| tx.output[*vout as usize].value.to_sat()).max()?,
            keys: taproot.into_iter().map(|(_, key)| key).collect(),
        })
    };
    ledger.chain().iter().map(|mined| mined.block.txdata.iter().filter_map(of).collect()).collect()
}
