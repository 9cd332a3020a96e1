//! Room for uploads under way: they count towards the quotas before they are stored.

use std::collections::HashMap;
use std::sync::Arc;

use birdhouse_events::Pubkey;
use parking_lot::Mutex;

use super::blob::Usage;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// Uploads under way, by their keys. There are no more entries than uploads.
///
/// The rows of usage are read without the lock. A row is added before its reservation is dropped; so if none was
/// dropped since before the reading, no upload is missing in both.
#[derive(Debug, Default)]
pub(crate) struct Reserved(Mutex<All>);

/// All uploads under way.
#[derive(Debug, Default)]
struct All {
    by_key: HashMap<Pubkey, UnderWay>,
    /// Number of reservations that were dropped.
    dropped: u64,
}

/// Uploads of a key under way.
#[derive(Debug, Clone, Copy, Default)]
struct UnderWay {
    uploads: usize,
    /// Bytes that they write.
    bytes: u64,
    /// Their part in the quotas of the key.
    counted: Usage,
}

/// Room for one upload. Dropping it gives the room back.
#[derive(Debug)]
pub(crate) struct Reservation {
    all: Arc<Reserved>,
    owner: Pubkey,
    quotas: Quotas,
    counted: Usage,
    bytes: u64,
}

/// An upload's part in the quotas of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quotas {
    Counted,
    /// The key owns the blob already.
    Owned,
}

/// The quota without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Bytes of the key.
    KeyBytes,
    /// Files of the key.
    KeyFiles,
    /// Uploads of the key under way.
    KeyUploads,
    /// Bytes of all.
    All,
    /// The disk.
    Disk,
}

/// The reason why room was not reserved.
#[derive(Debug)]
pub(crate) enum Unreserved {
    NoRoom(NoRoom),
    /// The usage could not be read.
    Failed(Error),
}

impl From<Error> for Unreserved {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// An upload that asks for room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) owner: Pubkey,
    pub(crate) bytes: u64,
    pub(crate) quotas: Quotas,
    /// Bytes that can still be written to the disk, if they are known.
    pub(crate) disk_free_bytes: Option<u64>,
}

impl Reserved {
    /// Reserves room for an upload beside what is stored, which `stock` reads.
    pub(super) fn take(
        self: &Arc<Self>,
        wanted: Wanted,
        stock: impl Fn() -> Result<Stock>,
        limits: &Limits,
    ) -> Result<Reservation, Unreserved> {
        loop {
            let dropped = self.0.lock().dropped;
            let stock = stock()?;
            let mut all = self.0.lock();
            if all.dropped != dropped {
                continue;
            }
            let counted = take(&mut all.by_key, wanted, stock, limits).map_err(Unreserved::NoRoom)?;
            drop(all);
            let Wanted { owner, bytes, quotas, .. } = wanted;
            return Ok(Reservation { all: Arc::clone(self), owner, quotas, counted, bytes });
        }
    }
}

/// Usage by the key of an upload, and by all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stock {
    pub(super) own: Usage,
    pub(super) all: Usage,
}

/// Adds an upload to those under way; returns what counts for its key.
fn take(
    under_way: &mut HashMap<Pubkey, UnderWay>,
    wanted: Wanted,
    stock: Stock,
    limits: &Limits,
) -> Result<Usage, NoRoom> {
    let Wanted { owner, bytes, quotas, disk_free_bytes } = wanted;
    let bytes_of_all = under_way.values().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    let of_owner = under_way.get(&owner).copied().unwrap_or_default();
    let counted = match quotas {
        Quotas::Counted => Usage { bytes, files: 1 },
        Quotas::Owned => Usage::default(),
    };
    let is_over = |most: Option<u64>, parts: [u64; 3]| {
        most.is_some_and(|most| parts.into_iter().fold(0_u64, u64::saturating_add) > most)
    };
    if limits.key_uploads.is_some_and(|most| of_owner.uploads >= most) {
        return Err(NoRoom::KeyUploads);
    }
    if quotas == Quotas::Counted {
        if is_over(limits.key_bytes, [stock.own.bytes, of_owner.counted.bytes, bytes]) {
            return Err(NoRoom::KeyBytes);
        }
        if is_over(limits.key_files, [stock.own.files, of_owner.counted.files, 1]) {
            return Err(NoRoom::KeyFiles);
        }
        if is_over(limits.all_bytes, [stock.all.bytes, bytes_of_all, bytes]) {
            return Err(NoRoom::All);
        }
    }
    // What was written of the others counts twice: on the safe side.
    if is_over(disk_free_bytes, [limits.disk_free_bytes.unwrap_or(0), bytes_of_all, bytes]) {
        return Err(NoRoom::Disk);
    }
    let of_owner = under_way.entry(owner).or_default();
    of_owner.uploads += 1;
    of_owner.bytes += bytes;
    of_owner.counted.bytes += counted.bytes;
    of_owner.counted.files += counted.files;
    Ok(counted)
}

impl Reservation {
    /// Returns the part of the upload in the quotas of its key.
    pub(crate) fn quotas(&self) -> Quotas {
        self.quotas
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        all.dropped += 1;
        let Some(of_owner) = all.by_key.get_mut(&self.owner) else { return };
        of_owner.uploads -= 1;
        of_owner.bytes -= self.bytes;
        of_owner.counted.bytes -= self.counted.bytes;
        of_owner.counted.files -= self.counted.files;
        if of_owner.uploads == 0 {
            all.by_key.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_under_way_count_towards_every_quota() {
        let limits = Limits {
            key_bytes: Some(100),
            key_files: Some(3),
            all_bytes: Some(150),
            disk_free_bytes: Some(1000),
            key_uploads: Some(3),
            ..Limits::default()
        };
        let mut under_way = HashMap::new();
        let mut ask = |owner: u8, bytes, stock: Stock, free| {
            let owner = Pubkey([owner; 32]);
            let wanted = Wanted { owner, bytes, quotas: Quotas::Counted, disk_free_bytes: Some(free) };
            take(&mut under_way, wanted, stock, &limits).err()
        };
        let (none, free) = (Stock::default(), 10_000);
        assert_eq!(ask(1, 60, none, free), None);
        assert_eq!(ask(1, 41, none, free), Some(NoRoom::KeyBytes));
        assert_eq!(ask(1, 40, none, free), None);
        assert_eq!(ask(2, 51, none, free), Some(NoRoom::All));
        assert_eq!(ask(2, 50, Stock { all: Usage { bytes: 1, files: 1 }, ..none }, free), Some(NoRoom::All));
        assert_eq!(ask(2, 50, none, 1149), Some(NoRoom::Disk));
        assert_eq!(ask(2, 50, none, 1150), None);
        assert_eq!(ask(1, 0, Stock { own: Usage { bytes: 0, files: 1 }, ..none }, free), Some(NoRoom::KeyFiles));
        assert_eq!(ask(3, u64::MAX, none, free), Some(NoRoom::KeyBytes));
        assert_eq!([(); 4].map(|()| ask(4, 0, none, free)), [None, None, None, Some(NoRoom::KeyUploads)]);
    }
}
