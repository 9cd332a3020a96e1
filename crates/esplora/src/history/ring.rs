//! The file of the history: a head, then one ring of slots a tier, each tier with longer intervals than the one before.
//!
//! ```text
//! "birdhouse-history 2\n" | record bytes u32 | slots u32 | CRC-32C u32 | padding to 64 | slots..
//! ```
//!
//! A record's slot in a tier follows from its time: the number of its interval, modulo the slots of the tier. So
//! nothing but slots is ever written, an interrupted write damages at most the newest slot of a tier, and a slot proves
//! by its checksum and its time that it belongs there. The head is written last when the file is made.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::Record;

/// A ring of slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tier {
    pub(super) interval_s: u32,
    pub(super) slots: u32,
}

/// The tiers: 24 hours, a week, a month, a quarter, half a year, a year. A span that does not begin with an interval
/// touches one more.
pub(super) const TIERS: [Tier; 6] = [
    Tier { interval_s: 60, slots: 24 * 60 + 1 },
    Tier { interval_s: 300, slots: 7 * 24 * 12 + 1 },
    Tier { interval_s: 1_800, slots: 31 * 24 * 2 + 1 },
    Tier { interval_s: 7_200, slots: 92 * 12 + 1 },
    Tier { interval_s: 10_800, slots: 184 * 8 + 1 },
    Tier { interval_s: 28_800, slots: 366 * 3 + 1 },
];
const HEAD_BYTES: usize = 64;
const MAGIC: &[u8; 20] = b"birdhouse-history 2\n";
/// Mode of a file that only its owner may read.
const OWNER_ONLY: u32 = 0o600;

/// The open file.
#[derive(Debug)]
pub(super) struct Ring {
    file: File,
}

impl Ring {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let exists = path.exists();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY).open(path)?;
        let ring = Self { file };
        if !ring.is_whole()? {
            if exists {
                tracing::warn!(path = %path.display(), "began the history of the mempool anew: its file is damaged, or of an earlier version");
            }
            ring.begin()?;
        }
        Ok(ring)
    }

    /// Writes a record into its slot of each tier.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let bytes = record.encode();
        TIERS.iter().enumerate().try_for_each(|(index, tier)| {
            let slot = start(index) + u64::from(tier.slot_of(record.time)) * Record::BYTES as u64;
            self.file.write_all_at(&bytes, slot)
        })
    }

    /// Returns the records of a tier that lie in slots of their own, in no order.
    pub(super) fn read(&self, index: usize) -> io::Result<Vec<Record>> {
        let tier = TIERS[index];
        let mut bytes = vec![0; tier.slots as usize * Record::BYTES];
        self.file.read_exact_at(&mut bytes, start(index))?;
        let (slots, _) = bytes.as_chunks();
        let record = |(slot, bytes): (u32, _)| Record::decode(bytes).filter(|record| tier.slot_of(record.time) == slot);
        Ok((0..).zip(slots).filter_map(record).collect())
    }

    fn is_whole(&self) -> io::Result<bool> {
        if self.file.metadata()?.len() != start(TIERS.len()) {
            return Ok(false);
        }
        let mut found = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut found, 0)?;
        Ok(found == head())
    }

    fn begin(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(start(TIERS.len()))?;
        self.file.write_all_at(&head(), 0)
    }
}

impl Tier {
    fn slot_of(self, time: u32) -> u32 {
        time / self.interval_s % self.slots
    }
}

/// Returns the offset of a tier; that behind the last one is the length of the file.
fn start(index: usize) -> u64 {
    let slots: u64 = TIERS[..index].iter().map(|tier| u64::from(tier.slots)).sum();
    HEAD_BYTES as u64 + slots * Record::BYTES as u64
}

fn head() -> [u8; HEAD_BYTES] {
    let mut head = MAGIC.to_vec();
    head.extend(u32::try_from(Record::BYTES).unwrap_or_default().to_le_bytes());
    head.extend(TIERS.iter().map(|tier| tier.slots).sum::<u32>().to_le_bytes());
    head.extend(crc32c::crc32c(&head).to_le_bytes());
    head.resize(HEAD_BYTES, 0);
    head.try_into().expect("it was resized")
}
