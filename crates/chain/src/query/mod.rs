//! Answers of a [`Snapshot`](crate::Snapshot), one file per subject.
//!
//! | file | answers |
//! |---|---|
//! | `headers` | headers, block hashes, proofs over the header chain |
//! | `overwritten` | coinbases that no answer names (BIP 30) |
//! | `rows` | history and unspent outputs of a script, summed over packs and deltas |
//! | `scripts` | confirmed history, balance and unspent outputs, by script hash |
//! | `transactions` | txid to txnum and back, transaction bytes, merkle branches |
//! | `mempool` | the same answers with the mempool added; outputs and their spenders |
//! | `status` | Electrum's status of a script |

mod headers;
mod mempool;
mod overwritten;
mod rows;
mod scripts;
mod status;
mod transactions;

pub use scripts::UpTo;
