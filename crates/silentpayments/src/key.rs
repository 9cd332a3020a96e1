//! The key that finds a wallet's payments, and the payments of one transaction.

use std::collections::HashMap;

use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};
use zeroize::Zeroizing;

use crate::tagged;
use crate::transaction::TWEAK_BYTES;

/// Outputs of one transaction that pay one scan key; senders make no more
/// ([BIP 352](https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki), `K_max`).
pub const PAYMENTS_MAX: u32 = 2323;

/// The label of change. Every scan includes it.
pub const CHANGE: u32 = 0;

/// The error of a scan key that no wallet can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The scan key is zero, or not below the order of the curve.
    #[error("the scan key is not a private key")]
    Scan,
    /// The spend key is not a compressed point of the curve.
    #[error("the spend key is not a compressed public key")]
    Spend,
}

/// The error of a tweak that is not a point of the curve: the bytes are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tweak {row} is not a compressed point")]
pub struct DamagedTweak {
    /// Its number among those that were read.
    pub row: usize,
}

/// A private scan key, a public spend key, and labels. It finds payments and cannot spend them.
///
/// It is wiped when it is dropped, and has no form for a log.
pub struct ScanKey {
    /// On the heap, so that a key that is moved leaves no copy behind.
    scan: Box<Zeroizing<[u8; 32]>>,
    spend: PublicKey,
    labels: Vec<Label>,
}

/// A label and its point.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    pub(crate) number: u32,
    pub(crate) point: PublicKey,
}

/// An output that pays a scan key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    /// Index among the outputs that were searched.
    pub output: usize,
    /// The label that it was sent to; `None` without one.
    pub label: Option<u32>,
}

impl ScanKey {
    /// Makes a key from a scan key, a compressed spend key and the numbers of labels. [`CHANGE`] is always among them.
    ///
    /// # Errors
    /// One of the keys is none.
    pub fn new(scan: &[u8; 32], spend: &[u8; 33], labels: &[u32]) -> Result<Self, KeyError> {
        let mut secret = SecretKey::from_slice(scan).map_err(|_| KeyError::Scan)?;
        secret.non_secure_erase();
        let spend = PublicKey::from_slice(spend).map_err(|_| KeyError::Spend)?;
        let mut numbers = [&[CHANGE], labels].concat();
        numbers.sort_unstable();
        numbers.dedup();
        // A label whose hash is no scalar does not exist: its probability is 2^-128.
        let labels = numbers.into_iter().filter_map(|number| Label::new(scan, number)).collect();
        let mut own = Box::new(Zeroizing::new([0; 32]));
        own.copy_from_slice(scan);
        Ok(Self { scan: own, spend, labels })
    }

    /// Makes a key of the hexadecimal digits of a scan key, of which no copy is left, and a compressed spend key.
    ///
    /// # Errors
    /// One of the keys is none.
    pub fn from_hex(scan: &str, spend: &[u8; 33]) -> Result<Self, KeyError> {
        let mut bytes = Box::new(Zeroizing::new([0; 32]));
        let digits = scan.as_bytes();
        if digits.len() != 64 {
            return Err(KeyError::Scan);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyError::Scan);
            *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).expect("two digits are a byte");
        }
        Self::new(&bytes, spend, &[])
    }

    /// Finds the outputs of a transaction that pay this key, in the order in which their sender counted them. `outputs`
    /// are the x coordinates of the taproot outputs.
    ///
    /// # Errors
    /// The tweak is not a point.
    pub fn payments(&self, tweak: &[u8; TWEAK_BYTES], outputs: &[[u8; 32]]) -> Result<Vec<Payment>, DamagedTweak> {
        let secret = self.shared_secret(tweak).ok_or(DamagedTweak { row: 0 })?;
        // The outputs of each key, the last first.
        let mut unclaimed: HashMap<&[u8; 32], Vec<usize>> = HashMap::new();
        for (output, key) in outputs.iter().enumerate().rev() {
            unclaimed.entry(key).or_default().push(output);
        }
        let mut payments = Vec::new();
        for k in 0..PAYMENTS_MAX {
            let candidates = self.candidates(&secret, k);
            let labels = std::iter::once(None).chain(self.labels.iter().map(|label| Some(label.number)));
            let found = candidates.iter().zip(labels).filter_map(|(key, label)| {
                let output = *unclaimed.get(key.as_ref()?)?.last()?;
                Some(Payment { output, label })
            });
            let Some(payment) = found.min_by_key(|payment| payment.output) else { break };
            if let Some(outputs) = unclaimed.get_mut(&outputs[payment.output]) {
                outputs.pop();
            }
            payments.push(payment);
        }
        Ok(payments)
    }

    /// Returns true if an output of a transaction has the key of output 0, without a label or with one. Later outputs
    /// are the wallet's work. `outputs` are the x coordinates of the taproot outputs.
    ///
    /// # Errors
    /// The tweak is not a point.
    pub fn is_paid(&self, tweak: &[u8; TWEAK_BYTES], outputs: &[[u8; 32]]) -> Result<bool, DamagedTweak> {
        let secret = self.shared_secret(tweak).ok_or(DamagedTweak { row: 0 })?;
        Ok(self.candidates(&secret, 0).iter().flatten().any(|key| outputs.contains(key)))
    }

    /// The private scan key.
    pub(crate) fn scan(&self) -> &[u8; 32] {
        &self.scan
    }

    /// The spend key.
    pub(crate) fn spend(&self) -> &PublicKey {
        &self.spend
    }

    /// The labels, change first.
    pub(crate) fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The secret that sender and receiver share, a compressed point; `None` if the tweak is not a point.
    pub(crate) fn shared_secret(&self, tweak: &[u8; TWEAK_BYTES]) -> Option<Zeroizing<[u8; 33]>> {
        let tweak = PublicKey::from_slice(tweak).ok()?;
        let scan = Scalar::from_be_bytes(**self.scan).expect("the scan key is below the order");
        let secret = tweak.mul_tweak(SECP256K1, &scan).expect("the scan key is not zero");
        Some(Zeroizing::new(secret.serialize()))
    }

    /// The keys of output number `k`: without a label, then of each label. `None` stands for infinity.
    pub(crate) fn candidates(&self, secret: &[u8; 33], k: u32) -> Vec<Option<[u8; 32]>> {
        let x = |point: &PublicKey| point.x_only_public_key().0.serialize();
        let mut message = Zeroizing::new([0; 37]);
        message[..33].copy_from_slice(secret);
        message[33..].copy_from_slice(&k.to_be_bytes());
        let hash = tagged::SHARED_SECRET.hash(&message);
        let Some(scalar) = Scalar::from_be_bytes(hash).ok().filter(|scalar| *scalar != Scalar::ZERO) else {
            return vec![None; 1 + self.labels.len()];
        };
        let unlabelled = self.spend.add_exp_tweak(SECP256K1, &scalar).ok();
        let labelled = self.labels.iter().map(|label| match &unlabelled {
            Some(point) => point.combine(&label.point).ok(),
            // The spend key is minus the scalar's point, and the label is all that is left.
            None => Some(label.point),
        });
        std::iter::once(unlabelled).chain(labelled).map(|point| point.as_ref().map(x)).collect()
    }
}

impl Label {
    fn new(scan: &[u8; 32], number: u32) -> Option<Self> {
        let mut message = Zeroizing::new([0; 36]);
        message[..32].copy_from_slice(scan);
        message[32..].copy_from_slice(&number.to_be_bytes());
        let mut scalar = SecretKey::from_slice(&tagged::LABEL.hash(&message)).ok()?;
        let point = scalar.public_key(SECP256K1);
        scalar.non_secure_erase();
        Some(Self { number, point })
    }
}
