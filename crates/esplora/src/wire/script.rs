//! Scripts as Esplora shows them: their type, address and text, and the scripts inside of inputs.

use std::sync::LazyLock;

use bitcoin::hex::{Case, DisplayHex as _};
use bitcoin::opcodes::Opcode;
use bitcoin::opcodes::all::{
    OP_CHECKMULTISIG, OP_PUSHBYTES_75, OP_PUSHDATA1, OP_PUSHDATA4, OP_PUSHNUM_1, OP_PUSHNUM_16,
};
use bitcoin::script::Instruction;
use bitcoin::{Address, Network, Script, TxIn, TxOut, Witness};

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

/// The texts of the scripts that an input reveals: the redeem script of P2SH, and the witness script of P2WSH or of a
/// script path of P2TR.
pub fn inner_scripts(input: &TxIn, prevout: &TxOut) -> (Option<String>, Option<String>) {
    let redeem = prevout.script_pubkey.is_p2sh().then(|| last_push(&input.script_sig)).flatten();
    let witness = if prevout.script_pubkey.is_p2tr() {
        tapscript(&input.witness)
    } else {
        let has_witness_script = prevout.script_pubkey.is_p2wsh() || redeem.is_some_and(Script::is_p2wsh);
        has_witness_script.then(|| input.witness.last()).flatten()
    };
    (redeem.map(asm), witness.map(Script::from_bytes).map(asm))
}

/// The script of a script path, of any leaf version: the element before the control block. An annex, which begins with
/// 0x50 behind at least one other element, is left out
/// ([BIP 341](https://github.com/bitcoin/bips/blob/master/bip-0341.mediawiki#script-validation-rules)).
fn tapscript(witness: &Witness) -> Option<&[u8]> {
    let has_annex = witness.len() >= 2 && witness.last().is_some_and(|last| last.first() == Some(&ANNEX));
    witness.nth(witness.len().checked_sub(if has_annex { 3 } else { 2 })?)
}

/// The first byte of an annex.
const ANNEX: u8 = 0x50;

/// The last element that a scriptSig pushes, as a script.
fn last_push(script: &Script) -> Option<&Script> {
    match script.instructions().last()?.ok()? {
        Instruction::PushBytes(bytes) => Some(Script::from_bytes(bytes.as_bytes())),
        Instruction::Op(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hex::FromHex as _;
    use bitcoin::{Amount, ScriptBuf};
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

    /// An input with this witness, and the output that it spends. The outputs need not fit.
    fn spent(witness: &[&str], script_pubkey: &str) -> (TxIn, TxOut) {
        let elements = witness.iter().map(|hex| Vec::from_hex(hex).expect("hexadecimal"));
        let input = TxIn { witness: Witness::from_slice(&elements.collect::<Vec<_>>()), ..TxIn::default() };
        let script_pubkey = ScriptBuf::from_hex(script_pubkey).expect("hexadecimal");
        (input, TxOut { value: Amount::ZERO, script_pubkey })
    }

    /// The expected values are those of `get_innerscripts` in mempool's electrs (`src/util/script.rs`). The first one
    /// is an input of mainnet in the test data of mempool's server, with the text that electrs has for it.
    #[test]
    fn script_paths_of_taproot_show_their_script_with_or_without_an_annex() {
        let output = "512089ac120a490eee88db5588112f95f88093284c814f07c3ad943a7faefba2271a";
        let leaf = "205f4237bd7dae576b34abc8a9c6fa4f0e4787c04234ca963e9e96c8f9b67b56d1ac\
            205f4237bd7f93c69403a30c6b641f27ccf5201090152fcf1596474221307831c3ba\
            205ac8ff25ce63564963d1148b84627f614af1f3c77d7caa23adc61264fa5e4996ba\
            20b210c83e6f5b3f866837112d023d9ae8da2a6412168d54968ab87860ab970690ba\
            20d3ee3b7a8b8149122b3c886330b3241538ba4b935c4040f4a73ddab917241bc5ba\
            20cdfabb9d0e5c8f09a83f19e36e100d8f5e882f1b60aa60dacd9e6d072c117bc0ba\
            20aab038c238e95fb54cdd0a6705dc1b1f8d135a9e9b20ab9c7ff96eef0e9bf545ba559c";
        let text = "OP_PUSHBYTES_32 5f4237bd7dae576b34abc8a9c6fa4f0e4787c04234ca963e9e96c8f9b67b56d1 OP_CHECKSIG \
            OP_PUSHBYTES_32 5f4237bd7f93c69403a30c6b641f27ccf5201090152fcf1596474221307831c3 OP_CHECKSIGADD \
            OP_PUSHBYTES_32 5ac8ff25ce63564963d1148b84627f614af1f3c77d7caa23adc61264fa5e4996 OP_CHECKSIGADD \
            OP_PUSHBYTES_32 b210c83e6f5b3f866837112d023d9ae8da2a6412168d54968ab87860ab970690 OP_CHECKSIGADD \
            OP_PUSHBYTES_32 d3ee3b7a8b8149122b3c886330b3241538ba4b935c4040f4a73ddab917241bc5 OP_CHECKSIGADD \
            OP_PUSHBYTES_32 cdfabb9d0e5c8f09a83f19e36e100d8f5e882f1b60aa60dacd9e6d072c117bc0 OP_CHECKSIGADD \
            OP_PUSHBYTES_32 aab038c238e95fb54cdd0a6705dc1b1f8d135a9e9b20ab9c7ff96eef0e9bf545 OP_CHECKSIGADD \
            OP_PUSHNUM_5 OP_NUMEQUAL";
        let control = "c0b1674191a88ec5cdd733e4240a81803105dc412d6c6708d53ab94fc248f4f553";
        let signature = "fe6eb715dceffefc067fdc787d250a9a9116682d216f6356ea38fc1f112bd749";
        for (witness, expected) in [
            (&[signature, signature, "", leaf, control][..], Some(text)),
            (&[signature, leaf, control, "50"], Some(text)),
            // No arguments.
            (&[leaf, control], Some(text)),
            (&[leaf, control, "50aabb"], Some(text)),
            // Key paths, the second one with an annex, and nothing at all.
            (&[signature], None),
            (&[signature, "50"], None),
            (&["50"], None),
            (&[], None),
        ] {
            let (input, prevout) = spent(witness, output);
            assert_eq!(inner_scripts(&input, &prevout).1.as_deref(), expected, "{witness:?}");
        }
        // A version 1 program inside P2SH is no taproot.
        let (input, prevout) = spent(&[leaf, control], "a91489ac120a490eee88db5588112f95f88093284c81d687");
        assert_eq!(inner_scripts(&input, &prevout), (None, None));
    }

    #[test]
    fn every_opcode_alone_has_the_name_of_the_library() {
        for code in 0..=u8::MAX {
            let bytes = [code];
            assert_eq!(asm(Script::from_bytes(&bytes)), Script::from_bytes(&bytes).to_asm_string());
        }
    }
}
