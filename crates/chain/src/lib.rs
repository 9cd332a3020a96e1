//! Bitcoin: block bytes -> rows -> history.
//!
//! An [`Index`] holds, for every script of a chain, its transactions and unspent outputs. [`Index::build`] makes it
//! from a whole chain, [`Index::follow`] keeps it at the tip of a node, and a [`Snapshot`] answers from one tip and one
//! mempool.
//!
//! # Folders
//!
//! Each one may use those above it, and `error` all may use.
//!
//! | folder | what lives there |
//! |---|---|
//! | `names` | numbers, hashes and keys that name transactions, blocks and scripts |
//! | `outside` | traits of the node ([`source`]), of clock and threads ([`Runtime`]) |
//! | `block` | bytes of a block -> the outputs that it funds and spends |
//! | `work` | the cost of an answer, giving way to others, several threads |
//! | `rows` | the tables: each file draws, encodes and decodes one |
//! | `state` | what one tip consists of: manifest, headers, mempool, caches; [`Snapshot`] |
//! | `derived` | records computed from blocks and kept beside the index; [`Derived`] |
//! | `query` | answers of a snapshot, a file per subject |
//! | `build` | the first build |
//! | `merging` | buried deltas and packs become one pack |
//! | `filters` | compact block filters, and the chain of their headers, a derived index |
//! | `tweaks` | silent payments: the tweaks of transactions, a derived index |
//! | `tip` | the writer: [`Index`] follows a node, block by block or many at once; front ends, which follow what another process publishes |
//!
//! `verify` builds rows anew from blocks and compares them.
//!
//! # Example
//!
//! Index a folder of block files, then ask for the history of a script:
//!
//! ```
//! use std::sync::Arc;
//!
//! use birdhouse_chain::{BuildOptions, Height, Index, Profile, ScriptHash, Secret};
//! use birdhouse_node::BlockFiles;
//! use birdhouse_store::MemoryStore;
//! use bitcoin::{Network, constants::genesis_block};
//!
//! # use bitcoin::{consensus::serialize, hashes::Hash};
//! # // A folder with the genesis block and one more, whose coinbase pays the script `01`, and with undo data.
//! # let folder = tempfile::tempdir()?;
//! # let (blocks_dir, temp_dir) = (folder.path().join("blocks"), folder.path().join("build"));
//! # let genesis = genesis_block(Network::Regtest);
//! # let mut block = genesis.clone();
//! # block.header.prev_blockhash = genesis.block_hash();
//! # block.txdata[0].output[0].script_pubkey = vec![1].into();
//! # block.header.merkle_root = block.compute_merkle_root().expect("a block has a transaction");
//! # while !block.header.target().is_met_by(block.block_hash()) {
//! #     block.header.nonce += 1;
//! # }
//! # let record = |payload: &[u8]| {
//! #     let size = u32::try_from(payload.len()).expect("a few bytes");
//! #     [&Network::Regtest.magic().to_bytes()[..], &size.to_le_bytes(), payload].concat()
//! # };
//! # let checksum = birdhouse_chain::sha256d(&[genesis.block_hash().as_byte_array(), &[0][..]].concat());
//! # std::fs::create_dir(&blocks_dir)?;
//! # let blocks = [record(&serialize(&genesis)), record(&serialize(&block))].concat();
//! # std::fs::write(blocks_dir.join("blk00000.dat"), blocks)?;
//! # std::fs::write(blocks_dir.join("rev00000.dat"), [record(&[0]), checksum.to_vec()].concat())?;
//! # let script = [1];
//! let source = BlockFiles::open(&blocks_dir, Network::Regtest)?;
//! let genesis_hash = genesis_block(Network::Regtest).block_hash();
//! let store = Arc::new(MemoryStore::new());
//! let index = Index::open(store, Arc::new(source), genesis_hash, Profile::Full, Secret([7; 16]))?;
//! index.build(None, &BuildOptions::modest(temp_dir))?;
//!
//! let history = index.snapshot()?.history(&ScriptHash::of(&script))?;
//! assert_eq!(history.len(), 1);
//! assert_eq!(history[0].height, Height(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)] // `sha` is the one exception: vector instructions have no safe form.

mod names;
mod outside;

mod block;
mod error;
mod work;

mod rows;
mod state;

mod derived;

mod build;
mod filters;
mod merging;
mod query;
mod tweaks;

mod tip;
mod verify;

#[doc(hidden)]
pub mod bench;
#[doc(hidden)]
pub mod fuzzing;

pub use block::{BlockError, Malformed, ProvedBlock, UndoOwner, proved_txids};
pub use build::{BuildOptions, BuildReport, Phase, Progress};
pub use derived::{Derived, DerivedArray, DerivedIndex, DerivedProgress, DerivedReport, Records};
pub use error::{Error, Result, rebuild_advice};
pub use filters::{FilterHeaders, put_compact_size};
pub use merging::{MergeOptions, SpoolBounds, SpoolCounts};
pub use names::{
    Hash256, Height, InvalidScriptHash, Profile, ScriptHash, Secret, Touched, TxNum, read_address, sha256d,
    sha256d_many,
};
pub use outside::source::{MiningRules, Ranking};
pub use outside::{NODE_VALUE_AGE_MAX, NodeValue, NodeValues, Runtime, Spawned, Waiting, source};
pub use query::{KnownStatus, PageList, ScriptOutput, UpTo};
pub use rows::TABLES;
pub use state::{
    Balance, BalanceChange, BlockSummary, Confirmation, ConfirmedTransaction, Dropped, EarlyHeaders, FoundOutput,
    HistoryEntry, Mempool, MempoolTransaction, MerkleBranch, REPLACED_MAX, Replacements, ResolvedTransaction,
    ScriptStats, Snapshot, Spender, SpentOutput, UnconfirmedEntry, Unspent, Version,
};
pub use tip::{Index, MergeState, PackSize, Syncing, Update, is_same_index};
pub use tweaks::{
    Found, Hit, TransactionTweak, TweakDetail, TweakOutput, TweakOutputs, TweakRow, TweakRows, Tweaks, ValueClass,
};
pub use verify::VerifyReport;
pub use work::{Pace, giving_way, paced};
