//! The manifest: names the published state. Bytes of the arrays that it does not cover do not count.
//!
//! ```text
//! version u8 | secret[16] | then u64 LE each: log (seq, offset) | tombstones | first event of the memtable
//! | segments, each: first and count of postings, lists, ids, fences; oldest, newest; letters of its tags
//! ```

use crate::error::{Error, Result};
use crate::log::LogEnd;
use crate::segment::{Segment, SegmentOffsets};
use crate::seq::Seq;
use crate::sorted::Section;
use crate::tag::Letters;

const VERSION: u8 = 2;

/// The published state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Key of the hashes that name posting lists.
    pub(crate) secret: [u8; 16],
    pub(crate) log: LogEnd,
    /// Number of tombstones.
    pub(crate) tombstones: u64,
    /// Events before this one are in segments.
    pub(crate) memtable_first: Seq,
    pub(crate) segments: Vec<Segment>,
}

impl Manifest {
    /// Returns the manifest of an empty store.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self { secret, log: LogEnd::default(), tombstones: 0, memtable_first: Seq(0), segments: Vec::new() }
    }

    /// Returns the ends of the segment arrays.
    pub(crate) fn segments_end(&self) -> SegmentOffsets {
        self.segments.iter().map(Segment::end).fold(SegmentOffsets::default(), SegmentOffsets::later)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.secret);
        let LogEnd { seq, offset } = self.log;
        let fixed = [seq, offset, self.tombstones, self.memtable_first.0];
        let words = fixed.into_iter().chain(self.segments.iter().flat_map(words_of));
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).ok_or(Error::CorruptManifest)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], bytes) = bytes.split_first_chunk()? else { return None };
        let (secret, bytes) = bytes.split_first_chunk::<16>()?;
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&[seq, offset, tombstones, memtable_first], words) = words.split_first_chunk()?;
        let (segments, []) = words.as_chunks::<11>() else { return None };
        Some(Self {
            secret: *secret,
            log: LogEnd { seq, offset },
            tombstones,
            memtable_first: Seq(memtable_first),
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
        let mut manifest = Manifest::new([7; 16]);
        let section = |first| Section { first, count: first + 1 };
        let (postings, lists, ids, fences) = (section(1), section(3), section(5), section(7));
        let segment = Segment { postings, lists, ids, fences, oldest: 9, newest: u32::MAX, letters: Letters::ALL };
        (manifest.log, manifest.tombstones, manifest.memtable_first) = (LogEnd { seq: 10, offset: 11 }, 12, Seq(13));
        manifest.segments = vec![segment, Segment { oldest: 0, ..segment }];
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        assert_eq!(Manifest::decode(&Manifest::new([1; 16]).encode()).unwrap(), Manifest::new([1; 16]));
        for cut in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..cut]).is_err() || (cut - 17) % 8 == 0, "{cut}");
        }
        let mut newer = bytes;
        newer[0] += 1;
        assert!(Manifest::decode(&newer).is_err());
    }
}
