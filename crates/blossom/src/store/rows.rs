//! The rows of the index of blobs, as keys and values lie in `blobs.redb`. Numbers are big-endian in keys.
//!
//! | table | key | value |
//! |---|---|---|
//! | `blobs` | `sha256[32]` | `size u64, uploaded u64, owners u32` in 20 bytes, then the media type |
//! | `owners` | `sha256[32], pubkey[32]` | `uploaded` |
//! | `owned` | `pubkey[32], uploaded u64, sha256[32]` | nothing |
//! | `usage` | `pubkey[32]` | bytes, files |
//! | `total` | nothing | bytes, files |
//!
//! Invariants: `owners` and `owned` have the same pairs; `owners` of a blob is their number, and not zero; a usage is
//! the sum over the blobs of its key, the total that over all blobs, each counted once. One transaction changes all.

use std::ops::Bound;

use birdhouse_database::redb::{self, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use birdhouse_events::Pubkey;

use super::blob::{Blob, ListPage, Removed, Usage};
use crate::hash::BlobHash;

const BLOBS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("blobs");
const OWNERS: TableDefinition<'_, &[u8; 64], u64> = TableDefinition::new("owners");
const OWNED: TableDefinition<'_, &[u8; OWNED_BYTES], ()> = TableDefinition::new("owned");
const USAGE: TableDefinition<'_, &[u8; 32], (u64, u64)> = TableDefinition::new("usage");
const TOTAL: TableDefinition<'_, (), (u64, u64)> = TableDefinition::new("total");

const OWNED_BYTES: usize = 32 + 8 + 32;
/// Bytes of a blob's row before its media type.
const NUMBERS_BYTES: usize = 8 + 8 + 4;

/// A row of `blobs`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlobRow {
    size: u64,
    uploaded: u64,
    owners: u32,
    media_type: String,
}

/// A blob that a key uploads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upload<'a> {
    pub(super) hash: BlobHash,
    pub(super) owner: Pubkey,
    pub(super) size: u64,
    pub(super) media_type: &'a str,
    pub(super) now: u64,
}

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(BLOBS)?;
    transaction.open_table(OWNERS)?;
    transaction.open_table(OWNED)?;
    transaction.open_table(USAGE)?;
    transaction.open_table(TOTAL)?;
    Ok(())
}

/// Returns a blob; `None` if there is none.
pub(super) fn blob(transaction: &ReadTransaction, hash: BlobHash) -> Result<Option<Blob>, redb::Error> {
    let row = row(&transaction.open_table(BLOBS)?, hash)?;
    Ok(row.map(|row| row.into_blob(hash)))
}

/// Returns what a key owns.
pub(super) fn usage(transaction: &ReadTransaction, key: Pubkey) -> Result<Usage, redb::Error> {
    Ok(transaction.open_table(USAGE)?.get(&key.0)?.map(|row| Usage::of(row.value())).unwrap_or_default())
}

/// Returns all that is stored, each blob once.
pub(super) fn total(transaction: &ReadTransaction) -> Result<Usage, redb::Error> {
    Ok(transaction.open_table(TOTAL)?.get(())?.map(|row| Usage::of(row.value())).unwrap_or_default())
}

/// Returns true if a key owns a blob.
pub(super) fn is_owner(transaction: &ReadTransaction, hash: BlobHash, key: Pubkey) -> Result<bool, redb::Error> {
    Ok(transaction.open_table(OWNERS)?.get(&owners_key(hash, key))?.is_some())
}

/// Returns blobs of a key, the newest first, with the times at which this key has uploaded them; `None` if the page
/// begins after a blob that the key does not own.
pub(super) fn list(
    transaction: &ReadTransaction,
    key: Pubkey,
    page: ListPage,
) -> Result<Option<Vec<Blob>>, redb::Error> {
    let newest = owned_key(key, page.until.saturating_add(1), BlobHash([0; 32]));
    let end = match page.after {
        None => newest,
        Some(hash) => match transaction.open_table(OWNERS)?.get(&owners_key(hash, key))? {
            None => return Ok(None),
            Some(uploaded) => owned_key(key, uploaded.value(), hash).min(newest),
        },
    };
    let first = owned_key(key, page.since, BlobHash([0; 32]));
    if first > end {
        return Ok(Some(Vec::new()));
    }
    let (owned, blobs) = (transaction.open_table(OWNED)?, transaction.open_table(BLOBS)?);
    let mut listed = Vec::new();
    for entry in owned.range::<&[u8; OWNED_BYTES]>(&first..&end)?.rev().take(page.limit) {
        let (uploaded, hash) = of_owned_key(entry?.0.value());
        listed.extend(row(&blobs, hash)?.map(|row| Blob { uploaded, ..row.into_blob(hash) }));
    }
    Ok(Some(listed))
}

/// Adds an owner of a blob, and the blob if it is new. Returns the blob.
pub(super) fn add(transaction: &WriteTransaction, upload: &Upload<'_>) -> Result<Blob, redb::Error> {
    let Upload { hash, owner, size, media_type, now } = *upload;
    let mut blobs = transaction.open_table(BLOBS)?;
    let known = row(&blobs, hash)?;
    let is_new = known.is_none();
    let fresh = || BlobRow { size, uploaded: now, owners: 0, media_type: media_type.to_owned() };
    let mut row = known.unwrap_or_else(fresh);
    let mut owners = transaction.open_table(OWNERS)?;
    if owners.get(&owners_key(hash, owner))?.is_none() {
        owners.insert(&owners_key(hash, owner), now)?;
        transaction.open_table(OWNED)?.insert(&owned_key(owner, now, hash), ())?;
        row.owners = row.owners.saturating_add(1);
        blobs.insert(&hash.0, row.encode().as_slice())?;
        change_usage(transaction, owner, |usage| usage.plus(size))?;
    }
    if is_new {
        change_total(transaction, |total| total.plus(size))?;
    }
    Ok(row.into_blob(hash))
}

/// Removes an owner of a blob, and the blob with the last one.
pub(super) fn remove(transaction: &WriteTransaction, hash: BlobHash, owner: Pubkey) -> Result<Removed, redb::Error> {
    let mut blobs = transaction.open_table(BLOBS)?;
    let Some(mut row) = row(&blobs, hash)? else { return Ok(Removed::Unknown) };
    let uploaded = transaction.open_table(OWNERS)?.remove(&owners_key(hash, owner))?.map(|row| row.value());
    let Some(uploaded) = uploaded else { return Ok(Removed::NotOwned) };
    transaction.open_table(OWNED)?.remove(&owned_key(owner, uploaded, hash))?;
    change_usage(transaction, owner, |usage| usage.minus(row.size))?;
    row.owners = row.owners.saturating_sub(1);
    if row.owners > 0 {
        blobs.insert(&hash.0, row.encode().as_slice())?;
        return Ok(Removed::Owner);
    }
    blobs.remove(&hash.0)?;
    change_total(transaction, |total| total.minus(row.size))?;
    Ok(Removed::Blob)
}

/// Returns the row of a blob.
fn row(
    blobs: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
    hash: BlobHash,
) -> Result<Option<BlobRow>, redb::Error> {
    let Some(bytes) = blobs.get(&hash.0)? else { return Ok(None) };
    let damaged = || redb::Error::Corrupted(format!("the row of blob {hash}"));
    BlobRow::decode(bytes.value()).map(Some).ok_or_else(damaged)
}

/// Removes a blob from all of its owners.
pub(super) fn forget(transaction: &WriteTransaction, hash: BlobHash) -> Result<(), redb::Error> {
    let (first, last) = (owners_key(hash, Pubkey([0; 32])), owners_key(hash, Pubkey([0xff; 32])));
    let mut owners = Vec::new();
    for entry in transaction.open_table(OWNERS)?.range::<&[u8; 64]>(&first..=&last)? {
        let key = *entry?.0.value();
        owners.push(Pubkey(key[32..].try_into().expect("32 bytes")));
    }
    owners.into_iter().try_for_each(|owner| remove(transaction, hash, owner).map(drop))
}

/// Returns blobs in the order of their hashes, after one of them.
pub(super) fn after(
    transaction: &ReadTransaction,
    last: Option<BlobHash>,
    most: usize,
) -> Result<Vec<BlobHash>, redb::Error> {
    let from = last.as_ref().map_or(Bound::Unbounded, |BlobHash(last)| Bound::Excluded(last));
    let blobs = transaction.open_table(BLOBS)?;
    let hashes = blobs.range::<&[u8; 32]>((from, Bound::Unbounded))?.take(most);
    hashes.map(|entry| Ok(BlobHash(*entry?.0.value()))).collect()
}

fn change_usage(
    transaction: &WriteTransaction,
    key: Pubkey,
    change: impl FnOnce(Usage) -> Usage,
) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(USAGE)?;
    let changed = change(table.get(&key.0)?.map(|row| Usage::of(row.value())).unwrap_or_default());
    if changed == Usage::default() {
        table.remove(&key.0)?;
    } else {
        table.insert(&key.0, (changed.bytes, changed.files))?;
    }
    Ok(())
}

fn change_total(transaction: &WriteTransaction, change: impl FnOnce(Usage) -> Usage) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(TOTAL)?;
    let changed = change(table.get(())?.map(|row| Usage::of(row.value())).unwrap_or_default());
    table.insert((), (changed.bytes, changed.files))?;
    Ok(())
}

fn owners_key(hash: BlobHash, owner: Pubkey) -> [u8; 64] {
    let mut key = [0; 64];
    key[..32].copy_from_slice(&hash.0);
    key[32..].copy_from_slice(&owner.0);
    key
}

fn owned_key(owner: Pubkey, uploaded: u64, hash: BlobHash) -> [u8; OWNED_BYTES] {
    let mut key = [0; OWNED_BYTES];
    key[..32].copy_from_slice(&owner.0);
    key[32..40].copy_from_slice(&uploaded.to_be_bytes());
    key[40..].copy_from_slice(&hash.0);
    key
}

/// Returns the time and the blob of a key of `owned`.
fn of_owned_key(key: &[u8; OWNED_BYTES]) -> (u64, BlobHash) {
    let uploaded = u64::from_be_bytes(key[32..40].try_into().expect("8 bytes"));
    (uploaded, BlobHash(key[40..].try_into().expect("32 bytes")))
}

// === impl BlobRow ===

impl BlobRow {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NUMBERS_BYTES + self.media_type.len());
        bytes.extend(self.size.to_be_bytes());
        bytes.extend(self.uploaded.to_be_bytes());
        bytes.extend(self.owners.to_be_bytes());
        bytes.extend(self.media_type.as_bytes());
        bytes
    }

    /// Decodes a row; `None` for bytes that [`Self::encode`] cannot produce.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, media_type) = bytes.split_first_chunk::<NUMBERS_BYTES>()?;
        let u64_at = |at: usize| numbers[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        Some(Self {
            size: u64_at(0)?,
            uploaded: u64_at(8)?,
            owners: numbers[16..].try_into().map(u32::from_be_bytes).ok()?,
            media_type: str::from_utf8(media_type).ok()?.to_owned(),
        })
    }

    fn into_blob(self, hash: BlobHash) -> Blob {
        Blob { hash, size: self.size, uploaded: self.uploaded, media_type: self.media_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_blob_is_its_numbers_and_its_type() {
        let row = BlobRow { size: 0x0102, uploaded: 3, owners: 4, media_type: "image/png".to_owned() };
        let bytes = [&[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4], &b"image/png"[..]].concat();
        assert_eq!(row.encode(), bytes);
        assert_eq!(BlobRow::decode(&bytes), Some(row));
        assert_eq!(BlobRow::decode(&bytes[..19]), None);
        assert_eq!(BlobRow::decode(&[&bytes[..20], &[0xff]].concat()), None);
    }

    #[test]
    fn keys_of_an_owner_are_ordered_by_time() {
        let key = |uploaded, hash| owned_key(Pubkey([7; 32]), uploaded, BlobHash([hash; 32]));
        assert!(key(1, 9) < key(2, 0) && key(255, 0) < key(256, 0) && key(1, 1) < key(1, 2));
        assert_eq!(of_owned_key(&key(258, 3)), (258, BlobHash([3; 32])));
    }

    #[test]
    fn a_usage_never_falls_below_nothing() {
        let usage = Usage { bytes: 5, files: 1 };
        assert_eq!(usage.minus(7).minus(1), Usage::default());
        assert_eq!(usage.plus(u64::MAX).bytes, u64::MAX);
    }
}
