//! Parts of blocks that were read, in two files of a folder: transactions that wallets have asked for.
//!
//! A file is a list of `block hash 32 | offset u32 | length u32 | CRC-32C u32 | bytes`, numbers little-endian; the
//! checksum is of all before it and of the bytes. New parts go to `new`. Once that has half of the bytes allowed it
//! becomes `old`, and the previous `old` goes. Nothing is flushed: what a crash loses is brought again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use birdhouse_chain::source::BlockPart;
use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;

/// Bytes of both files.
const BYTES_MAX: u64 = 128 << 20;
/// Bytes of a record before those of its part.
const HEAD_BYTES: usize = 44;
/// The longest part that is kept: a standard transaction. Whole blocks would push all others out.
const PART_BYTES_MAX: u32 = 400_000;

/// The parts on the disk.
#[derive(Debug)]
pub(super) struct Parts {
    folder: PathBuf,
    new: Log,
    old: Log,
}

/// One file of parts.
#[derive(Debug)]
struct Log {
    file: File,
    end: u64,
    /// Part -> offset of its bytes.
    at: HashMap<BlockPart, u64>,
}

impl Parts {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (new, old) = (Log::open(&folder.join("new"))?, Log::open(&folder.join("old"))?);
        Ok(Self { folder: folder.to_owned(), new, old })
    }

    /// Returns the bytes of both files.
    pub(super) fn bytes(&self) -> u64 {
        self.new.end + self.old.end
    }

    /// Returns a part; `None` if it is not kept, or cannot be read.
    pub(super) fn get(&self, part: BlockPart) -> Option<Vec<u8>> {
        self.new.get(part).or_else(|| self.old.get(part))
    }

    /// Keeps a part. A failure is logged: the part is brought again.
    pub(super) fn keep(&mut self, part: BlockPart, bytes: &[u8]) {
        if part.len > PART_BYTES_MAX || self.new.at.contains_key(&part) {
            return;
        }
        let kept = self.new.append(part, bytes).and_then(|()| self.turn_over(BYTES_MAX / 2));
        if let Err(error) = kept {
            tracing::warn!(%error, folder = %self.folder.display(), "failed to keep an old transaction");
        }
    }

    /// Makes the new file the old one, once it has `bytes_max`.
    fn turn_over(&mut self, bytes_max: u64) -> io::Result<()> {
        if self.new.end < bytes_max {
            return Ok(());
        }
        let (new, old) = (self.folder.join("new"), self.folder.join("old"));
        fs::rename(&new, old)?;
        self.old = std::mem::replace(&mut self.new, Log::open(&new)?);
        Ok(())
    }
}

impl Log {
    /// Opens a file, and cuts what a crash has left of its last record.
    fn open(path: &Path) -> io::Result<Self> {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).to_owned();
        let file = options.open(path)?;
        let (mut end, mut at) = (0, HashMap::new());
        let mut reader = io::BufReader::new(&file);
        while let Some(part) = next_part(&mut reader)? {
            at.insert(part, end + HEAD_BYTES as u64);
            end += (HEAD_BYTES + part.len as usize) as u64;
        }
        file.set_len(end)?;
        Ok(Self { file, end, at })
    }

    fn get(&self, part: BlockPart) -> Option<Vec<u8>> {
        let at = *self.at.get(&part)?;
        let mut record = vec![0; HEAD_BYTES + part.len as usize];
        self.file.read_exact_at(&mut record, at - HEAD_BYTES as u64).ok()?;
        let bytes = record.split_off(HEAD_BYTES);
        (record == head(part, &bytes)).then_some(bytes)
    }

    fn append(&mut self, part: BlockPart, bytes: &[u8]) -> io::Result<()> {
        let record = [&head(part, bytes), bytes].concat();
        self.file.write_all_at(&record, self.end)?;
        self.at.insert(part, self.end + HEAD_BYTES as u64);
        self.end += record.len() as u64;
        Ok(())
    }
}

/// Returns what stands before the bytes of a part.
fn head(part: BlockPart, bytes: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend(part.block.to_byte_array());
    head.extend(part.offset.to_le_bytes());
    head.extend(part.len.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), bytes);
    head.extend(checksum.to_le_bytes());
    head
}

/// Reads the next record and returns its part; `None` at the end, and at a record that is cut or damaged.
fn next_part(reader: &mut impl io::Read) -> io::Result<Option<BlockPart>> {
    let mut found = [0; HEAD_BYTES];
    let mut bytes = Vec::new();
    if let Err(error) = reader.read_exact(&mut found) {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let number = |at: usize| u32::from_le_bytes([found[at], found[at + 1], found[at + 2], found[at + 3]]);
    let mut hash = [0; 32];
    hash.copy_from_slice(&found[..32]);
    let part = BlockPart { block: BlockHash::from_byte_array(hash), offset: number(32), len: number(36) };
    if part.len > PART_BYTES_MAX {
        return Ok(None);
    }
    reader.take(part.len.into()).read_to_end(&mut bytes)?;
    Ok((found[..] == head(part, &bytes)).then_some(part))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn part(number: u8) -> (BlockPart, Vec<u8>) {
        let block = BlockHash::from_byte_array([number; 32]);
        (BlockPart { block, offset: number.into(), len: 100 }, vec![number; 100])
    }

    #[test]
    fn parts_outlive_the_process_and_a_record_that_is_cut_is_the_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        for number in 1..=3 {
            let (part, bytes) = part(number);
            parts.keep(part, &bytes);
            parts.keep(part, &bytes);
        }
        drop(parts);
        let path = folder.path().join("new");
        let len = fs::metadata(&path).unwrap().len();
        assert_eq!(len, 3 * 144);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 1).unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        assert_eq!([1, 2, 3].map(|n| parts.get(part(n).0)), [Some(part(1).1), Some(part(2).1), None]);
        parts.keep(part(4).0, &part(4).1);
        assert_eq!(Parts::open(folder.path()).unwrap().get(part(4).0), Some(part(4).1));
    }

    #[test]
    fn a_damaged_part_is_not_returned() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        parts.keep(part(1).0, &part(1).1);
        let file = OpenOptions::new().write(true).open(folder.path().join("new")).unwrap();
        file.write_all_at(&[9], 70).unwrap();
        assert_eq!(parts.get(part(1).0), None);
    }

    #[test]
    fn the_oldest_parts_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        for number in 1..=6 {
            let (part, bytes) = part(number);
            parts.new.append(part, &bytes).unwrap();
            parts.turn_over(2 * 144).unwrap();
        }
        let kept = |parts: &Parts| [1, 4, 5, 6].map(|n| parts.get(part(n).0).is_some());
        assert_eq!(kept(&parts), [false, false, true, true]);
        assert_eq!(kept(&Parts::open(folder.path()).unwrap()), [false, false, true, true]);
    }
}
