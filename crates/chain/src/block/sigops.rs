//! Signature operations of a transaction, as Core counts them for its mempool and for the limit of a block. Pure.
//!
//! [Core's `tx_verify.cpp`](https://github.com/bitcoin/bitcoin/blob/master/src/consensus/tx_verify.cpp),
//! `GetTransactionSigOpCost`. Those of P2SH and witness outputs stand in the input that spends them, so the kind of the
//! spent output must be known, and nothing else of it.

use bitcoin::script::Instruction;
use bitcoin::{Script, Transaction, TxIn};

/// Cost of a signature operation outside of a witness.
const LEGACY_COST: usize = 4;

/// The kinds of output scripts whose signature operations stand in the input that spends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Any other script.
    Other,
    /// P2SH.
    ScriptHash,
    /// P2WPKH.
    WitnessKeyHash,
    /// P2WSH.
    WitnessScriptHash,
}

impl Program {
    /// Returns the kind of an output script.
    pub(crate) fn of(script: &[u8]) -> Self {
        let script = Script::from_bytes(script);
        if script.is_p2sh() {
            Self::ScriptHash
        } else if script.is_p2wpkh() {
            Self::WitnessKeyHash
        } else if script.is_p2wsh() {
            Self::WitnessScriptHash
        } else {
            Self::Other
        }
    }

    /// Returns the cost of the operations in an input that spends an output of this kind.
    fn cost(self, input: &TxIn) -> usize {
        match self {
            Self::Other => 0,
            Self::WitnessKeyHash => 1,
            Self::WitnessScriptHash => {
                input.witness.last().map_or(0, |script| Script::from_bytes(script).count_sigops())
            }
            Self::ScriptHash => {
                let Some(redeem) = redeem_script(input) else { return 0 };
                let legacy = redeem.count_sigops() * LEGACY_COST;
                match Self::of(redeem.as_bytes()) {
                    // A script hash of a script hash is no program.
                    Self::ScriptHash => legacy,
                    nested => legacy + nested.cost(input),
                }
            }
        }
    }
}

/// Returns the last push of an input; `None` if the input has operations.
fn redeem_script(input: &TxIn) -> Option<&Script> {
    match input.script_sig.instructions().last()?.ok()? {
        Instruction::PushBytes(redeem) if input.script_sig.is_push_only() => {
            Some(Script::from_bytes(redeem.as_bytes()))
        }
        _ => None,
    }
}

/// Returns the cost of a transaction's signature operations; `spent` has the kinds of the outputs that it spends, in
/// the order of its inputs.
pub(crate) fn sigop_cost(transaction: &Transaction, spent: impl Iterator<Item = Program>) -> u64 {
    let inputs = transaction.input.iter().map(|input| input.script_sig.as_script());
    let outputs = transaction.output.iter().map(|output| output.script_pubkey.as_script());
    let legacy: usize = inputs.chain(outputs).map(Script::count_sigops_legacy).sum();
    let programs: usize = transaction.input.iter().zip(spent).map(|(input, program)| program.cost(input)).sum();
    (legacy * LEGACY_COST + programs) as u64
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::hashes::Hash as _;
    use bitcoin::script::{Builder, PushBytesBuf};
    use bitcoin::{
        Amount, OutPoint, PubkeyHash, ScriptBuf, ScriptHash, Sequence, Transaction, TxIn, TxOut, WPubkeyHash,
        WScriptHash, Witness, absolute, transaction,
    };

    use super::*;

    fn multisig(keys: i64) -> ScriptBuf {
        Builder::new().push_int(1).push_int(keys).push_opcode(bitcoin::opcodes::all::OP_CHECKMULTISIG).into_script()
    }

    fn spending(script_sig: ScriptBuf, witness: &[Vec<u8>], outputs: &[ScriptBuf]) -> Transaction {
        let input = TxIn {
            previous_output: OutPoint::null(),
            script_sig,
            sequence: Sequence::MAX,
            witness: Witness::from_slice(witness),
        };
        let output = |script: &ScriptBuf| TxOut { value: Amount::from_sat(1), script_pubkey: script.clone() };
        Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![input],
            output: outputs.iter().map(output).collect(),
        }
    }

    /// The costs are those of `sigopcount_tests.cpp` (`GetTxSigOpCost`) and of rust-bitcoin.
    #[test]
    fn every_kind_of_output_costs_what_core_counts() {
        let push = |script: &ScriptBuf| Builder::new().push_slice(PushBytesBuf::try_from(script.to_bytes()).unwrap());
        let p2pkh = ScriptBuf::new_p2pkh(&PubkeyHash::all_zeros());
        let p2sh = ScriptBuf::new_p2sh(&ScriptHash::all_zeros());
        let p2wpkh = ScriptBuf::new_p2wpkh(&WPubkeyHash::all_zeros());
        let p2wsh = ScriptBuf::new_p2wsh(&WScriptHash::all_zeros());
        let two = multisig(2);
        let cases = [
            (two.clone(), spending(ScriptBuf::new(), &[], &[]), 0),
            (p2pkh.clone(), spending(ScriptBuf::new(), &[], &[p2pkh, two.clone()]), 84),
            (p2sh.clone(), spending(push(&two).into_script(), &[], &[]), 8),
            (p2wpkh.clone(), spending(ScriptBuf::new(), &[vec![1], vec![2; 33]], &[]), 1),
            (p2wsh.clone(), spending(ScriptBuf::new(), &[vec![1], two.to_bytes()], &[]), 2),
            (p2sh.clone(), spending(push(&p2wpkh).into_script(), &[vec![1], vec![2; 33]], &[]), 1),
            (p2sh.clone(), spending(push(&p2wsh).into_script(), &[vec![1], two.to_bytes()], &[]), 2),
            (p2sh.clone(), spending(push(&p2sh).into_script(), &[], &[]), 0),
            (p2sh, spending(ScriptBuf::new(), &[], &[]), 0),
        ];
        for (spent, transaction, cost) in cases {
            let output = TxOut { value: Amount::from_sat(1), script_pubkey: spent.clone() };
            assert_eq!(transaction.total_sigop_cost(|_| Some(output.clone())), cost, "rust-bitcoin: {spent}");
            assert_eq!(sigop_cost(&transaction, [Program::of(spent.as_bytes())].into_iter()), cost as u64, "{spent}");
        }
    }
}
