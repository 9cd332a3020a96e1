//! Parts of blocks that were read, in two files of a folder: transactions that wallets have asked for.
//!
//! A file is a list of `block hash 32 | offset u32 | length u32 | CRC-32C u32 | bytes`, numbers little-endian; the
//! checksum is of all before it and of the bytes. New parts go to `new`. Once that has half of the bytes allowed, a
//! file made as `next` takes its place, it becomes `old`, and the previous `old` goes; until that succeeds nothing is
//! kept. Nothing is flushed: what a crash loses is brought again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use birdhouse_chain::source::BlockPart;
use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;
use parking_lot::Mutex;

/// Bytes of both files.
const BYTES_MAX: u64 = 128 << 20;
/// Bytes of a record before those of its part.
const HEAD_BYTES: usize = 44;
/// The longest part that is kept: a standard transaction. Whole blocks would push all others out.
const PART_BYTES_MAX: u32 = 400_000;
/// Time after which files that could not be opened, as on a full disk, are tried again.
const OPEN_AGAIN: Duration = Duration::from_mins(1);

/// The parts on the disk, opened when they are needed for the first time.
#[derive(Debug)]
pub(super) struct LazyParts {
    folder: PathBuf,
    state: Mutex<State>,
}

/// The files of parts.
#[derive(Debug)]
enum State {
    Unopened,
    Failed { at: Instant },
    Open(Parts),
}

/// The parts on the disk.
#[derive(Debug)]
pub(super) struct Parts {
    folder: PathBuf,
    new: Log,
    old: Log,
    /// True if the last part was not kept, so that a full disk is logged once.
    has_failed: bool,
}

/// One file of parts.
#[derive(Debug)]
struct Log {
    file: File,
    end: u64,
    /// Part -> offset of its bytes.
    at: HashMap<BlockPart, u64>,
}

impl LazyParts {
    /// Returns the parts in a folder, which is made once there are some.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), state: Mutex::new(State::Unopened) }
    }

    /// Uses the parts; `None` if their files cannot be opened. That is logged, and tried again after [`OPEN_AGAIN`].
    pub(super) fn with<R>(&self, now: Instant, act: impl FnOnce(&mut Parts) -> R) -> Option<R> {
        let mut state = self.state.lock();
        if let State::Unopened = *state {
            *state = self.open(now);
        }
        if let State::Failed { at } = *state
            && now.duration_since(at) >= OPEN_AGAIN
        {
            *state = self.open(now);
        }
        if let State::Open(parts) = &mut *state { Some(act(parts)) } else { None }
    }

    fn open(&self, now: Instant) -> State {
        Parts::open(&self.folder).map_or_else(
            |error| {
                tracing::warn!(
                    %error, folder = %self.folder.display(),
                    "failed to open the old transactions, none are kept; trying again"
                );
                State::Failed { at: now }
            },
            State::Open,
        )
    }
}

impl Parts {
    fn open(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (new, old) = (Log::open(&folder.join("new"))?, Log::open(&folder.join("old"))?);
        Ok(Self { folder: folder.to_owned(), new, old, has_failed: false })
    }

    /// Returns the bytes of both files.
    pub(super) fn bytes(&self) -> u64 {
        self.new.end + self.old.end
    }

    /// Returns a part; `None` if it is not kept, or cannot be read.
    pub(super) fn get(&self, part: BlockPart) -> Option<Vec<u8>> {
        self.new.get(part).or_else(|| self.old.get(part))
    }

    /// Keeps a part. The first failure of several is logged: the part is brought again.
    pub(super) fn keep(&mut self, part: BlockPart, bytes: &[u8]) {
        // One that is there and damaged is kept anew.
        if part.len > PART_BYTES_MAX || self.new.get(part).is_some() {
            return;
        }
        let kept = self.keep_within(BYTES_MAX / 2, part, bytes);
        if let Err(error) = &kept
            && !self.has_failed
        {
            tracing::warn!(%error, folder = %self.folder.display(), "failed to keep an old transaction");
        }
        self.has_failed = kept.is_err();
    }

    /// Keeps a part in a file that ends with the part that reaches `bytes_max`.
    fn keep_within(&mut self, bytes_max: u64, part: BlockPart, bytes: &[u8]) -> io::Result<()> {
        self.turn_over(bytes_max)?;
        self.new.append(part, bytes)
    }

    /// Makes the new file the old one, once it has `bytes_max`. After a failure it can be called again.
    fn turn_over(&mut self, bytes_max: u64) -> io::Result<()> {
        if self.new.end < bytes_max {
            return Ok(());
        }
        let [new, old, next] = ["new", "old", "next"].map(|name| self.folder.join(name));
        // Before anything is moved: a new file is what a full disk or too many open files refuse.
        let empty = Log::open(&next)?;
        match fs::rename(&new, old) {
            // Moved by a call that failed after it, or removed by somebody.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        fs::rename(next, new)?;
        self.old = std::mem::replace(&mut self.new, empty);
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
    fn a_folder_that_cannot_be_made_is_tried_again_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let (began, in_the_way) = (Instant::now(), folder.path().join("fetched"));
        fs::write(&in_the_way, []).unwrap();
        let parts = LazyParts::new(&in_the_way);
        let keep = |after| parts.with(began + after, |parts| parts.keep(part(1).0, &part(1).1)).is_some();
        assert!(!keep(Duration::ZERO));
        fs::remove_file(&in_the_way).unwrap();
        assert_eq!([OPEN_AGAIN / 2, OPEN_AGAIN, OPEN_AGAIN].map(keep), [false, true, true]);
        assert_eq!(Parts::open(&in_the_way).unwrap().get(part(1).0), Some(part(1).1));
    }

    #[test]
    fn a_damaged_part_is_not_returned_and_is_kept_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        parts.keep(part(1).0, &part(1).1);
        let file = OpenOptions::new().write(true).open(folder.path().join("new")).unwrap();
        file.write_all_at(&[9], 70).unwrap();
        assert_eq!(parts.get(part(1).0), None);
        parts.keep(part(1).0, &part(1).1);
        assert_eq!(parts.get(part(1).0), Some(part(1).1));
    }

    #[test]
    fn files_stay_within_their_bound_while_no_new_one_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        let keep = |parts: &mut Parts, number| parts.keep_within(2 * 144, part(number).0, &part(number).1);
        // The old file cannot be replaced by a file.
        let old = folder.path().join("old");
        fs::remove_file(&old).unwrap();
        fs::create_dir(&old).unwrap();
        let kept: Vec<bool> = (1..=6).map(|number| keep(&mut parts, number).is_ok()).collect();
        assert_eq!(kept, [true, true, false, false, false, false]);
        assert_eq!(parts.bytes(), 2 * 144);
        fs::remove_dir(&old).unwrap();
        for number in 3..=6 {
            keep(&mut parts, number).unwrap();
        }
        let kept = |parts: &Parts| [1, 2, 3, 4, 5, 6].map(|n| parts.get(part(n).0).is_some());
        assert_eq!(kept(&parts), [false, false, true, true, true, true]);
        assert_eq!(kept(&Parts::open(folder.path()).unwrap()), kept(&parts));
    }

    #[test]
    fn a_folder_without_its_new_file_gets_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Parts::open(folder.path()).unwrap();
        fs::remove_file(folder.path().join("new")).unwrap();
        for number in 1..=3 {
            parts.keep_within(2 * 144, part(number).0, &part(number).1).unwrap();
        }
        assert!(parts.bytes() <= 3 * 144 && parts.get(part(3).0).is_some());
        assert_eq!(Parts::open(folder.path()).unwrap().get(part(3).0), Some(part(3).1));
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
