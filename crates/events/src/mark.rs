//! The mark: what is published. Everything else in the arrays counts only as far as it says.
//!
//! ```text
//! version u8 | secret[16] | then u64 LE each: log (seq, offset) | dead | first of the tail
//! | segments, each: first and count of postings, lists, ids, fences; oldest, newest; letters of its tags
//! ```

use crate::error::{Error, Result};
use crate::log::{LogEnd, Seq};
use crate::segment::{Segment, SegmentEnds};
use crate::sorted::Section;
use crate::tag::Letters;

const VERSION: u8 = 2;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Under which lists are named.
    pub(crate) secret: [u8; 16],
    pub(crate) log: LogEnd,
    /// Records of dead events.
    pub(crate) dead: u64,
    /// Events before it are in segments.
    pub(crate) tail: Seq,
    pub(crate) segments: Vec<Segment>,
}

impl Mark {
    /// Of an empty store.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self { secret, log: LogEnd::default(), dead: 0, tail: Seq(0), segments: Vec::new() }
    }

    /// Where the arrays of segments end.
    pub(crate) fn ends(&self) -> SegmentEnds {
        self.segments.iter().map(Segment::ends).fold(SegmentEnds::default(), SegmentEnds::later)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.secret);
        let LogEnd { seq, offset } = self.log;
        let fixed = [seq, offset, self.dead, self.tail.0];
        let words = fixed.into_iter().chain(self.segments.iter().flat_map(words_of));
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).ok_or(Error::CorruptMark)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], bytes) = bytes.split_first_chunk()? else { return None };
        let (secret, bytes) = bytes.split_first_chunk::<16>()?;
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&[seq, offset, dead, tail], words) = words.split_first_chunk()?;
        let (segments, []) = words.as_chunks::<11>() else { return None };
        Some(Self {
            secret: *secret,
            log: LogEnd { seq, offset },
            dead,
            tail: Seq(tail),
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
    fn what_is_decoded_is_what_was_encoded_and_nothing_else_is_a_mark() {
        let mut mark = Mark::new([7; 16]);
        let section = |first| Section { first, count: first + 1 };
        let (postings, lists, ids, fences) = (section(1), section(3), section(5), section(7));
        let segment = Segment { postings, lists, ids, fences, oldest: 9, newest: u32::MAX, letters: Letters::ALL };
        (mark.log, mark.dead, mark.tail) = (LogEnd { seq: 10, offset: 11 }, 12, Seq(13));
        mark.segments = vec![segment, Segment { oldest: 0, ..segment }];
        let bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes).unwrap(), mark);
        assert_eq!(Mark::decode(&Mark::new([1; 16]).encode()).unwrap(), Mark::new([1; 16]));
        for cut in 0..bytes.len() {
            assert!(Mark::decode(&bytes[..cut]).is_err() || (cut - 17) % 8 == 0, "{cut}");
        }
        let mut newer = bytes;
        newer[0] += 1;
        assert!(Mark::decode(&newer).is_err());
    }
}
