//! The state of one tip: the manifest that makes rows visible, headers, mempool, and the caches beside them.
//!
//! A [`Snapshot`] holds all of it, and a `Reader` reads rows with it.

mod aging_map;
mod answer;
mod damage;
mod early_headers;
mod headers;
mod height_index;
mod manifest;
mod mempool;
mod reader;
mod replacements;
mod slots;
mod snapshot;
mod status_cache;
mod txid_cache;

pub use self::answer::{
    Balance, BalanceChange, BlockSummary, Confirmation, ConfirmedTransaction, FoundOutput, HistoryEntry, MerkleBranch,
    ResolvedTransaction, ScriptStats, Spender, SpentOutput, UnconfirmedEntry, Unspent,
};
pub use self::early_headers::EarlyHeaders;
pub(crate) use self::headers::{ChainBlock, Headers};
pub(crate) use self::height_index::HeightIndex;
pub(crate) use self::manifest::{Early, Manifest, Merging, State, TxNumRange};
pub use self::mempool::{Mempool, MempoolTransaction};
pub(crate) use self::mempool::{Pay, Spend};
pub(crate) use self::reader::Storage;
pub use self::replacements::{Dropped, REPLACED_MAX, Replacements, Version};
pub(crate) use self::slots::{Slot, Slots, Tables};
pub use self::snapshot::Snapshot;
pub(crate) use self::snapshot::{GenesisOutput, Shared};
pub(crate) use self::status_cache::{Known, Midstate, StatusCache};
pub(crate) use self::txid_cache::{Key, RecentTxids, TxidCache};
