//! The transactions that pay a scan key.

use std::ops::Range;
use std::sync::Arc;

use birdhouse_silentpayments::{DamagedTweak, Row, Scanner, TWEAK_BYTES, taproot_key};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::block::{Block, txid_of};
use crate::error::{Error, Result};
use crate::names::Height;
use crate::state::{MempoolTransaction, Snapshot};
use crate::tweaks::derived::PREFIX_BYTES;
use crate::tweaks::index::Tweaks;
use crate::tweaks::rows::TweakRow;

/// A transaction that pays a scan key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Height of its block; `None` in the mempool.
    pub height: Option<Height>,
    /// Its txid.
    pub txid: Txid,
    /// Its tweak, a compressed point.
    pub tweak: [u8; TWEAK_BYTES],
}

/// A row whose first bytes say that it pays a key. One of 2^32 rows says so by accident, so the transaction must prove
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    height: Height,
    /// Its index in the block.
    position: u32,
    tweak: [u8; TWEAK_BYTES],
}

impl Tweaks {
    /// Finds the transactions of some blocks of a snapshot's chain that pay a key; `None` as [`Self::read`]. The time
    /// is that of all rows, [`Self::rows`].
    ///
    /// # Errors
    /// Failures of the store and of the node's files, and damage of the rows.
    pub fn find(&self, at: &Snapshot, scanner: &Scanner, heights: Range<Height>) -> Result<Option<Vec<Found>>> {
        let Some(rows) = self.read_prefixes(at, heights)? else { return Ok(None) };
        let hits = Hit::among(&rows.iter().collect::<Vec<_>>(), scanner)?;
        let found = hits.iter().filter_map(|hit| hit.proved(at, scanner).transpose());
        found.collect::<Result<Vec<Found>>>().map(Some)
    }

    /// Finds the transactions among some of the mempool that pay a key.
    ///
    /// # Errors
    /// A transaction cannot be parsed.
    pub fn find_unconfirmed<'a>(
        &self,
        scanner: &Scanner,
        transactions: impl Iterator<Item = &'a Arc<MempoolTransaction>>,
    ) -> Result<Vec<Found>> {
        let candidates = transactions.filter_map(|transaction| Candidate::of(transaction).transpose());
        let candidates = candidates.collect::<Result<Vec<Candidate<'_>>>>()?;
        let rows = candidates.iter().map(|one| Row { tweak: one.tweak, prefixes: &one.prefixes });
        let hits = scanner.scan(&rows.collect::<Vec<_>>()).map_err(|_| Error::unreadable_transaction())?;
        let found = hits.into_iter().map(|hit| {
            let Candidate { transaction, tweak, ref keys, .. } = candidates[hit];
            let is_paid = is_paid(scanner, tweak, keys)?;
            Ok(is_paid.then_some(Found { height: None, txid: transaction.txid, tweak: *tweak }))
        });
        found.filter_map(Result::transpose).collect()
    }
}

/// An unconfirmed transaction that may pay a key.
struct Candidate<'a> {
    transaction: &'a MempoolTransaction,
    tweak: &'a [u8; TWEAK_BYTES],
    keys: Vec<[u8; 32]>,
    /// The first bytes of each key.
    prefixes: Vec<[u8; PREFIX_BYTES]>,
}

impl<'a> Candidate<'a> {
    /// `None` if the transaction has no tweak.
    fn of(transaction: &'a MempoolTransaction) -> Result<Option<Self>> {
        let Some(tweak) = transaction.tweak() else { return Ok(None) };
        let keys = taproot_keys(&transaction.raw)?;
        let prefixes = keys.iter().map(|key| *key.first_chunk().expect("a key is longer")).collect();
        Ok(Some(Self { transaction, tweak, keys, prefixes }))
    }
}

impl Hit {
    /// Scans rows for a key.
    ///
    /// # Errors
    /// A row is damaged.
    pub fn among(rows: &[TweakRow<'_>], scanner: &Scanner) -> Result<Vec<Self>> {
        let scanned: Vec<Row<'_>> = rows.iter().map(|row| Row { tweak: row.tweak, prefixes: row.prefixes }).collect();
        let hits = scanner.scan(&scanned).map_err(|damaged| damage(damaged, rows))?;
        let hit = |hit: usize| {
            let TweakRow { height, position, tweak, .. } = rows[hit];
            Self { height, position, tweak: *tweak }
        };
        Ok(hits.into_iter().map(hit).collect())
    }

    /// Returns the transaction, of the chain that was scanned, if it pays the key. One that a pruned node has removed
    /// is returned for the first bytes of an output alone: once in 2^32 it pays another key, as its receiver finds out.
    ///
    /// # Errors
    /// Failures of the store and of the node's files.
    pub fn proved(&self, at: &Snapshot, scanner: &Scanner) -> Result<Option<Found>> {
        let txid = match at.raw_at(self.height, self.position) {
            Err(Error::Removed { .. }) => at.txid_at(self.height, self.position)?,
            raw => {
                let raw = raw?.ok_or_else(Error::unreadable_transaction)?;
                if !is_paid(scanner, &self.tweak, &taproot_keys(&raw)?)? {
                    return Ok(None);
                }
                Some(Txid::from_byte_array(txid_of(&raw).map_err(Error::unreadable_block)?))
            }
        };
        let txid = txid.ok_or_else(Error::unreadable_transaction)?;
        Ok(Some(Found { height: Some(self.height), txid, tweak: self.tweak }))
    }
}

fn is_paid(scanner: &Scanner, tweak: &[u8; TWEAK_BYTES], keys: &[[u8; 32]]) -> Result<bool> {
    scanner.key().is_paid(tweak, keys).map_err(|_| Error::unreadable_transaction())
}

/// Returns the keys of the taproot outputs of a serialised transaction.
fn taproot_keys(raw: &[u8]) -> Result<Vec<[u8; 32]>> {
    let transaction = Block::of_transaction(raw).map_err(Error::unreadable_block)?;
    Ok(transaction.outputs.iter().filter_map(|output| taproot_key(output.script).copied()).collect())
}

fn damage(DamagedTweak { row }: DamagedTweak, rows: &[TweakRow<'_>]) -> Error {
    let reason = format!("the tweak of transaction {} of block {} is no point", rows[row].position, rows[row].height);
    Error::Damaged { place: format!("the index of {}", Tweaks::NAME), reason }
}
