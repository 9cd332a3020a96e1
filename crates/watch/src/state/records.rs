//! Tables of what the watches know: `open`: `watch, txid` -> an open transaction; `watches`: `watch` -> its window;
//! `cursor`: `""` -> the block that was announced last. Values are JSON.

use birdhouse_chain::Found;
use birdhouse_chain::source::BlockId;
use birdhouse_database::redb::{self, ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};
use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file::WatchName;
use crate::notice::{Amounts, WatchedInput, WatchedOutput, text};

const OPEN: TableDefinition<'_, (&str, &[u8; 32]), &[u8]> = TableDefinition::new("open");
const WATCHES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("watches");
const CURSOR: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("cursor");
const CURSOR_KEY: &str = "";

/// A transaction that may still change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Open {
    /// Its block; `None` in the mempool.
    #[serde(with = "text::block", default)]
    pub(crate) block: Option<BlockId>,
    /// The highest level that was announced or passed over.
    #[serde(default)]
    pub(crate) announced: Option<u32>,
    /// Time since which neither mempool nor chain has it, in seconds since 1970.
    #[serde(default)]
    pub(crate) absent_since: Option<u64>,
    /// The outputs that it spends.
    #[serde(with = "text::outpoints")]
    pub(crate) spends: Vec<OutPoint>,
    #[serde(flatten)]
    pub(crate) lines: Lines,
}

/// The part of a transaction that belongs to a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lines {
    #[serde(flatten)]
    pub(crate) amounts: Amounts,
    pub(crate) outputs: Vec<WatchedOutput>,
    pub(crate) inputs: Vec<WatchedInput>,
    /// True if the node has removed a part of it, so that the sums say less.
    #[serde(default)]
    pub(crate) is_partial: bool,
}

/// Knowledge of a watch that outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatchRecord {
    /// The mark of the source, so that another one of the same name begins anew.
    pub(crate) source: String,
    /// The number after the last used script, of each branch.
    pub(crate) used: Vec<u32>,
    /// Blocks below are announced, and never read again.
    pub(crate) settled: u32,
    /// Scripts found by a scan key, in hexadecimal.
    #[serde(default)]
    pub(crate) found: Vec<String>,
    /// The next block that is scanned for silent payments.
    #[serde(default)]
    pub(crate) scanned: u32,
    /// Silent payments in blocks that the node has removed.
    #[serde(default)]
    pub(crate) unread: Vec<Unread>,
    /// The block that was announced last, of a watch that has failed since; the others may have gone on.
    #[serde(with = "text::block", default)]
    pub(crate) behind: Option<BlockId>,
}

/// A transaction that pays a scan key, and is still to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unread {
    /// Height of its block; `None` in the mempool.
    pub(crate) height: Option<u32>,
    #[serde(with = "text::plain")]
    pub(crate) txid: Txid,
    /// Its tweak, in hexadecimal.
    pub(crate) tweak: String,
}

impl From<Found> for Unread {
    fn from(Found { height, txid, tweak }: Found) -> Self {
        Self { height: height.map(|height| height.0), txid, tweak: const_hex::encode(tweak) }
    }
}

/// Changes of these tables in one update.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) open: Vec<(WatchName, Txid, Option<Open>)>,
    pub(crate) watches: Vec<(WatchName, Option<WatchRecord>)>,
    pub(crate) cursor: Option<BlockId>,
}

impl Changes {
    /// Adds the changes of another watch.
    pub(crate) fn extend(&mut self, other: Self) {
        self.open.extend(other.open);
        self.watches.extend(other.watches);
        self.cursor = other.cursor.or(self.cursor);
    }

    /// Returns true if there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.watches.is_empty() && self.cursor.is_none()
    }
}

#[derive(Serialize, Deserialize)]
struct Cursor(#[serde(with = "text::block")] Option<BlockId>);

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(OPEN)?;
    transaction.open_table(WATCHES)?;
    transaction.open_table(CURSOR)?;
    Ok(())
}

pub(super) fn apply(transaction: &WriteTransaction, changes: &Changes) -> Result<(), redb::Error> {
    let mut open = transaction.open_table(OPEN)?;
    let mut watches = transaction.open_table(WATCHES)?;
    for (watch, record) in &changes.watches {
        if let Some(record) = record {
            watches.insert(watch.as_str(), encode(record).as_slice())?;
        } else {
            watches.remove(watch.as_str())?;
            let all = (watch.as_str(), &[0; 32])..=(watch.as_str(), &[0xff; 32]);
            open.retain_in(all, |_, _| false)?;
        }
    }
    for (watch, txid, record) in &changes.open {
        let key = (watch.as_str(), txid.as_byte_array());
        match record {
            Some(record) => open.insert(key, encode(record).as_slice()).map(drop)?,
            None => open.remove(key).map(drop)?,
        }
    }
    if let Some(cursor) = changes.cursor {
        transaction.open_table(CURSOR)?.insert(CURSOR_KEY, encode(&Cursor(Some(cursor))).as_slice())?;
    }
    Ok(())
}

pub(super) fn cursor(transaction: &ReadTransaction) -> Result<Result<Option<BlockId>>, redb::Error> {
    let table = transaction.open_table(CURSOR)?;
    let value = table.get(CURSOR_KEY)?;
    Ok(value.map_or(Ok(None), |value| decode::<Cursor>("cursor", value.value()).map(|cursor| cursor.0)))
}

pub(super) fn watches(transaction: &ReadTransaction) -> Result<Result<Vec<(WatchName, WatchRecord)>>, redb::Error> {
    let mut all = Vec::new();
    for row in transaction.open_table(WATCHES)?.iter()? {
        let (name, value) = row?;
        all.push(decode("watches", value.value()).map(|record| (WatchName::new(name.value()), record)));
    }
    Ok(all.into_iter().collect())
}

pub(super) fn open(transaction: &ReadTransaction, watch: &WatchName) -> Result<Result<Vec<(Txid, Open)>>, redb::Error> {
    let mut all = Vec::new();
    let range = (watch.as_str(), &[0; 32])..=(watch.as_str(), &[0xff; 32]);
    for row in transaction.open_table(OPEN)?.range(range)? {
        let (key, value) = row?;
        let txid = Txid::from_byte_array(*key.value().1);
        all.push(decode("open", value.value()).map(|record| (txid, record)));
    }
    Ok(all.into_iter().collect())
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("its keys are texts")
}

fn decode<T: DeserializeOwned>(table: &'static str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged { table })
}
