//! Scripts as Esplora shows them: their type, address and text, and the scripts inside of inputs.

use std::sync::LazyLock;

use bitcoin::hex::{Case, DisplayHex as _};
use bitcoin::opcodes::Opcode;
use bitcoin::opcodes::all::{
    OP_CHECKMULTISIG, OP_PUSHBYTES_75, OP_PUSHDATA1, OP_PUSHDATA4, OP_PUSHNUM_1, OP_PUSHNUM_16,
};
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

/// The text of a script, as [`Script::to_asm_string`] writes it.
pub fn asm(script: &Script) -> String {
    common_asm(script.as_bytes()).unwrap_or_else(|| script.to_asm_string())
}

/// Names of opcodes by their bytes. The library formats them anew in each script, and data byte by byte, which took a
/// fifth of the processor time of a page of transactions.
static NAMES: LazyLock<[String; 256]> = LazyLock::new(|| {
    std::array::from_fn(|code| match u8::try_from(code).map(Opcode::from) {
        Ok(opcode) if code > 0 => format!("{opcode:?}"),
        _ => "OP_0".to_owned(),
    })
});

/// The text of a script whose pushes are all of the shortest kind, and whole.
fn common_asm(mut rest: &[u8]) -> Option<String> {
    let mut asm = String::with_capacity(2 * rest.len() + 32);
    while let Some((code, after)) = rest.split_first() {
        if !asm.is_empty() {
            asm.push(' ');
        }
        asm.push_str(&NAMES[usize::from(*code)]);
        rest = after;
        if (1..=OP_PUSHBYTES_75.to_u8()).contains(code) {
            let (data, after) = rest.split_at_checked(usize::from(*code))?;
            asm.push(' ');
            data.append_hex_to_string(Case::Lower, &mut asm);
            rest = after;
        } else if (OP_PUSHDATA1.to_u8()..=OP_PUSHDATA4.to_u8()).contains(code) {
            return None;
        }
    }
    Some(asm)
}

/// The texts of the scripts that an input reveals: the redeem script of P2SH, and the witness script of P2WSH.
pub fn inner_scripts(input: &TxIn, prevout: &TxOut) -> (Option<String>, Option<String>) {
    let redeem = prevout.script_pubkey.is_p2sh().then(|| last_push(&input.script_sig)).flatten();
    let has_witness_script = prevout.script_pubkey.is_p2wsh() || redeem.is_some_and(Script::is_p2wsh);
    let witness = has_witness_script.then(|| input.witness.last()).flatten().map(Script::from_bytes);
    (redeem.map(asm), witness.map(asm))
}

/// The last element that a scriptSig pushes, as a script.
fn last_push(script: &Script) -> Option<&Script> {
    match script.instructions().last()?.ok()? {
        Instruction::PushBytes(bytes) => Some(Script::from_bytes(bytes.as_bytes())),
        Instruction::Op(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_of_a_script_is_that_of_the_library(
            parts in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..80)), 0..8),
            cut in 0..4_usize,
        ) {
            let mut bytes = Vec::new();
            for (code, data) in parts {
                if code % 3 == 0 {
                    bytes.push(code);
                } else {
                    bytes.push(u8::try_from(data.len()).expect("below 80"));
                    bytes.extend(data);
                }
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let script = Script::from_bytes(&bytes);
            prop_assert_eq!(asm(script), script.to_asm_string());
        }
    }

    #[test]
    fn every_opcode_alone_has_the_name_of_the_library() {
        for code in 0..=u8::MAX {
            let bytes = [code];
            assert_eq!(asm(Script::from_bytes(&bytes)), Script::from_bytes(&bytes).to_asm_string());
        }
    }
}
