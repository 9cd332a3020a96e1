//! The reasons for which a line of a question is refused, in plain words.

use std::fmt;

use birdhouse_silentpayments::AddressError;

use crate::limits::{NESTING_MAX, STEPS_A_KEY_MAX, STEPS_MAX};

/// The reason why a line names no scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unnamed {
    /// It holds a private key.
    Private,
    /// It is an address, or has a key, of another network.
    OtherNetwork,
    /// It has more characters, or more paths for one key, than any wallet needs.
    TooLong,
    /// It nests deeper than any wallet needs.
    TooDeep,
    /// A key has more steps of derivation than any wallet needs.
    TooManyStepsOfKey,
    /// With it the question takes too many steps of derivation.
    TooManySteps,
    /// A public key has a hardened step, which only its private key can take.
    Hardened,
    /// Its keys have different numbers of paths
    /// ([BIP 389](https://github.com/bitcoin/bips/blob/master/bip-0389.mediawiki)).
    UnequalPaths,
    /// A key has the same path twice.
    RepeatedPath,
    /// It is one of the keys of a multisig wallet, by itself.
    OneOfSeveralKeys,
    /// A key of it has a version of SLIP 132, which descriptors do not have.
    KeyVersion,
    /// It has a form that is not served.
    NotServed(&'static str),
    /// Its checksum is wrong.
    Checksum,
    /// Its checksum is too short or too long.
    ChecksumLength,
    /// It looks like this, which has a checksum within, and the checksum is wrong.
    Mistyped(&'static str),
    /// It is a silent payment address, which names no script.
    SilentPayment,
    /// It begins as one, and is none.
    SilentPaymentAddress(AddressError),
    /// It opens more brackets than it closes, or fewer.
    Brackets,
    /// It begins with a form that there is not.
    NoForm,
    /// It is a descriptor that cannot be read for another reason.
    Unreadable,
    /// It is nothing of the kind.
    Unknown,
}

impl Unnamed {
    /// Returns the reason why a descriptor with this text in it cannot be read.
    pub(crate) fn in_descriptor(self) -> Self {
        if self == Self::Unknown { Self::Unreadable } else { self }
    }
}

impl fmt::Display for Unnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "this is a private key: never give one to a server; use the public key",
            Self::OtherNetwork => "this is an address or a key of another network",
            Self::TooLong => "this is longer than any descriptor that a wallet makes",
            Self::TooDeep => return write!(f, "this descriptor nests deeper than {NESTING_MAX} levels"),
            Self::TooManyStepsOfKey => return write!(f, "a key has more than {STEPS_A_KEY_MAX} steps of derivation"),
            Self::TooManySteps => {
                return write!(f, "this takes more than {STEPS_MAX} steps of derivation; ask for fewer keys at a time");
            }
            Self::Hardened => {
                "a hardened step of derivation needs the private key: give the extended public key after it"
            }
            Self::UnequalPaths => "the keys of this descriptor have different numbers of paths between < and >",
            Self::RepeatedPath => "a key of this descriptor has the same path twice between < and >",
            Self::OneOfSeveralKeys => {
                "this is one key of a multisig wallet: its scripts need the output descriptor with all keys"
            }
            Self::KeyVersion => "the extended keys of a descriptor begin with xpub or tpub",
            Self::NotServed(form) => return write!(f, "a descriptor with {form} is not supported"),
            Self::Checksum => {
                "the checksum of this descriptor is wrong: a character of it is mistyped or missing; copy it again"
            }
            Self::ChecksumLength => "a descriptor ends with # and eight characters of checksum, or without both",
            Self::Mistyped(noun) => {
                return write!(
                    f,
                    "this {noun} has a wrong checksum: a character is mistyped or missing; copy it again"
                );
            }
            Self::SilentPayment => {
                "this is a silent payment address: nobody but its owner can find what was paid to it; search for it \
                 alone to learn more"
            }
            Self::SilentPaymentAddress(error) => return write!(f, "{error}"),
            Self::Brackets => "a bracket of this descriptor is missing, or there is one too many",
            Self::NoForm => {
                "a descriptor begins with pk(, pkh(, wpkh(, sh(, wsh(, tr(, multi(, addr(, raw(, combo( or rawtr("
            }
            Self::Unreadable => {
                "this descriptor cannot be read: one of its keys, paths or conditions is not as BIP 380 and its \
                 relatives have it"
            }
            Self::Unknown => {
                "this is no height, hash, outpoint, address, script, public key, extended public key or descriptor"
            }
        })
    }
}
