//! Answers of a [`Snapshot`](crate::Snapshot), one file per subject.
//!
//! | file | answers |
//! |---|---|
//! | `blocks` | blocks by hash and by time, their sizes, weights, txids and bytes |
//! | `genesis` | the output of the genesis block, for answers that count it |
//! | `headers` | headers, block hashes, proofs over the header chain |
//! | `overwritten` | coinbases that no answer names (BIP 30) |
//! | `rows` | history and unspent outputs of a script, summed over packs and deltas |
//! | `scripts` | confirmed history, balance and unspent outputs, by script hash |
//! | `transactions` | txid to txnum and back, transaction bytes, merkle branches |
//! | `mempool` | the same answers with the mempool added; outputs and their spenders |
//! | `resolved` | transactions with the outputs that they spend |
//! | `prevout_rows` | such outputs of removed transactions, by the rows of their scripts |
//! | `pages` | pages of a script's history, newest first |
//! | `stats` | counts and sums of a script |
//! | `spenders` | inputs that spend outputs |
//! | `spending` | the search for them |
//! | `status` | Electrum's status of a script |

pub(crate) mod fundings;

mod blocks;
mod genesis;
mod headers;
mod mempool;
mod overwritten;
mod pages;
mod portions;
mod prevout_rows;
mod resolved;
mod rows;
mod scripts;
mod spenders;
mod spending;
mod stats;
mod status;
mod transactions;

pub(crate) use self::fundings::Funding;

pub use portions::PageList;
pub use scripts::UpTo;
pub use spenders::ScriptOutput;
pub use status::KnownStatus;
