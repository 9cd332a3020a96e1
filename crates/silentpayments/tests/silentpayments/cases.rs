//! Transactions that the BIP's vectors miss.

use std::fmt::Debug;

use bitcoin::hashes::{Hash as _, hash160};
use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::model::{Mistake, Spend, Transaction};

/// A transaction with the one mistake that it is there to find, and whether it is eligible by the BIP.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) finds: Mistake,
    pub(crate) transaction: Transaction,
    pub(crate) eligible: Eligibility,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Eligibility {
    Eligible,
    Not,
}
use Eligibility::{Eligible, Not};

const UNSPENDABLE: &str = "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0";

/// The cases of section "Inputs For Shared Secret Derivation" without a vector.
pub(crate) fn all() -> Vec<Case> {
    use Mistake as M;
    let unspendable = [vec![0xc0], const_hex::decode(UNSPENDABLE).unwrap()].concat();
    let control_block = [&[0xc1][..], &key(90).serialize()[1..]].concat();
    let mut later = vec![0x52, 0x20];
    later.extend([7; 32]);
    let mut long = vec![0x52, 0x29];
    long.extend([7; 41]);
    let nested_script = [&[0x22, 0x00, 0x20][..], &[9; 32]].concat();
    let p2sh = [&[0xa9, 0x14][..], &[8; 20], &[0x87]].concat();
    let p2wsh = [&[0x00, 0x20][..], &[9; 32]].concat();
    let multisig = [&[0x51, 0x21][..], &key(91).serialize(), &[0x51, 0xae]].concat();
    let anchor = vec![0x51, 0x02, 0x4e, 0x73];
    let bytes_of_key = key(92).serialize().to_vec();
    let not_a_point = [&[0x51, 0x20][..], &no_point()].concat();
    let case = |finds, inputs, eligible| Case { finds, transaction: paying(inputs), eligible };
    vec![
        case(M::ScriptPathSkipped, vec![p2wpkh(1), p2tr(2, &[b"sig", b"script", &control_block])], Eligible),
        case(M::UnspendableTaken, vec![p2wpkh(1), p2tr(2, &[b"sig", b"script", &unspendable])], Eligible),
        case(M::UnspendableTaken, vec![p2tr(2, &[b"sig", b"script", &unspendable])], Not),
        case(M::AnnexOfOneByte, vec![p2wpkh(1), p2tr(2, &[b"s", b"script", &unspendable, b"\x50long"])], Eligible),
        case(M::AnnexKept, vec![p2tr(1, &[b"s", b"script", &unspendable, b"\x50"])], Not),
        case(M::AnnexOfOneItem, vec![p2wpkh(1), p2tr(2, &[&[0x50; 64]])], Eligible),
        case(M::RedeemScriptUnread, vec![p2wpkh(1), spend(2, &nested_script, &[b"", &bytes_of_key], &p2sh)], Eligible),
        case(M::AnyVersionZero, vec![p2wpkh(1), spend(2, b"", &[b"", &bytes_of_key], &p2wsh)], Eligible),
        case(M::LaterVersionsTaken, vec![p2wpkh(1), spend(2, b"", &[], &later)], Not),
        case(M::LaterVersionsTaken, vec![p2wpkh(1), spend(2, b"", &[], &[0x60, 2, 7, 7])], Not),
        case(M::LongProgram, vec![p2wpkh(1), spend(2, b"", &[], &long)], Eligible),
        case(M::AnchorIsLater, vec![p2wpkh(1), spend(2, b"", &[], &anchor)], Eligible),
        case(M::UnknownGivesUp, vec![p2wpkh(1), spend(2, b"", &[], &anchor)], Eligible),
        case(M::UnknownGivesUp, vec![p2wpkh(1), spend(2, b"\x00\x01s", &[], &multisig)], Eligible),
        case(M::BadKeyGivesUp, vec![p2wpkh(1), spend(2, b"", &[b"sig"], &not_a_point)], Eligible),
        case(M::UncompressedTaken, vec![p2pkh(1, &key(1).serialize_uncompressed())], Not),
        case(M::KeyByTemplate, vec![p2pkh(1, &[&key(1).serialize()[..], &[0x75; 40]].concat())], Eligible),
        case(M::EqualKeysOnce, vec![p2wpkh(1), Spend { txid: p2wpkh(2).txid, ..p2wpkh(1) }], Eligible),
        case(M::FewInputs, (1..=10_000).map(p2wpkh).collect(), Eligible),
        case(M::CoinbaseTaken, vec![Spend { txid: [0; 32], vout: u32::MAX, ..p2wpkh(1) }], Not),
        Case { finds: M::OutputsMustBePoints, ..with_outputs(vec![not_a_point], Eligible) },
        with_outputs(vec![], Not),
        with_outputs(vec![anchor, p2wsh, [&[0x52, 0x20][..], &[7; 32]].concat()], Not),
        case(M::None, vec![spend(1, b"", &[], &p2wpkh(1).spent)], Not),
        case(M::None, vec![p2tr(1, &[])], Not),
        case(M::None, vec![p2tr(1, &[b"", b""])], Eligible),
        case(M::None, vec![spend(1, b"", &[&bytes_of_key], &p2sh)], Not),
        case(M::None, vec![p2wpkh(1), negated(2, 1)], Not),
        case(M::None, vec![], Not),
    ]
}

fn with_outputs(outputs: Vec<Vec<u8>>, eligible: Eligibility) -> Case {
    Case { finds: Mistake::None, transaction: Transaction { inputs: vec![p2wpkh(1)], outputs }, eligible }
}

/// A transaction with a taproot output behind another one.
pub(crate) fn paying(inputs: Vec<Spend>) -> Transaction {
    let taproot = [&[0x51, 0x20][..], &key(99).serialize()[1..]].concat();
    Transaction { inputs, outputs: vec![vec![0x6a], taproot] }
}

pub(crate) fn key(number: u16) -> PublicKey {
    let mut secret = [0; 32];
    secret[30..].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_slice(&secret).unwrap().public_key(SECP256K1)
}

/// An x coordinate without a point.
fn no_point() -> [u8; 32] {
    let mut x = [0; 32];
    let is_point = |x: &[u8; 32]| PublicKey::from_slice(&[&[2], &x[..]].concat()).is_ok();
    while is_point(&x) || x == [0; 32] {
        x[31] += 1;
    }
    x
}

fn spend(number: u16, script_sig: &[u8], witness: &[&[u8]], spent: &[u8]) -> Spend {
    let mut txid = [0; 32];
    // The later the input, the smaller its outpoint; the numbers of outputs are equal.
    txid[..2].copy_from_slice(&(u16::MAX - number).to_be_bytes());
    let witness = witness.iter().map(|item| item.to_vec()).collect();
    Spend { txid, vout: 1, script_sig: script_sig.to_vec(), witness, spent: spent.to_vec() }
}

pub(crate) fn p2wpkh(number: u16) -> Spend {
    let key = key(number).serialize();
    let spent = [&[0x00, 0x14][..], &hash160::Hash::hash(&key).to_byte_array()].concat();
    spend(number, b"", &[b"signature", &key], &spent)
}

/// An input whose key is minus that of another one.
fn negated(number: u16, of: u16) -> Spend {
    let key = key(of).negate(SECP256K1).serialize();
    let spent = [&[0x00, 0x14][..], &hash160::Hash::hash(&key).to_byte_array()].concat();
    spend(number, b"", &[b"signature", &key], &spent)
}

/// An input that pushes bytes which begin with the key.
fn p2pkh(number: u16, pushed: &[u8]) -> Spend {
    let hashed = if pushed.len() == 65 { pushed } else { &pushed[..33] };
    let spent = [&[0x76, 0xa9, 0x14][..], &hash160::Hash::hash(hashed).to_byte_array(), &[0x88, 0xac]].concat();
    spend(number, &[&[3, 1, 2, 3, 33][..], pushed].concat(), &[], &spent)
}

fn p2tr(number: u16, witness: &[&[u8]]) -> Spend {
    spend(number, b"", witness, &[&[0x51, 0x20][..], &key(number).serialize()[1..]].concat())
}
