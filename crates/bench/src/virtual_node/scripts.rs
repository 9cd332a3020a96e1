//! Bytes of scripts and of their spends: those of the usual forms, with random hashes, keys and signatures.

use birdhouse_testkit::core_coding::{SPECIAL_SCRIPTS, compact_size, put_varint};
use birdhouse_testkit::rng::{Rng, mix};

use super::epochs::Form;
use super::layout::Layout;
use super::numbers::keyed;
use super::places::Script;

/// Bytes of a signature with its type, of a Schnorr signature, of a key.
const SIGNATURE: usize = 71;
const SCHNORR: usize = 64;
const KEY: usize = 33;
/// Bytes of the script of two keys of three.
const TWO_OF_THREE: usize = 3 * (KEY + 1) + 3;
/// Bytes of a control block of one leaf, and the most data beside it.
const CONTROL: usize = 33;
const DATA_MAX: u64 = 900;
/// Spends of P2SH by a witness from segwit on, in percent.
const NESTED_PERCENT: u64 = 60;

/// Random bytes from which those of signatures and keys are copied: making them anew costs more than all else.
#[derive(Debug)]
pub(super) struct Noise(Vec<u8>);

impl Noise {
    /// Bytes of a piece at most.
    const PIECE_MAX: usize = 1024;
    const STARTS: u64 = 1 << 16;

    pub(super) fn new(seed: u64) -> Self {
        let mut bytes = vec![0; usize::try_from(Self::STARTS).expect("it is small") + Self::PIECE_MAX];
        Rng::new(seed).fill(&mut bytes);
        Self(bytes)
    }

    /// Returns `len` of the bytes, chosen by a random number.
    pub(super) fn piece(&self, random: u64, len: usize) -> &[u8] {
        let start = usize::try_from(random % Self::STARTS).expect("it is small");
        &self.0[start..start + len]
    }
}

/// Rules that change with an epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) has_segwit: Segwit,
    pub(super) inscribed_percent: u64,
}

/// State of witnesses, in blocks or in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segwit {
    Before,
    Active,
}

/// A script with its bytes at hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) form: Form,
    payload: [u8; 32],
}

impl Known {
    /// Looks at a script.
    pub(super) fn of(layout: &Layout, script: Script) -> Self {
        let base = keyed(layout.seed ^ 0x7061_796c ^ u64::from(script.class) << 40, script.number);
        let mut payload = [0; 32];
        for (word, bytes) in (0..).zip(payload.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&mix(base.wrapping_add(word)).to_le_bytes());
        }
        Self { form: layout.form(script), payload }
    }

    /// Appends the scriptPubKey.
    pub(super) fn put_script_pubkey(&self, out: &mut Vec<u8>) {
        let payload = &self.payload;
        let parts: [&[u8]; 5] = match self.form {
            Form::P2pk => [&[33, self.parity()], payload, &[0xac], &[], &[]],
            Form::P2pkh => [&[0x76, 0xa9, 20], &payload[..20], &[0x88, 0xac], &[], &[]],
            Form::P2sh => [&[0xa9, 20], &payload[..20], &[0x87], &[], &[]],
            Form::P2wpkh => [&[0, 20], &payload[..20], &[], &[], &[]],
            Form::P2wsh => [&[0, 32], payload, &[], &[], &[]],
            Form::P2tr => [&[0x51, 32], payload, &[], &[], &[]],
            Form::Multisig => [&[0x51, 33, self.parity()], payload, &[33, 2], payload, &[0x52, 0xae]],
        };
        for part in parts {
            out.extend_from_slice(part);
        }
    }

    /// Returns the length of the scriptPubKey.
    pub(super) fn script_pubkey_len(&self) -> u8 {
        match self.form {
            Form::P2pk => 35,
            Form::P2pkh => 25,
            Form::P2sh => 23,
            Form::P2wpkh => 22,
            Form::P2wsh | Form::P2tr => 34,
            Form::Multisig => 71,
        }
    }

    /// Appends the script as undo data has it (Core's `compressor.cpp`).
    pub(super) fn put_compressed(&self, out: &mut Vec<u8>) {
        match self.form {
            Form::P2pk => {
                out.push(self.parity());
                out.extend_from_slice(&self.payload);
            }
            Form::P2pkh | Form::P2sh => {
                out.push(u8::from(self.form == Form::P2sh));
                out.extend_from_slice(&self.payload[..20]);
            }
            Form::P2wpkh | Form::P2wsh | Form::P2tr | Form::Multisig => {
                put_varint(out, u64::from(self.script_pubkey_len()) + SPECIAL_SCRIPTS);
                self.put_script_pubkey(out);
            }
        }
    }

    fn parity(&self) -> u8 {
        2 + (self.payload[0] & 1)
    }

    /// Appends the scriptSig with its length to `input`, and the items of the witness to `witness`. Returns if it has
    /// some.
    pub(super) fn put_spend(
        &self,
        rules: Rules,
        noise: &Noise,
        random: u64,
        input: &mut Vec<u8>,
        witness: &mut Vec<u8>,
    ) -> Segwit {
        let nested = rules.has_segwit == Segwit::Active && u64::from(self.payload[1]) % 100 < NESTED_PERCENT;
        let piece = |nth: u64, len| noise.piece(random.rotate_left(u32::try_from(nth).expect("few") * 7), len);
        match self.form {
            Form::P2pk | Form::Multisig => put_items(input, &[piece(1, SIGNATURE)], Length::Script),
            Form::P2pkh => put_items(input, &[piece(1, SIGNATURE), piece(2, KEY)], Length::Script),
            Form::P2sh if nested => put_items(input, &[piece(1, 22)], Length::Script),
            Form::P2sh => {
                let redeem = two_of_three(piece(3, TWO_OF_THREE));
                put_items(input, &[piece(1, SIGNATURE), piece(2, SIGNATURE), &redeem], Length::Script);
            }
            Form::P2wpkh | Form::P2wsh | Form::P2tr => input.push(0),
        }
        match self.form {
            Form::P2sh if nested => put_items(witness, &[piece(1, SIGNATURE), piece(2, KEY)], Length::Items),
            Form::P2wpkh => put_items(witness, &[piece(1, SIGNATURE), piece(2, KEY)], Length::Items),
            Form::P2wsh => {
                let redeem = two_of_three(piece(3, TWO_OF_THREE));
                put_items(witness, &[&[], piece(1, SIGNATURE), piece(2, SIGNATURE), &redeem], Length::Items);
            }
            Form::P2tr if random % 100 < rules.inscribed_percent => {
                let data = 100 + usize::try_from((random >> 32) % (DATA_MAX - 100)).expect("below the most");
                put_items(witness, &[piece(1, SCHNORR), piece(2, data), piece(3, CONTROL)], Length::Items);
            }
            Form::P2tr => put_items(witness, &[piece(1, SCHNORR)], Length::Items),
            Form::P2pk | Form::Multisig | Form::P2pkh | Form::P2sh => {
                witness.push(0);
                return Segwit::Before;
            }
        }
        Segwit::Active
    }
}

/// Numbers before items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// The bytes of the script that pushes them.
    Script,
    /// Their number.
    Items,
}

fn put_items(out: &mut Vec<u8>, items: &[&[u8]], length: Length) {
    match length {
        Length::Items => out.push(u8::try_from(items.len()).expect("few items")),
        Length::Script => {
            compact_size(out, items.iter().map(|item| item.len() + 1 + usize::from(item.len() > 75)).sum());
        }
    }
    for item in items {
        match length {
            Length::Items => compact_size(out, item.len()),
            // OP_PUSHDATA1
            Length::Script if item.len() > 75 => out.extend([76, u8::try_from(item.len()).expect("a short script")]),
            Length::Script => out.push(u8::try_from(item.len()).expect("a short item")),
        }
        out.extend_from_slice(item);
    }
}

fn two_of_three(noise: &[u8]) -> [u8; TWO_OF_THREE] {
    let mut script = [0x53; TWO_OF_THREE];
    script[0] = 0x52;
    for at in [1, 2 + KEY, 3 + 2 * KEY] {
        script[at] = 33;
        script[at + 1..=at + KEY].copy_from_slice(&noise[at..at + KEY]);
    }
    script[TWO_OF_THREE - 1] = 0xae;
    script
}
