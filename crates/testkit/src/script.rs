//! The output scripts of generated chains: every common kind, and odd ones that an index must survive.
//!
//! A [`Lock`] is a kind and a number; the wallet derives keys from it, so that the same lock is the same script
//! in every block of a chain.

use bitcoin::opcodes::all as op;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{PublicKey, ScriptBuf};

/// Core's `MAX_SCRIPT_SIZE`: one byte more and an output can never be spent.
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
    /// The same, pushed by `OP_PUSHDATA1`, which is longer than needed.
    NonMinimal,
    /// No byte at all; a spender pushes the truth himself. There is only one such script, whatever the number.
    Empty,
    /// `OP_RETURN <number>`: never spent, and left out of every index.
    OpReturn,
    /// One byte longer than may be executed: never spent, but paid.
    Oversized,
    /// A push that announces more bytes than follow: never spent, but paid.
    TruncatedPush,
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

    /// Kinds that cannot.
    pub const UNSPENDABLE: [Self; 3] = [Self::OpReturn, Self::Oversized, Self::TruncatedPush];

    /// Whether a wallet can spend it.
    pub fn is_spendable(self) -> bool {
        Self::SPENDABLE.contains(&self)
    }
}

/// A kind of script, and which one of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// The kind.
    pub form: Form,
    /// Which one.
    pub number: u32,
}

impl Lock {
    /// The lock of this kind and number.
    pub fn new(form: Form, number: u32) -> Self {
        Self { form, number }
    }
}

/// `<key> OP_CHECKSIG`
pub(crate) fn check_signature(key: &PublicKey) -> ScriptBuf {
    Builder::new().push_key(key).push_opcode(op::OP_CHECKSIG).into_script()
}

/// `<required> <key>.. <keys> OP_CHECKMULTISIG`
pub(crate) fn multisig(required: u8, keys: &[PublicKey]) -> ScriptBuf {
    let count = i64::try_from(keys.len()).expect("at most three keys");
    let script = keys.iter().fold(Builder::new().push_int(required.into()), Builder::push_key);
    script.push_int(count).push_opcode(op::OP_CHECKMULTISIG).into_script()
}

/// The scripts that hold no key.
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
