//! Moved units: parts of the log that were copied without the events that are gone.
//!
//! A *unit* is a run of consecutive event numbers, `2^unit_bits` long. Until it is moved, its heads are in `event` and
//! its bodies in `body`. A moved unit has the events that it kept in `moved`, and its former space is given back.
//! Numbers never change, so postings stay valid: a bitmap and its ranks lead from a number to the event's head.
//!
//! ```text
//! array `moved`  at `first`: bitmap of the kept events, 2^unit_bits bits | heads of these, 48 bytes each | bodies
//! array `unit`   unit u32 LE | kept events u32 LE | first u64 LE | bytes u64 LE | former bodies, twice u64 LE
//! ```
//!
//! The heads of a moved unit have offsets in `moved`. The manifest names the section of `unit` that counts. It has the
//! moved units, ascending. A unit that kept nothing has no bytes.

use std::ops::Range;
use std::sync::Arc;

use birdhouse_store::{Array, ArraySpec, Store};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::head::HEAD_BYTES;
use crate::error::Result;
use crate::event::Seq;
use crate::log::sorted::Section;

const MOVED: ArraySpec = ArraySpec { name: "moved", record_bytes: 1 };
const UNIT: ArraySpec = ArraySpec { name: "unit", record_bytes: size_of::<MovedUnit>() };
const _: () = assert!(size_of::<MovedUnit>() == 40);

/// Alignment of a unit in `moved`: space is given back in pages of the disk.
const ALIGNMENT: u64 = 4096;
/// Words of the bitmap between two ranks.
const RANK_WORDS: usize = 2;

/// Entry of a moved unit in the array `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct MovedUnit {
    unit: U32,
    kept: U32,
    first: U64,
    bytes: U64,
    bodies_start: U64,
    bodies_end: U64,
}

/// Set of the events of a unit, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitBits(Vec<u64>);

/// A moved unit that can be read.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    entry: MovedUnit,
    /// The kept events.
    pub(super) kept: UnitBits,
    /// Number of kept events before every [`RANK_WORDS`]th word.
    ranks: Vec<u32>,
}

/// The moved units of one version, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct MovedUnits {
    bits: u32,
    units: Vec<Option<Arc<OpenUnit>>>,
}

/// Where the log has an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// Its unit was not moved.
    Unmoved,
    /// Its head lies at this byte of `moved`.
    Moved(u64),
    /// Its space was given back.
    Gone,
}

/// The arrays of moved units.
pub(crate) struct MovedArrays {
    pub(super) content: Arc<dyn Array>,
    units: Arc<dyn Array>,
}

// === impl MovedUnit ===

impl MovedUnit {
    /// Returns the entry of a unit that keeps some events with some bytes of bodies. It starts at `first` or after.
    /// `former` is where its bodies were in `body`.
    pub(super) fn new(unit: u64, bits: u32, kept: usize, body_bytes: u64, first: u64, former: &Range<u64>) -> Self {
        let bytes = if kept == 0 { 0 } else { UnitBits::bytes(bits) + (HEAD_BYTES * kept) as u64 + body_bytes };
        Self {
            unit: u32::try_from(unit).expect("numbers of events have 48 bits").into(),
            kept: u32::try_from(kept).expect("a unit has at most 2^20 events").into(),
            first: first.next_multiple_of(ALIGNMENT).into(),
            bytes: bytes.into(),
            bodies_start: former.start.into(),
            bodies_end: former.end.into(),
        }
    }

    pub(super) fn unit(&self) -> u64 {
        self.unit.get().into()
    }

    /// Returns the number of events that the unit kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept.get().into()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Returns the bytes of `moved` that the unit takes, with those up to the next unit.
    pub(crate) fn range(&self) -> Range<u64> {
        let first = self.first.get();
        first..first + self.bytes.get().next_multiple_of(ALIGNMENT)
    }

    /// Returns the bytes of `body` that the unit took before it was moved.
    pub(crate) fn former_bodies(&self) -> Range<u64> {
        self.bodies_start.get()..self.bodies_end.get()
    }

    /// Returns the byte of the first head, and that of the first body.
    pub(super) fn parts(&self, bits: u32) -> (u64, u64) {
        let heads = self.first.get() + UnitBits::bytes(bits);
        (heads, heads + HEAD_BYTES as u64 * self.kept())
    }

    /// Returns the byte at which the unit starts.
    pub(super) fn first(&self) -> u64 {
        self.first.get()
    }
}

// === impl UnitBits ===

impl UnitBits {
    /// Returns the bytes of the set of a unit.
    pub(crate) fn bytes(bits: u32) -> u64 {
        (1_u64 << bits).div_ceil(8)
    }

    /// Returns the set of the words in their order, 64 events each.
    pub(super) fn of_words(words: Vec<u64>) -> Self {
        Self(words)
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Returns the indices in the set, ascending.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().zip(0..).flat_map(|(word, number): (&u64, u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * number + bit)
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

// === impl OpenUnit ===

impl OpenUnit {
    pub(super) fn new(entry: MovedUnit, kept: UnitBits) -> Self {
        let mut count = 0;
        let ranks = kept.0.chunks(RANK_WORDS).map(|words| {
            let before = count;
            count += words.iter().map(|word| word.count_ones()).sum::<u32>();
            before
        });
        Self { ranks: ranks.collect(), entry, kept }
    }

    pub(crate) fn entry(&self) -> &MovedUnit {
        &self.entry
    }

    /// Returns the byte of the head of the event with this index in the unit; `None` if the event is gone.
    fn head(&self, index: usize, bits: u32) -> Option<u64> {
        if !self.kept.contains(index) {
            return None;
        }
        let word = index / 64;
        let first = word / RANK_WORDS * RANK_WORDS;
        let between = self.kept.0[first..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let below = (self.kept.0[word] & ((1 << (index % 64)) - 1)).count_ones();
        let rank = self.ranks[word / RANK_WORDS] + between + below;
        Some(self.entry.parts(bits).0 + u64::from(rank) * HEAD_BYTES as u64)
    }
}

// === impl MovedUnits ===

impl MovedUnits {
    /// Returns the events of a unit.
    pub(crate) fn unit_events(&self) -> u64 {
        1 << self.bits
    }

    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns true if no unit was moved.
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Returns a unit by its number, if it was moved.
    pub(crate) fn get(&self, unit: u64) -> Option<&Arc<OpenUnit>> {
        usize::try_from(unit).ok().and_then(|unit| self.units.get(unit)?.as_ref())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<OpenUnit>> {
        self.units.iter().flatten()
    }

    /// Returns the number of events whose space was given back.
    pub(crate) fn gone(&self) -> u64 {
        self.iter().map(|unit| self.unit_events() - unit.entry.kept()).sum()
    }

    /// Visits the events whose space was given back.
    pub(crate) fn visit_gone(&self, mut visit: impl FnMut(Seq)) {
        for unit in self.iter() {
            let first = unit.entry.unit() << self.bits;
            let gone = UnitBits(unit.kept.0.iter().map(|word| !word).collect());
            gone.indices().for_each(|index| visit(Seq(first + index)));
        }
    }

    /// Returns true if the unit of an event was moved.
    pub(super) fn has_unit_of(&self, seq: Seq) -> bool {
        !self.units.is_empty() && self.get(seq.0 >> self.bits).is_some()
    }

    pub(crate) fn locate(&self, seq: Seq) -> Location {
        match self.get(seq.0 >> self.bits) {
            None => Location::Unmoved,
            Some(unit) => {
                let index = usize::try_from(seq.0 & (self.unit_events() - 1)).expect("a unit fits in memory");
                unit.head(index, self.bits).map_or(Location::Gone, Location::Moved)
            }
        }
    }

    /// Returns the units with another one, or another version of one.
    pub(crate) fn with(&self, unit: OpenUnit) -> Self {
        let mut units = self.units.clone();
        let number = usize::try_from(unit.entry.unit()).expect("units fit in memory");
        units.resize(units.len().max(number + 1), None);
        units[number] = Some(Arc::new(unit));
        Self { units, ..*self }
    }
}

// === impl MovedArrays ===

impl MovedArrays {
    pub(super) fn open(store: &dyn Store) -> Result<Self> {
        Ok(Self { content: store.array(MOVED)?, units: store.array(UNIT)? })
    }

    /// Opens the moved units in a section. Units of `known` are not read again.
    pub(crate) fn load(&self, bits: u32, section: Section, known: &MovedUnits) -> Result<MovedUnits> {
        let mut entries = Vec::new();
        section.visit(&*self.units, &mut |bytes| {
            entries.extend_from_slice(<[MovedUnit]>::ref_from_bytes(bytes).expect("arrays return whole records"));
        })?;
        let mut moved = MovedUnits { bits, units: Vec::new() };
        let words = usize::try_from(UnitBits::bytes(bits) / 8).expect("a unit fits in memory");
        let last = entries.last().map_or(0, |entry| entry.unit() + 1);
        moved.units.resize(usize::try_from(last).expect("units fit in memory"), None);
        for entry in entries {
            let number = usize::try_from(entry.unit()).expect("units fit in memory");
            if let Some(open) = known.get(entry.unit()).filter(|open| open.entry == entry) {
                moved.units[number] = Some(Arc::clone(open));
                continue;
            }
            let mut kept = vec![0; words];
            if entry.kept() > 0 {
                self.content.visit_run(entry.first(), words * 8, &mut |bytes| {
                    for (word, bytes) in kept.iter_mut().zip(bytes.as_chunks().0) {
                        *word = u64::from_le_bytes(*bytes);
                    }
                })?;
            }
            moved.units[number] = Some(Arc::new(OpenUnit::new(entry, UnitBits(kept))));
        }
        Ok(moved)
    }

    /// Writes the bitmap of a unit, before its heads.
    pub(super) fn write_bits(&self, entry: &MovedUnit, kept: &UnitBits) -> Result<()> {
        Ok(self.content.write(entry.first(), &kept.to_bytes())?)
    }

    /// Writes the entries of units behind all others; returns their section for the manifest.
    pub(crate) fn write_entries(&self, moved: &MovedUnits) -> Result<Section> {
        let entries: Vec<MovedUnit> = moved.iter().map(|unit| unit.entry).collect();
        let section = Section { first: self.units.len(), count: entries.len() as u64 };
        self.units.write(section.first, entries.as_bytes())?;
        Ok(section)
    }

    /// Gives back the entries before a section.
    pub(crate) fn discard_entries_before(&self, section: Section) -> Result<()> {
        Ok(self.units.discard(0, section.first)?)
    }

    /// Gives back bytes of `moved`.
    pub(crate) fn discard(&self, range: &Range<u64>) -> Result<()> {
        Ok(self.content.discard(range.start, range.end - range.start)?)
    }

    /// Gives back the bytes of `moved` that no unit has: leftovers of a power cut.
    pub(super) fn sweep(&self, moved: &MovedUnits) -> Result<()> {
        let mut used: Vec<Range<u64>> =
            moved.iter().map(|unit| unit.entry.range()).filter(|range| !range.is_empty()).collect();
        used.sort_unstable_by_key(|range| range.start);
        let mut free = 0;
        for range in used.into_iter().chain(std::iter::once(self.content.len()..u64::MAX)) {
            if free < range.start {
                self.discard(&(free..range.start))?;
            }
            free = range.end;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_store::MemoryStore;
    use proptest::prelude::*;

    use super::*;

    const BITS: u32 = 9;

    fn unit(number: u64, words: Vec<u64>, first: u64) -> OpenUnit {
        let kept = UnitBits::of_words(words);
        let count = usize::try_from(kept.count()).unwrap();
        OpenUnit::new(MovedUnit::new(number, BITS, count, 1000, first, &(7..9)), kept)
    }

    #[test]
    fn an_entry_has_the_bytes_that_the_manual_describes() {
        let entry = MovedUnit::new(3, BITS, 2, 1000, 1, &(7..9));
        assert_eq!(entry.as_bytes(), crate::event::samples::of_the_manual("relay-unit"));
        assert_eq!(entry.bytes(), 64 + 2 * 48 + 1000);
        assert_eq!((entry.range(), entry.parts(BITS)), (4096..8192, (4160, 4256)));
        assert_eq!(MovedUnit::new(3, BITS, 0, 0, 1, &(7..9)).bytes(), 0);
    }

    proptest! {
        #[test]
        fn kept_events_are_found_by_their_rank(words in proptest::collection::vec(any::<u64>(), 8)) {
            let moved = MovedUnits { bits: BITS, units: Vec::new() }.with(unit(2, words.clone(), 10));
            let mut rank = 0;
            for index in 0..512_usize {
                let expected = if words[index / 64] >> (index % 64) & 1 == 1 {
                    rank += 1;
                    Location::Moved(4096 + 64 + (rank - 1) * 48)
                } else {
                    Location::Gone
                };
                prop_assert_eq!(moved.locate(Seq(1024 + index as u64)), expected);
            }
            prop_assert_eq!(moved.locate(Seq(1023)), Location::Unmoved);
            prop_assert_eq!(moved.locate(Seq(1536)), Location::Unmoved);
            prop_assert_eq!(moved.gone(), 512 - rank);
            let mut gone = 0;
            moved.visit_gone(|seq| gone += u64::from(moved.locate(seq) == Location::Gone));
            prop_assert_eq!(gone, 512 - rank);
        }

        #[test]
        fn units_are_loaded_as_they_were_written(words in proptest::collection::vec(any::<u64>(), 8)) {
            let store = MemoryStore::new();
            let arrays = MovedArrays::open(&store).unwrap();
            let moved = MovedUnits { bits: BITS, units: Vec::new() };
            let moved = moved.with(unit(4, words, 10)).with(unit(1, vec![0; 8], 9000));
            for one in moved.iter().filter(|one| one.entry.kept() > 0) {
                arrays.write_bits(&one.entry, &one.kept).unwrap();
            }
            arrays.write_entries(&moved).unwrap();
            let section = arrays.write_entries(&moved).unwrap();
            prop_assert_eq!(section, Section { first: 2, count: 2 });
            let loaded = arrays.load(BITS, section, &MovedUnits::default()).unwrap();
            prop_assert_eq!(loaded.units.len(), 5);
            for (one, other) in moved.iter().zip(loaded.iter()) {
                prop_assert_eq!(&one.entry, &other.entry);
                prop_assert_eq!(&one.kept, &other.kept);
                prop_assert_eq!(&one.ranks, &other.ranks);
            }
        }
    }
}
