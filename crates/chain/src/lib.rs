//! Bitcoin: block bytes -> rows -> history.
//!
//! An [`Index`] holds, for every script of a chain, its transactions and unspent outputs. [`Index::build`] makes it
//! from a whole chain, [`Index::follow`] keeps it at the tip of a node, and a [`Snapshot`] answers from one tip and one
//! mempool.
//!
//! Reading order: `txnum` and `scripthash` name things; [`source`] has the traits of a node, [`Runtime`] those of the
//! clock and of threads; `block` parses a block
//! and `touches` lists the outputs it funds and spends; `rows` draws the tables; `build` makes them for a whole chain
//! and `ingest` for one block at the tip; `merging` packs what is buried; `manifest` is the one value that makes rows
//! visible; `mempool` holds unconfirmed transactions, `mirror` keeps it equal to the node's, `follow` installs both.
//! `query` answers from them, through a `snapshot` and a `reader` with a `work_budget`; long ones `give_way`.
//! `filters` computes compact block filters from blocks, and keeps their headers.
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

// Names, and the outside.
mod runtime;
mod scripthash;
pub mod source;
mod txnum;

// Bytes, hashes and blocks.
mod block;
mod bytes;
mod merkle;
mod sha;
mod share;
mod spent;
mod touches;
mod undo;

// The decision at a fork.
mod fork;
mod waiting;

// Rows and their commit point.
mod error;
mod key_filter;
mod manifest;
mod parallel;
mod part;
mod prefetch;
mod prefix;
mod rows;

// The first build.
mod build;

// State of one tip.
mod aging_map;
mod answer;
mod damage;
mod early_headers;
mod give_way;
mod headers;
mod height_index;
mod mempool;
mod reader;
mod replacements;
mod slots;
mod snapshot;
mod status_cache;
mod touched;
mod txid_cache;
mod unannounced;
mod work_budget;

// Answers.
#[doc(hidden)]
pub mod bench;
#[doc(hidden)]
pub mod fuzzing;
mod query;
mod verify;

// The writer: the index and the node it follows.
mod admit;
mod adopt;
mod bulk_append;
mod bulk_read;
mod follow;
mod following;
mod fresh;
mod front;
mod front_filters;
mod fundings;
mod index;
mod ingest;
mod merge_state;
mod merging;
mod mirror;
mod node_values;

// Compact block filters, beside the index.
mod filters;

pub use answer::{
    Balance, BalanceChange, BlockSummary, Confirmation, ConfirmedTransaction, FoundOutput, HistoryEntry, MerkleBranch,
    ResolvedTransaction, ScriptStats, Spender, UnconfirmedEntry, Unspent,
};
pub use block::{BlockError, proved_txids};
pub use build::{BuildOptions, BuildReport, Phase, Progress};
pub use bytes::Malformed;
pub use early_headers::EarlyHeaders;
pub use error::{Error, Result, rebuild_advice};
pub use filters::{FilterHeaders, put_compact_size};
pub use front::is_same_index;
pub use give_way::{Pace, giving_way, paced};
pub use index::{Index, Syncing, Update};
pub use manifest::Profile;
pub use mempool::{Mempool, MempoolTransaction};
pub use merge_state::{MergeState, PackSize};
pub use merging::MergeOptions;
pub use node_values::{NODE_VALUE_AGE_MAX, NodeValue, NodeValues};
pub use prefix::Secret;
pub use query::{PageList, UpTo};
pub use replacements::{REPLACED_MAX, Replacements, Version};
pub use rows::TABLES;
pub use runtime::{Runtime, Spawned};
pub use scripthash::{InvalidScriptHash, ScriptHash};
pub use sha::{Hash256, sha256d, sha256d_many};
pub use snapshot::Snapshot;
pub use touched::Touched;
pub use txnum::{Height, TxNum};
pub use undo::UndoOwner;
pub use verify::VerifyReport;
pub use waiting::Waiting;
