//! The schedule of expirations (NIP-40): a table of the events that expire, in the order of their times. So whatever is
//! due is found without a scan of the events.
//!
//! ```text
//! table `expiry`  expiration u32 BE | seq u48 BE -> nothing
//! ```
//!
//! A row is written with its event, and deleted after the event has a tombstone. A row may be a leftover of a power
//! cut, so the event's head decides.

use birdhouse_store::{Batch, Direction, KeyRange, PageLimit, Store, Table};

use crate::error::{Error, Result};
use crate::event::Seq;

/// The table of expirations.
pub(crate) const EXPIRY: Table = Table { name: "expiry", partition_bytes: 0, compress: false };

/// A row of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiration {
    /// Seconds since 1970.
    pub(crate) at: u32,
    pub(crate) seq: Seq,
}

// === impl Expiration ===

impl Expiration {
    pub(super) fn key(self) -> [u8; 10] {
        let mut key = [0; 10];
        key[..4].copy_from_slice(&self.at.to_be_bytes());
        key[4..].copy_from_slice(&self.seq.0.to_be_bytes()[2..]);
        key
    }

    fn parse(key: &[u8]) -> Result<Self> {
        let parsed = key.split_first_chunk().and_then(|(at, seq)| Some((at, seq.try_into().ok()?)));
        let damaged = || birdhouse_store::Error::Corrupt {
            table: EXPIRY.name.to_owned(),
            reason: format!("a key has {} bytes, not 10", key.len()),
        };
        let (at, seq): (&[u8; 4], [u8; 6]) = parsed.ok_or_else(|| Error::Store(damaged()))?;
        let mut whole = [0; 8];
        whole[2..].copy_from_slice(&seq);
        Ok(Self { at: u32::from_be_bytes(*at), seq: Seq(u64::from_be_bytes(whole)) })
    }
}

/// Adds an event to a batch of the schedule.
pub(crate) fn schedule(batch: &mut Batch, expiration: Expiration) {
    batch.put(EXPIRY, expiration.key(), []);
}

/// Removes rows from the schedule.
pub(crate) fn remove(store: &dyn Store, rows: &[Expiration]) -> Result<()> {
    let mut batch = Batch::new();
    rows.iter().map(|row| row.key()).for_each(|key| batch.delete(EXPIRY, key));
    Ok(store.write(batch)?)
}

/// Returns up to `most` expirations from a time to another one, the earliest first.
pub(crate) fn due(store: &dyn Store, from: u32, now: u32, most: usize) -> Result<Vec<Expiration>> {
    let end = now.checked_add(1).map_or(Vec::new(), |end| end.to_be_bytes().to_vec());
    let range = KeyRange { start: from.to_be_bytes().to_vec(), end, direction: Direction::Forward };
    let limit = PageLimit { rows: most, bytes: usize::MAX };
    let pages = store.scan_many(EXPIRY, std::slice::from_ref(&range), limit)?;
    pages.iter().flat_map(|page| &page.rows).map(|(key, _)| Expiration::parse(key)).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_store::MemoryStore;

    use super::*;

    #[test]
    fn expirations_are_due_in_the_order_of_their_times() {
        let row = |at, seq| Expiration { at, seq: Seq(seq) };
        assert_eq!(row(0x0102_0304, 0x0506_0708_090a).key(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let rows = [row(1, 300), row(255, 2), row(256, 1), row(u32::MAX, 0)];
        let (store, mut batch) = (MemoryStore::new(), Batch::new());
        rows.iter().rev().for_each(|row| schedule(&mut batch, *row));
        store.write(batch).unwrap();
        assert_eq!(due(&store, 0, u32::MAX, 10).unwrap(), rows);
        assert_eq!(due(&store, 256, u32::MAX, 10).unwrap(), rows[2..]);
        assert_eq!(due(&store, 0, 255, 10).unwrap(), rows[..2]);
        assert_eq!(due(&store, 0, 256, 1).unwrap(), rows[..1]);
        assert_eq!(due(&store, 0, 0, 10).unwrap(), []);
        remove(&store, &rows[..3]).unwrap();
        assert_eq!(due(&store, 0, u32::MAX, 10).unwrap(), rows[3..]);
    }
}
