//! Filters: which partitions a segment may have rows of, so that most lookups of absent ones read one page and no
//! block.
//!
//! A blocked Bloom filter: a partition's six bits lie in one line of 64 bytes, lines in pages that are proved when they
//! are read.
//!
//! ```text
//! page   63 lines of 64 bytes | zeros | CRC-32C of all before it, u32 LE
//! ```
//! Source: Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters" (2007).

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::block::Damage;

pub(super) const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = 8 * LINE_BYTES as u64;
const PAGE_LINES: u64 = 63;
/// Bits set for a partition. With ten bits of room each, one absent partition in a hundred costs a read.
const PROBES: u32 = 6;
const BITS_PER_PARTITION: u64 = 10;

/// Hashes of the partitions of one segment.
#[derive(Debug, Default)]
pub(super) struct FilterBuilder {
    hashes: Vec<u64>,
}

/// The hash of a partition, the same on every machine.
pub(super) fn hash(partition: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(partition);
    hasher.finish()
}

// === impl FilterBuilder ===

impl FilterBuilder {
    /// Adds a partition; the same one several times in a row counts once.
    pub(super) fn add(&mut self, partition: &[u8]) {
        let hash = hash(partition);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Appends the pages to `out`; gives their number.
    pub(super) fn finish(&self, out: &mut Vec<u8>) -> u32 {
        let lines = (self.hashes.len() as u64 * BITS_PER_PARTITION).div_ceil(LINE_BITS);
        let pages = u32::try_from(lines.div_ceil(PAGE_LINES)).expect("a segment has far fewer partitions");
        let start = out.len();
        out.resize(start + pages as usize * PAGE_BYTES, 0);
        let bytes = &mut out[start..];
        for hash in &self.hashes {
            let (page, line) = place(*hash, pages);
            for bit in bits(*hash) {
                bytes[page as usize * PAGE_BYTES + line * LINE_BYTES + bit / 8] |= 1 << (bit % 8);
            }
        }
        for page in bytes.chunks_exact_mut(PAGE_BYTES) {
            let (bits, checksum) = page.split_last_chunk_mut::<4>().expect("a page is longer");
            *checksum = crc32c::crc32c(bits).to_le_bytes();
        }
        pages
    }
}

/// The page of a hash and its line in that page, among `pages`.
pub(super) fn place(hash: u64, pages: u32) -> (u32, usize) {
    let line = ((u128::from(hash) * u128::from(u64::from(pages) * PAGE_LINES)) >> 64) as u64;
    let page = u32::try_from(line / PAGE_LINES).expect("below the number of pages");
    (page, usize::try_from(line % PAGE_LINES).expect("few lines"))
}

/// Proves a page. Returns its lines.
pub(super) fn prove(page: &[u8]) -> Result<&[u8], Damage> {
    let (lines, checksum) = page.split_last_chunk::<4>().ok_or("a page of a filter is too short")?;
    if crc32c::crc32c(lines) != u32::from_le_bytes(*checksum) {
        return Err("the checksum of a page of a filter is wrong");
    }
    Ok(lines)
}

/// Returns `false` when a line lacks a bit of a hash: the partition has no rows.
pub(super) fn may_contain(lines: &[u8], line: usize, hash: u64) -> bool {
    let line = &lines[line * LINE_BYTES..][..LINE_BYTES];
    bits(hash).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
}

/// The bits of a hash in its line. The line was chosen by the high bits of the hash, these are chosen by a mix of all.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| usize::try_from((mixed >> (9 * probe)) % LINE_BITS).expect("below 512"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ask(pages: &[u8], count: u32, partition: &[u8]) -> bool {
        let hash = hash(partition);
        let (page, line) = place(hash, count);
        may_contain(prove(&pages[page as usize * PAGE_BYTES..][..PAGE_BYTES]).unwrap(), line, hash)
    }

    #[test]
    fn every_partition_is_found_and_few_others() {
        for partitions in [1, 100, 20_000_u32] {
            let (mut builder, mut pages) = (FilterBuilder::default(), Vec::new());
            (0..partitions).for_each(|number| builder.add(&number.to_be_bytes()));
            let count = builder.finish(&mut pages);
            assert!((0..partitions).all(|number| ask(&pages, count, &number.to_be_bytes())));
            let others = (partitions..partitions + 20_000).filter(|number| ask(&pages, count, &number.to_be_bytes()));
            let others = others.count();
            assert!(others < 600, "{others} of 20 000 for {partitions} partitions");
        }
    }

    #[test]
    fn a_flipped_bit_is_damage() {
        let (mut builder, mut pages) = (FilterBuilder::default(), Vec::new());
        builder.add(b"partition");
        builder.finish(&mut pages);
        for place in [0, 100, PAGE_BYTES - 5, PAGE_BYTES - 1] {
            pages[place] ^= 4;
            assert!(prove(&pages).is_err(), "{place}");
            pages[place] ^= 4;
        }
    }
}
