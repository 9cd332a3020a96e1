//! The tweak of a transaction: the sum of its inputs' keys, multiplied by the hash of its inputs. Pure.
//!
//! The index stores the tweak; a scan needs nothing else of the inputs. Source: [BIP 352], "Inputs For Shared Secret
//! Derivation" and "Scanning".
//!
//! [BIP 352]: https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki

use secp256k1::{PublicKey, SECP256K1, Scalar};

use crate::input::{Input, OUTPOINT_BYTES};
use crate::input_key;
use crate::script;
use crate::tagged;

/// Bytes of a tweak: a compressed point.
pub const TWEAK_BYTES: usize = 33;

/// An output that pays a taproot key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaprootOutput<'a> {
    /// Its number in the transaction.
    pub vout: u32,
    /// The x coordinate of its key, big-endian; not every value is a point's.
    pub key: &'a [u8; 32],
}

/// A transaction that may pay silent payment addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eligible<'a> {
    /// The tweak, a compressed point.
    pub tweak: [u8; TWEAK_BYTES],
    /// The taproot outputs, in order.
    pub outputs: Vec<TaprootOutput<'a>>,
}

impl<'a> Eligible<'a> {
    /// Returns the tweak and the taproot outputs of a transaction, from its inputs and the scriptPubKeys of its
    /// outputs; `None` if it cannot pay a silent payment address. The caller leaves out blocks before taproot.
    pub fn of(inputs: &[Input<'_>], scripts: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        Some(Summed::of(inputs, scripts)?.tweaked())
    }
}

/// A transaction that may pay silent payment addresses: all but the last step of [`Eligible::of`], which
/// [`Engine::tweaked`](crate::Engine::tweaked) does for many at once.
#[derive(Debug, Clone)]
pub struct Summed<'a> {
    /// The sum of its inputs' keys, and their hash.
    pub(crate) factors: Factors,
    pub(crate) outputs: Vec<TaprootOutput<'a>>,
}

/// A point and what it is multiplied by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factors {
    pub(crate) point: PublicKey,
    /// Neither zero nor the order or more.
    pub(crate) scalar: Scalar,
}

impl Factors {
    /// The product, by libsecp256k1.
    pub(crate) fn multiply(&self) -> [u8; TWEAK_BYTES] {
        self.point.mul_tweak(SECP256K1, &self.scalar).expect("the scalar is not zero").serialize()
    }
}

impl<'a> Summed<'a> {
    /// Adds up the keys of a transaction; arguments and `None` are as in [`Eligible::of`].
    pub fn of(inputs: &[Input<'_>], scripts: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let scripts = (0..).zip(scripts);
        let outputs: Vec<_> = scripts
            .filter_map(|(vout, script)| Some(TaprootOutput { vout, key: script::taproot_key(script)? }))
            .collect();
        if outputs.is_empty() {
            return None;
        }
        Some(Self { factors: factors(inputs)?, outputs })
    }

    /// Computes the tweak.
    pub fn tweaked(self) -> Eligible<'a> {
        Eligible { tweak: self.factors.multiply(), outputs: self.outputs }
    }
}

/// The sum of the inputs' keys, and what it is multiplied by.
fn factors(inputs: &[Input<'_>]) -> Option<Factors> {
    // A coinbase spends the null outpoint, which is no output of any transaction.
    const NULL: [u8; OUTPOINT_BYTES] = {
        let mut null = [0; OUTPOINT_BYTES];
        (null[32], null[33], null[34], null[35]) = (0xff, 0xff, 0xff, 0xff);
        null
    };
    let least = inputs.iter().map(|input| input.outpoint).min()?;
    let is_later = |input: &Input<'_>| script::segwit_version(input.spent_script).is_some_and(|version| version > 1);
    if *inputs[0].outpoint == NULL || inputs.iter().any(is_later) {
        return None;
    }
    let sum = sum(&inputs.iter().filter_map(input_key::of).collect::<Vec<_>>())?;
    let mut message = [0; OUTPOINT_BYTES + TWEAK_BYTES];
    message[..OUTPOINT_BYTES].copy_from_slice(least);
    message[OUTPOINT_BYTES..].copy_from_slice(&sum.serialize());
    let scalar = Scalar::from_be_bytes(tagged::INPUTS.hash(&message)).ok()?;
    (scalar != Scalar::ZERO).then_some(Factors { point: sum, scalar })
}

/// Adds keys up, equal ones as often as they occur; `None` if there is none or the sum is infinity.
fn sum(keys: &[PublicKey]) -> Option<PublicKey> {
    match keys {
        [] => None,
        [key] => Some(*key),
        // The library adds without conversions between, so infinity on the way does no harm.
        keys => PublicKey::combine_keys(&keys.iter().collect::<Vec<_>>()).ok(),
    }
}
