//! The manifest: names the published state. Bytes of the arrays that it does not cover do not count.
//!
//! ```text
//! version u8 | secret[16] | then u64 LE each: log (seq, offset) | tombstones (first, count)
//! | first event of the memtable | unit bits | moved units (first, count) | unscheduled | segments, each: first and count of postings, lists, ids,
//! fences; oldest, newest; letters of its tags
//! ```
//!
//! Version 2 has `tombstones` as a count alone, and neither unit bits, moved units nor `unscheduled`. It is read, and
//! replaced by the next publish.

use crate::error::{Error, Result};
use crate::event::{Letters, Seq};
use crate::log::{LogEnd, Section};
use crate::postings::{Segment, SegmentOffsets};

const VERSION: u8 = 3;
/// The version before, which has no moved units.
const VERSION_2: u8 = 2;
/// Unit bits of a store of version 2.
const UNIT_BITS: u32 = 16;
/// Bounds of unit bits: a bitmap has whole words, and a unit is moved in memory.
const UNIT_BITS_RANGE: std::ops::RangeInclusive<u32> = 6..=20;

/// The published state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Key of the hashes that name posting lists.
    pub(crate) secret: [u8; 16],
    pub(crate) log: LogEnd,
    /// Tombstones in their array.
    pub(crate) tombstones: Section,
    /// Events before this one are in segments.
    pub(crate) memtable_first: Seq,
    /// Binary logarithm of the events of a unit of the log.
    pub(crate) unit_bits: u32,
    /// Entries of the moved units in their array.
    pub(crate) moved: Section,
    /// Events below this one may expire without being scheduled: an earlier version stored them.
    pub(crate) unscheduled: Seq,
    pub(crate) segments: Vec<Segment>,
}

impl Manifest {
    /// Returns the manifest of an empty store.
    pub(crate) fn new(secret: [u8; 16], unit_bits: u32) -> Self {
        Self {
            secret,
            log: LogEnd::default(),
            tombstones: Section::default(),
            memtable_first: Seq(0),
            unit_bits: unit_bits.clamp(*UNIT_BITS_RANGE.start(), *UNIT_BITS_RANGE.end()),
            moved: Section::default(),
            unscheduled: Seq(0),
            segments: Vec::new(),
        }
    }

    /// Returns the ends of the segment arrays.
    pub(crate) fn segments_end(&self) -> SegmentOffsets {
        self.segments.iter().map(Segment::end).fold(SegmentOffsets::default(), SegmentOffsets::later)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.secret);
        let LogEnd { seq, offset } = self.log;
        let (tombstones, moved) = (self.tombstones, self.moved);
        let fixed = [
            seq,
            offset,
            tombstones.first,
            tombstones.count,
            self.memtable_first.0,
            self.unit_bits.into(),
            moved.first,
            moved.count,
            self.unscheduled.0,
        ];
        let words = fixed.into_iter().chain(self.segments.iter().flat_map(words_of));
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).ok_or(Error::CorruptManifest)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version], bytes) = bytes.split_first_chunk()?;
        let (secret, bytes) = bytes.split_first_chunk::<16>()?;
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (fixed, segments) = match version {
            VERSION => {
                let (fixed, segments) = words.split_first_chunk()?;
                (*fixed, segments)
            }
            VERSION_2 => {
                let (&[seq, offset, tombstones, memtable_first], segments) = words.split_first_chunk()?;
                ([seq, offset, 0, tombstones, memtable_first, UNIT_BITS.into(), 0, 0, seq], segments)
            }
            _ => return None,
        };
        let [seq, offset, tombstones_first, tombstones, memtable_first, unit_bits, moved_first, moved, unscheduled] =
            fixed;
        let (segments, []) = segments.as_chunks::<11>() else { return None };
        Some(Self {
            secret: *secret,
            log: LogEnd { seq, offset },
            tombstones: Section { first: tombstones_first, count: tombstones },
            memtable_first: Seq(memtable_first),
            unit_bits: u32::try_from(unit_bits).ok().filter(|bits| UNIT_BITS_RANGE.contains(bits))?,
            moved: Section { first: moved_first, count: moved },
            unscheduled: Seq(unscheduled),
            segments: segments.iter().map(segment_of).collect::<Option<_>>()?,
        })
    }
}

fn words_of(segment: &Segment) -> [u64; 11] {
    let Segment { postings, lists, ids, fences, oldest, newest, letters } = *segment;
    [
        postings.first,
        postings.count,
        lists.first,
        lists.count,
        ids.first,
        ids.count,
        fences.first,
        fences.count,
        oldest.into(),
        newest.into(),
        letters.bits(),
    ]
}

fn segment_of(words: &[u64; 11]) -> Option<Segment> {
    let section = |at: usize| Section { first: words[at], count: words[at + 1] };
    let time = |at: usize| u32::try_from(words[at]).ok();
    let (postings, lists, ids, fences) = (section(0), section(2), section(4), section(6));
    let letters = Letters::from_bits(words[10])?;
    Some(Segment { postings, lists, ids, fences, oldest: time(8)?, newest: time(9)?, letters })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_decoded_as_it_was_encoded_and_damaged_ones_are_refused() {
        let mut manifest = Manifest::new([7; 16], 16);
        let section = |first| Section { first, count: first + 1 };
        let (postings, lists, ids, fences) = (section(1), section(3), section(5), section(7));
        let segment = Segment { postings, lists, ids, fences, oldest: 9, newest: u32::MAX, letters: Letters::ALL };
        (manifest.log, manifest.tombstones, manifest.memtable_first) =
            (LogEnd { seq: 10, offset: 11 }, section(12), Seq(13));
        (manifest.unit_bits, manifest.moved, manifest.unscheduled) = (8, section(14), Seq(15));
        manifest.segments = vec![segment, Segment { oldest: 0, ..segment }];
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        assert_eq!(Manifest::decode(&Manifest::new([1; 16], 16).encode()).unwrap(), Manifest::new([1; 16], 16));
        for cut in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..cut]).is_err() || (cut - 17) % 8 == 0, "{cut}");
        }
        let mut newer = bytes;
        newer[0] += 1;
        assert!(Manifest::decode(&newer).is_err());
    }

    #[test]
    fn a_manifest_has_the_bytes_of_the_manual() {
        let manifest = Manifest {
            log: LogEnd { seq: 10, offset: 1000 },
            tombstones: Section { first: 0, count: 1 },
            ..Manifest::new([7; 16], 16)
        };
        assert_eq!(manifest.encode(), crate::event::samples::of_the_manual("relay-manifest"));
    }

    #[test]
    fn a_manifest_of_version_2_is_read_and_all_of_its_events_are_unscheduled() {
        let section = |first| Section { first, count: 1 };
        let (postings, lists, ids, fences) = (section(1), section(2), section(3), section(4));
        let segment = Segment { postings, lists, ids, fences, oldest: 5, newest: 6, letters: Letters::ALL };
        let words = [10, 11, 12, 13].into_iter().chain(words_of(&segment));
        let mut bytes = vec![2];
        bytes.extend([7; 16]);
        words.for_each(|word: u64| bytes.extend(word.to_le_bytes()));
        let manifest = Manifest {
            log: LogEnd { seq: 10, offset: 11 },
            tombstones: Section { first: 0, count: 12 },
            memtable_first: Seq(13),
            unscheduled: Seq(10),
            segments: vec![segment],
            ..Manifest::new([7; 16], UNIT_BITS)
        };
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    }
}
