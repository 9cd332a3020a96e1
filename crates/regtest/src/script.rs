//! The output scripts of generated chains: every common kind, and unusual ones that an index must handle.
//!
//! A [`Lock`] is a kind and a number. The wallet derives its keys from the number, so the same lock is the same script
//! in every block of a chain.

use bitcoin::hashes::{Hash, sha256, sha256d};
use bitcoin::opcodes::all as op;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{PublicKey, ScriptBuf};

/// One byte more than Core's `MAX_SCRIPT_SIZE`: such an output can never be spent.
const OVERSIZED_BYTES: usize = 10_001;

/// The kind of an output script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `<33-byte key> OP_CHECKSIG`
    P2pk,
    /// `<65-byte key> OP_CHECKSIG`
    P2pkUncompressed,
    /// Pay to public key hash.
    P2pkh,
    /// P2SH of a 2-of-3 multisig.
    P2shMultisig,
    /// P2SH of P2WPKH.
    P2shP2wpkh,
    /// Version 0 key hash.
    P2wpkh,
    /// Version 0 script hash, of `<key> OP_CHECKSIG`.
    P2wsh,
    /// Version 1, spent by key path.
    P2tr,
    /// 1-of-2 multisig in the output itself.
    BareMultisig,
    /// `<number> OP_DROP OP_TRUE`
    AnyoneCanSpend,
    /// The same, with the number pushed by `OP_PUSHDATA1`, which is longer than needed.
    NonMinimal,
    /// The empty script; its spender pushes the true value. All numbers give the same script.
    Empty,
    /// `OP_RETURN <number>`: cannot be spent, and is in no index.
    OpReturn,
    /// One byte longer than Core executes: cannot be spent, but can be paid.
    Oversized,
    /// A push of more bytes than follow: cannot be spent, but can be paid.
    TruncatedPush,
    /// Pay to public key hash of a 65-byte key.
    P2pkhUncompressed,
    /// Version 1, spent by a script.
    P2trScript,
    /// Version 1, spent by a script; nobody has the internal key.
    P2trScriptOnly,
    /// The same, spent with an annex.
    P2trScriptOnlyAnnex,
    /// Version 1, spent by key path with an annex. The scripts are those of [`Self::P2tr`].
    P2trAnnex,
    /// Version 2: a node lets anyone spend it in a block.
    LaterVersion,
}

impl Form {
    /// Kinds that can be spent.
    pub const SPENDABLE: [Self; 12] = [
        Self::P2pk,
        Self::P2pkUncompressed,
        Self::P2pkh,
        Self::P2shMultisig,
        Self::P2shP2wpkh,
        Self::P2wpkh,
        Self::P2wsh,
        Self::P2tr,
        Self::BareMultisig,
        Self::AnyoneCanSpend,
        Self::NonMinimal,
        Self::Empty,
    ];

    /// More kinds that can be spent, which no shape of a chain has by itself.
    pub const UNUSUAL: [Self; 6] = [
        Self::P2pkhUncompressed,
        Self::P2trScript,
        Self::P2trScriptOnly,
        Self::P2trScriptOnlyAnnex,
        Self::P2trAnnex,
        Self::LaterVersion,
    ];

    /// Kinds that cannot be spent.
    pub const UNSPENDABLE: [Self; 3] = [Self::OpReturn, Self::Oversized, Self::TruncatedPush];

    /// Returns true for a kind that a wallet can spend.
    pub fn is_spendable(self) -> bool {
        Self::SPENDABLE.contains(&self) || Self::UNUSUAL.contains(&self)
    }
}

/// An output script of the wallet, by kind and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// The kind.
    pub form: Form,
    /// The number among the scripts of this kind.
    pub number: u32,
}

impl Lock {
    /// Makes the lock of this kind and number.
    pub fn new(form: Form, number: u32) -> Self {
        Self { form, number }
    }
}

/// Returns the script hash of the Electrum protocol: SHA-256 of the output script, as byte-reversed hexadecimal.
pub fn scripthash(script_pubkey: &[u8]) -> String {
    // `sha256d::Hash` is displayed byte-reversed, as block hashes are.
    sha256d::Hash::from_byte_array(sha256::Hash::hash(script_pubkey).to_byte_array()).to_string()
}

/// Makes `<key> OP_CHECKSIG`.
pub(crate) fn check_signature(key: &PublicKey) -> ScriptBuf {
    Builder::new().push_key(key).push_opcode(op::OP_CHECKSIG).into_script()
}

/// Makes `<required> <key>.. <number of keys> OP_CHECKMULTISIG`.
pub(crate) fn multisig(required: u8, keys: &[PublicKey]) -> ScriptBuf {
    let count = i64::try_from(keys.len()).expect("at most three keys");
    let script = keys.iter().fold(Builder::new().push_int(required.into()), Builder::push_key);
    script.push_int(count).push_opcode(op::OP_CHECKMULTISIG).into_script()
}

/// Makes the script of a kind that has no key.
pub(crate) fn keyless(lock: Lock) -> ScriptBuf {
    let number = lock.number.to_le_bytes();
    match lock.form {
        Form::AnyoneCanSpend => {
            Builder::new().push_slice(number).push_opcode(op::OP_DROP).push_opcode(op::OP_PUSHNUM_1).into_script()
        }
        Form::NonMinimal => {
            let push = [op::OP_PUSHDATA1.to_u8(), 4];
            ScriptBuf::from_bytes([&push[..], &number, &[op::OP_DROP.to_u8(), op::OP_PUSHNUM_1.to_u8()]].concat())
        }
        Form::OpReturn => ScriptBuf::new_op_return(PushBytesBuf::from(number)),
        Form::Oversized => {
            let mut bytes = vec![op::OP_NOP.to_u8(); OVERSIZED_BYTES];
            bytes[1..6].copy_from_slice(&[4, number[0], number[1], number[2], number[3]]);
            ScriptBuf::from_bytes(bytes)
        }
        Form::TruncatedPush => ScriptBuf::from_bytes([&[75][..], &number].concat()),
        _ => ScriptBuf::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::scripthash;

    #[test]
    fn scripthash_is_that_of_the_protocols_example() {
        let script =
            b"\x76\xa9\x14\x62\xe9\x07\xb1\x5c\xbf\x27\xd5\x42\x53\x99\xeb\xf6\xf0\xfb\x50\xeb\xb8\x8f\x18\x88\xac";
        assert_eq!(scripthash(script), "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161");
    }
}
