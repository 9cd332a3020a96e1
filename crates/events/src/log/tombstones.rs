//! Tombstones: events in the log that were replaced or deleted, that expired, that retention rules do not keep, or
//! whose author vanished.
//!
//! ```text
//! array `dead`  u48 LE of the event | u48 LE of the event that replaced or deleted it      12 bytes
//! ```
//!
//! An event that expired or is not kept has its own number twice. The manifest names the section that counts. An event
//! whose space was given back (see `log::moved`) needs no entry.
//!
//! An event that is gone from the log has a tombstone in every version that lacks it. So readers look for a tombstone
//! before they ask the log, and a number without one is always in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::{Array, ArraySpec, Store};

use crate::error::Result;
use crate::event::Seq;
use crate::log::sorted::Section;

const TOMBSTONES: ArraySpec = ArraySpec { name: "dead", record_bytes: 12 };

/// Words of a chunk, which covers a million events.
const CHUNK_WORDS: usize = 1 << 14;

/// An event that no longer counts, and the event that caused this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) of: Seq,
    pub(crate) by: Seq,
}

/// Set of tombstoned events, one bit for each event. Clones share the chunks that exist, and see bits that are set
/// there later.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    chunks: Arc<Vec<Arc<[AtomicU64]>>>,
    count: u64,
}

/// Array of tombstones.
pub(crate) struct TombstoneArray(Arc<dyn Array>);

impl TombstoneArray {
    /// Opens the array and truncates what was not published.
    pub(crate) fn open(store: &dyn Store, section: Section) -> Result<Self> {
        let array = Self::of(store)?;
        array.truncate(section)?;
        Ok(array)
    }

    /// Opens the array as it is.
    pub(crate) fn of(store: &dyn Store) -> Result<Self> {
        Ok(Self(store.array(TOMBSTONES)?))
    }

    /// Truncates what was not published.
    pub(crate) fn truncate(&self, section: Section) -> Result<()> {
        Ok(self.0.truncate(section.first + section.count)?)
    }

    /// Reads the tombstones of a section.
    pub(crate) fn load(&self, section: Section) -> Result<Tombstones> {
        let mut tombstones = Tombstones::default();
        section.visit(&*self.0, &mut |bytes| {
            let (records, _) = bytes.as_chunks::<12>();
            for record in records {
                tombstones.add(Seq::from_bytes(*record.first_chunk().expect("a record has 12 bytes")));
            }
        })?;
        Ok(tombstones)
    }

    /// Returns the tombstones of a section that fulfil a condition.
    pub(crate) fn filtered(&self, section: Section, is_kept: &dyn Fn(Seq) -> bool) -> Result<Vec<Tombstone>> {
        let mut kept = Vec::new();
        section.visit(&*self.0, &mut |bytes| {
            let (records, _) = bytes.as_chunks::<12>();
            let all = records.iter().map(|record| {
                let seq = |half: &[u8]| Seq::from_bytes(*half.first_chunk().expect("a half has 6 bytes"));
                Tombstone { of: seq(&record[..6]), by: seq(&record[6..]) }
            });
            kept.extend(all.filter(|tombstone| is_kept(tombstone.of)));
        })?;
        Ok(kept)
    }

    /// Gives back the tombstones before a section.
    pub(crate) fn discard_before(&self, section: Section) -> Result<()> {
        Ok(self.0.discard(0, section.first)?)
    }

    /// Appends tombstones to a section and returns it with them.
    pub(crate) fn append(&self, section: Section, tombstones: &[Tombstone]) -> Result<Section> {
        let records = tombstones.iter().flat_map(|tombstone| [tombstone.of.to_bytes(), tombstone.by.to_bytes()]);
        self.0.write(section.first + section.count, records.collect::<Vec<_>>().as_flattened())?;
        Ok(Section { count: section.count + tombstones.len() as u64, ..section })
    }
}

impl Tombstones {
    pub(crate) fn contains(&self, seq: Seq) -> bool {
        let (chunk, word, bit) = locate(seq);
        self.chunks.get(chunk).is_some_and(|words| words[word].load(Ordering::Relaxed) >> bit & 1 == 1)
    }

    /// Returns the tombstones of 64 events from `64 * word` on, one bit each.
    pub(super) fn word(&self, word: u64) -> u64 {
        let word = usize::try_from(word).expect("one bit for each event fits in memory");
        self.chunks.get(word / CHUNK_WORDS).map_or(0, |words| words[word % CHUNK_WORDS].load(Ordering::Relaxed))
    }

    pub(crate) fn add(&mut self, seq: Seq) {
        let (chunk, word, bit) = locate(seq);
        while self.chunks.len() <= chunk {
            Arc::make_mut(&mut self.chunks).push((0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        let before = self.chunks[chunk][word].fetch_or(1 << bit, Ordering::Relaxed);
        self.count += u64::from(before >> bit & 1 == 0);
    }

    /// Withdraws a tombstone whose publish failed.
    pub(crate) fn remove(&mut self, seq: Seq) {
        let (chunk, word, bit) = locate(seq);
        if let Some(words) = self.chunks.get(chunk) {
            let before = words[word].fetch_and(!(1 << bit), Ordering::Relaxed);
            self.count -= before >> bit & 1;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

fn locate(seq: Seq) -> (usize, usize, u64) {
    let word = usize::try_from(seq.0 / 64).expect("one bit for each event fits in memory");
    (word / CHUNK_WORDS, word % CHUNK_WORDS, seq.0 % 64)
}
