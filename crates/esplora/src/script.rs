//! Scripts as Esplora shows them: their type, address and text, and the scripts inside of inputs.

use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_PUSHNUM_1, OP_PUSHNUM_16};
use bitcoin::script::Instruction;
use bitcoin::{Address, Network, Script, TxIn, TxOut};

/// The name of a scriptPubKey's type.
pub fn type_of(script: &Script) -> &'static str {
    match script {
        script if script.is_empty() => "empty",
        script if script.is_op_return() => "op_return",
        script if script.is_p2pk() => "p2pk",
        script if script.is_p2pkh() => "p2pkh",
        script if script.is_p2sh() => "p2sh",
        script if script.is_p2wpkh() => "v0_p2wpkh",
        script if script.is_p2wsh() => "v0_p2wsh",
        script if script.is_p2tr() => "v1_p2tr",
        script if script.as_bytes() == ANCHOR => "anchor",
        script if is_multisig(script) => "multisig",
        _ => "unknown",
    }
}

/// Pay-to-anchor: version 1 of witness programs with two bytes.
const ANCHOR: [u8; 4] = [0x51, 0x02, 0x4e, 0x73];

/// True for `m <keys> n OP_CHECKMULTISIG`.
fn is_multisig(script: &Script) -> bool {
    let Ok(instructions) = script.instructions().collect::<Result<Vec<_>, _>>() else { return false };
    let [required, keys @ .., all, last] = &instructions[..] else { return false };
    let number = |instruction: &Instruction<'_>| match instruction {
        Instruction::Op(op) if (OP_PUSHNUM_1.to_u8()..=OP_PUSHNUM_16.to_u8()).contains(&op.to_u8()) => {
            Some(usize::from(op.to_u8() - OP_PUSHNUM_1.to_u8()) + 1)
        }
        _ => None,
    };
    let is_key = |key: &Instruction<'_>| key.push_bytes().is_some_and(|key| matches!(key.len(), 33 | 65));
    let (Some(required), Some(all)) = (number(required), number(all)) else { return false };
    last.opcode() == Some(OP_CHECKMULTISIG) && required <= all && keys.len() == all && keys.iter().all(is_key)
}

/// The address of a scriptPubKey that has one.
pub fn address_of(script: &Script, network: Network) -> Option<String> {
    Address::from_script(script, network).ok().map(|address| address.to_string())
}

/// The texts of the scripts that an input reveals: the redeem script of P2SH, and the witness script of P2WSH.
pub fn inner_scripts(input: &TxIn, prevout: &TxOut) -> (Option<String>, Option<String>) {
    let redeem = prevout.script_pubkey.is_p2sh().then(|| last_push(&input.script_sig)).flatten();
    let has_witness_script = prevout.script_pubkey.is_p2wsh() || redeem.is_some_and(Script::is_p2wsh);
    let witness = has_witness_script.then(|| input.witness.last()).flatten().map(Script::from_bytes);
    (redeem.map(Script::to_asm_string), witness.map(Script::to_asm_string))
}

/// The last element that a scriptSig pushes, as a script.
fn last_push(script: &Script) -> Option<&Script> {
    match script.instructions().last()?.ok()? {
        Instruction::PushBytes(bytes) => Some(Script::from_bytes(bytes.as_bytes())),
        Instruction::Op(_) => None,
    }
}
