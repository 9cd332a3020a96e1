//! Silent payments ([BIP 352]): the tweak of a transaction, and finding a wallet's payments among tweaks. Pure.
//!
//! A sender derives the outputs from its inputs and the receiver's address, so nothing on the chain shows that they
//! belong together. The receiver computes for every transaction what it would have been paid with. Of the inputs it
//! needs one point, the *tweak*, which is the same for all receivers: [`Eligible::of`] computes it, and
//! [`Engine::tweaked`] those of many. With it, [`ScanKey::payments`] finds the outputs of one transaction.
//! [`Scanner::scan`] finds, among the tweaks of millions, the few transactions that are worth it. [`Address`] reads and
//! writes addresses.
//!
//! # Example
//!
//! ```
//! use birdhouse_silentpayments::{Engine, Row, ScanKey};
//!
//! // Keys of the first vector of BIP 352, and the tweak and the output of its transaction.
//! let bytes = |hex: &str| const_hex::decode(hex).expect("hexadecimal");
//! let scan = bytes("0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c");
//! let spend = bytes("025cc9856d6f8375350e123978daac200c260cb5b5ae83106cab90484dcd8fcf36");
//! let tweak = bytes("024ac253c216532e961988e2a8ce266a447c894c781e52ef6cee902361db960004");
//! let output = bytes("3e9fce73d4e77a4809908e3c3a2e54ee147b9312dc5044a193d1fc85de46e3c1");
//!
//! let key = ScanKey::new(scan[..].try_into()?, spend[..].try_into()?, &[])?;
//! let scanner = Engine::new().scanner(key);
//! let tweak = tweak[..].try_into()?;
//! let rows = [Row { tweak, prefixes: &[[0; 4]] }, Row { tweak, prefixes: &[output[..4].try_into()?] }];
//! assert_eq!(scanner.scan(&rows)?, [1]);
//!
//! let payments = scanner.key().payments(tweak, &[output[..].try_into()?])?;
//! assert_eq!(payments[0].label, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [BIP 352]: https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki

#![deny(unsafe_code)] // `ifma` is the one exception: vector instructions have no safe form.

mod address;
mod input;
mod input_key;
mod key;
mod scan;
mod scan_text;
mod script;
mod stack;
mod tagged;
mod transaction;

pub use self::address::{Address, AddressError, AddressNetwork};
pub use self::input::{Input, OUTPOINT_BYTES, Witness};
pub use self::key::{CHANGE, DamagedTweak, KeyError, PAYMENTS_MAX, Payment, ScanKey};
pub use self::scan::{Engine, Path, Row, Scanner};
pub use self::scan_text::{ScanTextError, scan_key};
pub use self::script::taproot_key;
pub use self::stack::wipe_stack;
pub use self::transaction::{Eligible, Summed, TWEAK_BYTES, TaprootOutput};
