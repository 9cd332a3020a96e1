//! Silent payments ([BIP 352]): the tweak of a transaction, and finding a wallet's payments among tweaks. Pure.
//!
//! A sender derives the outputs from its inputs and the receiver's address, so nothing on the chain shows that they
//! belong together. The receiver computes for every transaction what it would have been paid with. Of the inputs it
//! needs one point, the *tweak*, which is the same for all receivers: [`Eligible::of`] computes it. With it,
//! [`ScanKey::payments`] finds the outputs of one transaction.
//!
//! [BIP 352]: https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki

#![forbid(unsafe_code)]

mod input_key;
mod key;
mod script;
mod tagged;
mod transaction;

pub use self::key::{CHANGE, DamagedTweak, KeyError, PAYMENTS_MAX, Payment, ScanKey};
pub use self::transaction::{Eligible, Input, OUTPOINT_BYTES, TWEAK_BYTES, TaprootOutput, Witness};
