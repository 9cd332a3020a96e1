//! Tweaks of silent payments in files of 2000 blocks, as [block-dn](https://github.com/guggero/block-dn) has them: a
//! wallet reads all of them and scans by itself, so the server learns nothing of its coins.
//!
//! ```text
//! magic of the network 4 | version 0 | type 2 | first height u32 LE | dust limit u64 LE
//! for each block: number of tweaks, CompactSize | the tweaks, 33 bytes each, in the order of the block
//! ```
//!
//! A file of the dust limit D has the transactions whose largest taproot output is above D satoshis. It leaves whole
//! transactions out: without its first output, nobody finds the second one of a payment.

use std::ops::Range;

use birdhouse_chain::{Error, Height, Snapshot, TweakDetail, TweakRow, TweakRows, Tweaks, put_compact_size};
use bitcoin::Network;

use super::block_dn::{cache, file};
use super::{Media, Route};
use crate::limits::{TWEAK_PIECE_BYTES, TWEAKS_A_FILE};
use crate::wire::{Answer, Content, Failure, Part, Ranged, Reply, Rows, Wanted};
use crate::work::{Lane, Question};

/// Served bare alone.
pub(super) const ROUTES: &[Route] = &[Route::get(
    "/block-dn/sp/tweaks/{dust}/{start}",
    Lane::Blocks,
    tweaks,
    "Tweaks of silent payments from a multiple of 2000.",
)
.with(Media::Bytes)];

/// The limits in satoshis for which there are files.
const DUST_LIMITS: [u64; 4] = [0, 600, 1000, 3750];
const VERSION: u8 = 0;
const TYPE: u8 = 2;
const HEAD_BYTES: usize = 18;
const TWEAK_BYTES: usize = 33;
/// Seconds after which a client asks again for blocks that the index does not cover yet.
const COVERED_S: u64 = 10;

/// A file, whose blocks are read as it is written.
#[derive(Debug, Clone)]
struct TweakFile {
    tweaks: Tweaks,
    dust: u64,
    heights: Range<u32>,
}

/// A part of a file.
struct FilePart {
    part: Part,
    /// Index of the block in which it begins; `None` for one that begins before the first block.
    first_block: Option<u32>,
    /// Bytes of that block, or of the head, that come before it.
    skipped: usize,
}

fn tweaks(question: &Question<'_>) -> Answer {
    let tweaks = of(question)?;
    let dust = question.params.number("dust")?;
    if !DUST_LIMITS.contains(&dust) {
        return Err(Failure::bad_request(format!("unknown dust limit: {dust} is none of {DUST_LIMITS:?}")));
    }
    let at = question.at;
    let heights = file(question, TWEAKS_A_FILE, at.tip().height.0 + 1)?;
    covered(question, tweaks, heights.end)?;
    let cache = cache(at, &heights, TWEAKS_A_FILE);
    let last = at.block_hash(Height(heights.end - 1)).ok_or_else(Failure::no_block)?;
    let etag = format!("\"{last}-{dust}\"");
    let head = head(question.network(), heights.start, dust);
    let of_file = TweakFile { tweaks: tweaks.clone(), dust, heights };
    let asked = &question.params.asked_range;
    let part = if asked.is_part_of(&etag) { of_file.part(question, &etag)? } else { None };
    let pieces = of_file.pieces(&head, part.as_ref());
    Ok(Reply::new(Content::Pieces(pieces), cache).ranged(Ranged { etag, part: part.map(|part| part.part) }))
}

/// Returns the index of tweaks.
pub(super) fn of<'a>(question: &Question<'a>) -> Result<&'a Tweaks, Failure> {
    let tweaks = question.service.settings.tweaks.as_ref();
    tweaks.ok_or_else(|| Failure::unavailable("this server keeps no index of silent payments"))
}

/// Checks that the index covers all blocks below a height.
///
/// # Errors
/// It is behind. An answer is never short: its reader would take missing blocks for empty ones.
pub(super) fn covered(question: &Question<'_>, tweaks: &Tweaks, end: u32) -> Result<(), Failure> {
    let len = tweaks.len(question.at);
    if end <= len {
        return Ok(());
    }
    let tip = question.at.tip().height;
    let text =
        format!("the index of silent payments is at height {} of {}; try again later", len.saturating_sub(1), tip.0);
    Err(Failure::Later { text: text.into(), seconds: COVERED_S })
}

/// Returns the rows of a block that is covered; `None` below the first one that has any.
pub(super) fn rows_of(
    tweaks: &Tweaks,
    at: &Snapshot,
    height: Height,
    detail: TweakDetail,
) -> Result<Option<TweakRows>, Error> {
    if height < tweaks.start() {
        return Ok(None);
    }
    at.charge_step()?;
    let heights = height..Height(height.0 + 1);
    let rows = match detail {
        TweakDetail::Scan => tweaks.read_prefixes(at, heights)?,
        TweakDetail::Full => tweaks.read(at, heights)?,
    };
    // Of a snapshot that has left the chain meanwhile, the rows are not known any more.
    rows.ok_or(Error::NoBlocks).map(Some)
}

impl FilePart {
    /// `ends` are the ends of the blocks in the file.
    fn of(ends: &[u64], part: Part) -> Self {
        let start = part.bytes.start;
        let head = HEAD_BYTES as u64;
        if start < head {
            return Self { first_block: None, skipped: bounded(start), part };
        }
        let first = ends.partition_point(|end| *end <= start);
        let before = first.checked_sub(1).map_or(head, |before| ends[before]);
        let first_block = u32::try_from(first).expect("a file has 2000 blocks");
        Self { first_block: Some(first_block), skipped: bounded(start - before), part }
    }
}

impl TweakFile {
    /// Returns the part of the file that the request asks for; `None` for the whole one.
    fn part(&self, question: &Question<'_>, etag: &str) -> Result<Option<FilePart>, Failure> {
        let ends = question.service.known_ends.of(etag, || self.ends(question.at))?;
        let len = ends.last().copied().unwrap_or(HEAD_BYTES as u64);
        match question.params.asked_range.within(len) {
            Wanted::Whole => Ok(None),
            Wanted::Part(bytes) => Ok(Some(FilePart::of(&ends, Part { bytes, len }))),
            Wanted::Nothing => Err(Failure::no_such_range()),
        }
    }

    /// Computes the ends of the blocks in the file.
    fn ends(&self, at: &Snapshot) -> Result<Vec<u64>, Error> {
        let mut len = HEAD_BYTES as u64;
        let mut end = |height: u32| {
            len += block_bytes(self.tweaks_of(self.read(at, height)?.as_ref()).len());
            Ok(len)
        };
        self.heights.clone().map(&mut end).collect()
    }

    /// Returns the bytes of the file, or of a part of it.
    fn pieces(self, head: &[u8], part: Option<&FilePart>) -> Rows {
        let (first, mut skipped) = part.map_or((None, 0), |part| (part.first_block, part.skipped));
        let mut left = part.map_or(u64::MAX, |part| part.part.bytes.end - part.part.bytes.start);
        let mut next = self.heights.start + first.unwrap_or(0);
        let mut piece = if first.is_none() { head.to_vec() } else { Vec::new() };
        Rows::within(move |at, room| {
            while next < self.heights.end && piece.len() < TWEAK_PIECE_BYTES && left > 0 {
                let rows = self.read(at, next)?;
                room.take(rows.as_ref().map_or(0, TweakRows::len) * TWEAK_BYTES)?;
                put_block(&mut piece, &self.tweaks_of(rows.as_ref()));
                next += 1;
            }
            let mut bytes = std::mem::take(&mut piece);
            bytes.drain(..std::mem::take(&mut skipped));
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= bytes.len() as u64;
            Ok((!bytes.is_empty()).then_some(bytes))
        })
    }

    fn read(&self, at: &Snapshot, height: u32) -> Result<Option<TweakRows>, Error> {
        rows_of(&self.tweaks, at, Height(height), TweakDetail::Scan)
    }

    /// Returns the tweaks of a block that the file has.
    fn tweaks_of<'a>(&self, rows: Option<&'a TweakRows>) -> Vec<&'a [u8; TWEAK_BYTES]> {
        let is_in = |row: &TweakRow<'_>| row.largest.is_above(self.dust);
        rows.into_iter().flat_map(TweakRows::iter).filter(is_in).map(|row| row.tweak).collect()
    }
}

/// Returns the first bytes of a file.
fn head(network: Network, start: u32, dust: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&network.magic().to_bytes());
    (head[4], head[5]) = (VERSION, TYPE);
    head[6..10].copy_from_slice(&start.to_le_bytes());
    head[10..].copy_from_slice(&dust.to_le_bytes());
    head
}

/// Appends a block.
fn put_block(piece: &mut Vec<u8>, tweaks: &[&[u8; TWEAK_BYTES]]) {
    put_compact_size(piece, tweaks.len() as u64);
    for tweak in tweaks {
        piece.extend_from_slice(*tweak);
    }
}

/// Returns the bytes of a block with this number of tweaks.
fn block_bytes(tweaks: usize) -> u64 {
    let mut count = Vec::new();
    put_compact_size(&mut count, tweaks as u64);
    (count.len() + TWEAK_BYTES * tweaks) as u64
}

/// Returns a number of bytes of a head or a block.
fn bounded(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a block fits the memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the description of the format in block-dn's README.
    #[test]
    fn a_file_begins_with_its_network_and_limit_and_blocks_with_their_numbers() {
        let head = head(Network::Bitcoin, 802_000, 1000);
        let expected: [u8; 18] = [0xf9, 0xbe, 0xb4, 0xd9, 0, 2, 0xd0, 0x3c, 0x0c, 0, 0xe8, 0x03, 0, 0, 0, 0, 0, 0];
        assert_eq!(head, expected);
        let tweaks = [[2; 33], [3; 33]];
        let mut piece = Vec::new();
        put_block(&mut piece, &[]);
        put_block(&mut piece, &tweaks.each_ref());
        assert_eq!(piece, [&[0, 2][..], &[2; 33], &[3; 33]].concat());
        let mut piece = Vec::new();
        put_block(&mut piece, &[&[2; 33]; 253]);
        assert_eq!((&piece[..4], piece.len() as u64), (&[0xfd, 0xfd, 0, 2][..], block_bytes(253)));
        assert_eq!((block_bytes(0), block_bytes(252)), (1, 1 + 252 * 33));
    }

    #[test]
    fn a_part_begins_within_the_head_or_within_the_block_that_has_its_first_byte() {
        let ends = [19, 53, 54];
        let of = |start| {
            let part = FilePart::of(&ends, Part { bytes: start..54, len: 54 });
            (part.first_block, part.skipped)
        };
        for (start, expected) in [
            (0, (None, 0)),
            (17, (None, 17)),
            (18, (Some(0), 0)),
            (19, (Some(1), 0)),
            (52, (Some(1), 33)),
            (53, (Some(2), 0)),
        ] {
            assert_eq!(of(start), expected, "{start}");
        }
    }
}
