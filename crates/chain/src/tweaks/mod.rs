//! Silent payments ([BIP 352](https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki)): the tweaks of a chain,
//! a derived index, and those of the mempool.
//!
//! A transaction that may pay a silent payment address has one tweak, from which the holder of a scan key finds its own
//! outputs. The index keeps the tweak and the first bytes of each taproot key, in the order of the chain:
//!
//! ```text
//! array `silent-transaction`  the tweak with a class 33, index in its block u16 LE, number of taproot outputs u16 LE
//! array `silent-prefix`       for each taproot output: the first 4 bytes of its key
//! array `silent-output`       with outputs: rest of the key 28, vout u24 LE, satoshis u56 LE
//! ```
//!
//! The value class ([`ValueClass`]) is that of the transaction's largest taproot output. `transaction` computes the
//! tweak, `derived` the records, of which `record` draws the first; `index` and `rows` read them, and `find` finds the
//! transactions that pay a key.
//!
//! A scan looks at output 0 of each key, by its first bytes. A hit is then proved by the transaction itself. Whoever
//! leaves transactions out, by value say, must leave out whole ones: without output 0 nobody finds output 1.

mod derived;
mod find;
mod index;
mod outputs;
mod record;
mod rows;
mod transaction;
mod value_class;

pub use self::derived::TweakDetail;
pub use self::find::{Found, Hit};
pub use self::index::Tweaks;
pub use self::rows::{TweakOutput, TweakOutputs, TweakRow, TweakRows};
pub use self::transaction::TransactionTweak;
pub use self::value_class::ValueClass;

pub(crate) use self::transaction::tweak_of;
