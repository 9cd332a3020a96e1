//! Records of Core's numbered files: `magic[4] | size u32 LE | payload[size] | trailer`.
//!
//! In `blk*.dat` the payload is a block and there is no trailer; in `rev*.dat` it is a `CBlockUndo` and the trailer is
//! its checksum of 32 bytes. No bytes make this code panic. The scan skips everything that is no whole record (a cut
//! beginning, a half overwritten record, zeros at the end) by searching for the next magic, as Core's own
//! `LoadExternalBlockFile` does.
//! Source: Core's `node/blockstorage.cpp`, `flatfile.cpp`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::xor::XorKey;

/// Bytes of `magic | size`.
pub const RECORD_HEADER_BYTES: usize = 8;
/// [`RECORD_HEADER_BYTES`] as a distance in a file.
pub const RECORD_HEADER: u64 = RECORD_HEADER_BYTES as u64;
/// Bytes read at a time in the search for the end of zeros or the next magic.
const SEARCH_BYTES: usize = 64 * 1024;

/// Bytes with random access: a file, or a slice in tests and fuzzing.
pub trait ReadAt {
    /// Reads into `buf` from `offset` and returns the number of bytes read; fewer than `buf` takes only at the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Returns the current size in bytes.
    fn size(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match FileExt::read_at(self, &mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).map_or(self.len(), |at| at.min(self.len()));
        let n = buf.len().min(self.len() - from);
        buf[..n].copy_from_slice(&self[from..from + n]);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// A de-obfuscated view of a part of a file. It reads at least `min` bytes at a time into a reused buffer, so that
/// small neighbouring records share a system call.
#[derive(Debug)]
pub struct Window<R> {
    file: R,
    key: XorKey,
    min: usize,
    start: u64,
    filled: usize,
    buf: Vec<u8>,
}

impl<R: ReadAt> Window<R> {
    /// Returns a view of `file` that reads at least `min` bytes at a time.
    pub fn new(file: R, key: XorKey, min: usize) -> Self {
        Self { file, key, min, start: 0, filled: 0, buf: Vec::new() }
    }

    /// Returns `len` bytes at `offset`; fewer only at the end of the file.
    pub fn slice(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let inside = offset.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        if let Some(from) = inside.filter(|from| from.saturating_add(len) <= self.filled) {
            return Ok(&self.buf[from..from + len]);
        }
        self.load(offset, len.max(self.min))?;
        Ok(&self.buf[..len.min(self.filled)])
    }

    /// Empties the buffer, so that the next call sees what the node has written since.
    fn forget(&mut self) {
        self.filled = 0;
    }

    fn load(&mut self, offset: u64, len: usize) -> io::Result<()> {
        if self.buf.len() < len {
            self.buf.resize(len, 0);
        }
        self.start = offset;
        self.filled = 0;
        let n = self.file.read_at(offset, &mut self.buf[..len])?;
        self.key.apply(offset, &mut self.buf[..n]);
        self.filled = n;
        Ok(())
    }

    /// Returns the offset of the first byte at or after `offset` that is not zero in the file itself.
    fn next_nonzero(&self, mut offset: u64) -> io::Result<Option<u64>> {
        let mut raw = vec![0; SEARCH_BYTES];
        loop {
            let n = self.file.read_at(offset, &mut raw)?;
            if let Some(at) = raw[..n].iter().position(|byte| *byte != 0) {
                return Ok(Some(offset + at as u64));
            }
            if n < raw.len() {
                return Ok(None);
            }
            offset += n as u64;
        }
    }

    /// Returns the offset of the next `magic` at or after `offset`.
    fn next_magic(&mut self, magic: [u8; 4], mut offset: u64) -> io::Result<Option<u64>> {
        loop {
            let bytes = self.slice(offset, SEARCH_BYTES)?;
            if let Some(at) = bytes.windows(magic.len()).position(|four| four == magic) {
                return Ok(Some(offset + at as u64));
            }
            if bytes.len() < SEARCH_BYTES {
                return Ok(None);
            }
            offset += (SEARCH_BYTES - (magic.len() - 1)) as u64;
        }
    }
}

/// The layout of records in one kind of file.
#[derive(Debug, Clone, Copy)]
pub struct RecordKind {
    /// The network's magic.
    pub magic: [u8; 4],
    /// The smallest payload in bytes.
    pub size_min: u32,
    /// The largest payload in bytes.
    pub size_max: u32,
    /// Bytes after the payload.
    pub trailer: u32,
}

impl RecordKind {
    /// Returns the layout of `blk*.dat`: at least a header, a count and a coinbase; at most
    /// `MAX_BLOCK_SERIALIZED_SIZE`.
    pub const fn block(magic: [u8; 4]) -> Self {
        Self { magic, size_min: 81, size_max: 4_000_000, trailer: 0 }
    }

    /// Returns the layout of `rev*.dat`. Only the size of the file limits undo data: an input of 41 bytes can spend a
    /// script of 10 000 bytes.
    pub const fn undo(magic: [u8; 4]) -> Self {
        Self { magic, size_min: 1, size_max: u32::MAX, trailer: 32 }
    }
}

/// A whole record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Offset of its payload in the file.
    pub offset: u64,
    /// Bytes of its payload.
    pub size: u32,
}

/// The behaviour of a scan at zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// Zeros end the scan: the tail that Core preallocates.
    End,
    /// The scan skips zeros: further records may follow a hole.
    Skip,
}

/// Walks the records of a file.
#[derive(Debug)]
pub struct Records<R> {
    window: Window<R>,
    kind: RecordKind,
    zeros: Zeros,
    position: u64,
    resume: u64,
    len: u64,
}

impl<R: ReadAt> Records<R> {
    /// Returns a walk from `position`, the beginning of a record or of the file.
    pub fn new(window: Window<R>, kind: RecordKind, zeros: Zeros, position: u64) -> io::Result<Self> {
        let len = window.file.size()?;
        Ok(Self { window, kind, zeros, position, resume: position, len })
    }

    /// Returns the end of the last whole record, where a later scan resumes.
    pub fn resume(&self) -> u64 {
        self.resume
    }

    /// Continues the walk at `position`.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Returns `len` bytes at `offset`; fewer only at the end of the file.
    pub fn slice(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        self.window.slice(offset, len)
    }

    /// Returns the next whole record.
    pub fn advance(&mut self) -> io::Result<Option<Record>> {
        loop {
            let at = self.position;
            let head = self.window.slice(at, RECORD_HEADER_BYTES)?;
            let Ok(head) = <[u8; RECORD_HEADER_BYTES]>::try_from(head) else { return Ok(None) };
            if self.window.key.is_raw_zero(at, &head) {
                if !self.step_over_zeros(at)? {
                    return Ok(None);
                }
            } else if let Some(record) = self.whole_record(at, head) {
                self.position = record.offset + u64::from(record.size) + u64::from(self.kind.trailer);
                self.resume = self.position;
                return Ok(Some(record));
            } else if !self.search_from(at + 1)? {
                return Ok(None);
            }
        }
    }

    /// Rejects a record that [`Self::advance`] returned, because its payload is no block, and searches on inside it.
    /// Returns `false` when nothing follows.
    pub fn reject(&mut self, record: Record, resume: u64) -> io::Result<bool> {
        self.resume = resume;
        self.search_from(record.offset - RECORD_HEADER + 1)
    }

    fn whole_record(&self, at: u64, head: [u8; 8]) -> Option<Record> {
        let [m0, m1, m2, m3, s0, s1, s2, s3] = head;
        let size = u32::from_le_bytes([s0, s1, s2, s3]);
        let end = at + RECORD_HEADER + u64::from(size) + u64::from(self.kind.trailer);
        let whole = [m0, m1, m2, m3] == self.kind.magic
            && (self.kind.size_min..=self.kind.size_max).contains(&size)
            && end <= self.len;
        whole.then_some(Record { offset: at + RECORD_HEADER, size })
    }

    fn search_from(&mut self, at: u64) -> io::Result<bool> {
        let found = self.window.next_magic(self.kind.magic, at)?;
        self.position = found.unwrap_or(self.len);
        Ok(found.is_some())
    }

    /// Moves to the first magic behind the zeros at `at`. The node may be writing there at this moment: bytes that are
    /// no longer zero are read again from their beginning.
    fn step_over_zeros(&mut self, at: u64) -> io::Result<bool> {
        if self.zeros == Zeros::End {
            return Ok(false);
        }
        let Some(nonzero) = self.window.next_nonzero(at)? else { return Ok(false) };
        let key = self.window.key;
        self.window.forget();
        if !key.is_raw_zero(at, self.window.slice(at, RECORD_HEADER_BYTES)?) {
            return Ok(true);
        }
        // The first bytes of a record may themselves be zero in the file.
        self.search_from(nonzero.saturating_sub(RECORD_HEADER - 1).max(at + 1))
    }
}

/// Decodes a count of the protocol (`CompactSize`): returns its value and its length in bytes. `None` when it is cut or
/// not minimal.
pub fn compact_size(bytes: &[u8]) -> Option<(u64, usize)> {
    let wide = |n: usize| {
        let mut le = [0; 8];
        le[..n].copy_from_slice(bytes.get(1..=n)?);
        Some(u64::from_le_bytes(le))
    };
    let (value, len, least) = match *bytes.first()? {
        0xfd => (wide(2)?, 3, 0xfd),
        0xfe => (wide(4)?, 5, 0x1_0000),
        0xff => (wide(8)?, 9, 0x1_0000_0000),
        small => (u64::from(small), 1, 0),
    };
    (value >= least).then_some((value, len))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
    const KEY: XorKey = XorKey::new([9, 0, 7, 0xfa, 5, 4, 0xff, 2]);

    fn record(payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len()).unwrap();
        [&MAGIC[..], &size.to_le_bytes(), payload].concat()
    }

    fn obfuscated(mut plain: Vec<u8>, zero_tail: usize) -> Vec<u8> {
        KEY.apply(0, &mut plain);
        plain.resize(plain.len() + zero_tail, 0);
        plain
    }

    fn scan(bytes: &[u8], zeros: Zeros) -> (Vec<Record>, u64) {
        let window = Window::new(bytes, KEY, 64);
        let mut records = Records::new(window, RecordKind::block(MAGIC), zeros, 0).unwrap();
        let mut found = Vec::new();
        while let Some(record) = records.advance().unwrap() {
            found.push(record);
        }
        (found, records.resume())
    }

    #[test]
    fn scan_finds_each_record_and_stops_at_the_raw_zero_tail() {
        let file = obfuscated([record(&[1; 81]), record(&[2; 300])].concat(), 5000);
        for zeros in [Zeros::End, Zeros::Skip] {
            let (found, resume) = scan(&file, zeros);
            assert_eq!(found, [Record { offset: 8, size: 81 }, Record { offset: 97, size: 300 }]);
            assert_eq!(resume, 397);
        }
    }

    #[test]
    fn half_written_last_record_is_left_for_the_next_scan() {
        let mut file = obfuscated([record(&[1; 81]), record(&[2; 300])].concat(), 0);
        file.truncate(250);
        let (found, resume) = scan(&file, Zeros::Skip);
        assert_eq!(found, [Record { offset: 8, size: 81 }]);
        assert_eq!(resume, 89);
    }

    #[test]
    fn cut_first_record_is_stepped_over() {
        let file = obfuscated([&record(&[1; 200])[100..], &record(&[2; 90])].concat(), 0);
        assert_eq!(scan(&file, Zeros::End).0, [Record { offset: 116, size: 90 }]);
    }

    #[test]
    fn records_behind_a_hole_of_zeros_are_found_only_when_asked() {
        let mut file = obfuscated(record(&[1; 90]), 100_000);
        let mut second = record(&[3; 100]);
        KEY.apply(file.len() as u64, &mut second);
        file.extend(second);
        assert_eq!(scan(&file, Zeros::End).0.len(), 1);
        let (found, _) = scan(&file, Zeros::Skip);
        assert_eq!(found[1], Record { offset: 100_098 + 8, size: 100 });
    }

    #[test]
    fn compact_sizes_are_minimal() {
        assert_eq!(compact_size(&[0xfc]), Some((0xfc, 1)));
        assert_eq!(compact_size(&[0xfd, 0xfd, 0]), Some((0xfd, 3)));
        assert_eq!(compact_size(&[0xfd, 0xfc, 0]), None);
        assert_eq!(compact_size(&[0xfe, 0, 0, 1, 0]), Some((0x1_0000, 5)));
        assert_eq!(compact_size(&[0xff, 0, 0, 0, 0, 1, 0, 0, 0]), Some((0x1_0000_0000, 9)));
        assert_eq!(compact_size(&[0xfe, 0]), None);
        assert_eq!(compact_size(&[]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn scanning_any_bytes_ends_and_gives_ascending_records(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xfa), any::<u8>()], 0..3000),
            zeros in prop_oneof![Just(Zeros::End), Just(Zeros::Skip)],
        ) {
            let (found, resume) = scan(&bytes, zeros);
            prop_assert!(found.windows(2).all(|two| two[0].offset + u64::from(two[0].size) < two[1].offset));
            prop_assert!(resume <= bytes.len() as u64);
        }

        #[test]
        fn records_between_garbage_are_all_found(
            payloads in prop::collection::vec((prop::collection::vec(any::<u8>(), 81..200), 0usize..40), 1..8),
        ) {
            let mut plain = Vec::new();
            let mut expected = Vec::new();
            for (payload, garbage) in &payloads {
                plain.extend(vec![0x11; *garbage]);
                expected.push(plain.len() as u64 + 8);
                plain.extend(record(payload));
            }
            let (found, _) = scan(&obfuscated(plain, 777), Zeros::Skip);
            let offsets: Vec<u64> = found.iter().map(|r| r.offset).collect();
            prop_assert_eq!(offsets, expected);
        }
    }
}
