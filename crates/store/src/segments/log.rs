//! The write-ahead log: what was written since it was flushed into segments, and what was published.
//!
//! A log is a sequence of files, numbered from one on. Each begins with a checkpoint, so that the files before it can
//! go as soon as their rows are in segments.
//!
//! ```text
//! file        records
//! record      "bhlg" | bytes of the body u32 LE | body | CRC-32C of length and body u32 LE
//! body        kind u8 | content
//! checkpoint  0 | manifest | arrays | leaves u32 LE | leaf each
//! rows        1 | operations: table u8 | key | value
//! publish     2 | manifest | effect on the journal u8: 0 none, 1 a leaf is added, 2 all leaves are dropped and the
//!             states of the arrays are new | leaf, or arrays
//! end         3, after each publish, so that damage of the publish is not taken for a cut
//! key, leaf   length u32 LE | bytes
//! arrays      length u32 LE | states of the arrays at their last sync (see `array::state`)
//! manifest, value   0 u8, none; or 1 u8 | length u32 LE | bytes
//! ```
//! A leaf holds the writes to arrays of one publish (see `journal.rs`). Tables are numbered by the list of names in
//! the state (see `state`), which only grows.
//!
//! Invariant: a record is whole or is not there. A file that ends within a record was cut by a crash, and what is cut
//! off was never published. A damaged record that is followed by an intact one is an error.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::block::Value;
use crate::cursor::{Cursor, put_bytes};
use crate::error::{Error, Result, io_error};

const MAGIC: &[u8; 4] = b"bhlg";
#[cfg(test)]
const HEAD_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;

const CHECKPOINT: u8 = 0;
const ROWS: u8 = 1;
const PUBLISH: u8 = 2;
const END: u8 = 3;

/// Number of a table in the state's list.
pub(super) type TableNumber = u8;

/// A record, borrowed from the bytes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Checkpoint {
        manifest: Option<&'a [u8]>,
        arrays: &'a [u8],
        leaves: Vec<&'a [u8]>,
    },
    Rows(Vec<(TableNumber, &'a [u8], Value<'a>)>),
    Publish {
        manifest: &'a [u8],
        journal: JournalChange<'a>,
    },
    /// Nothing; it follows a publish.
    End,
}

/// The effect of a publish on the journal of the arrays.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JournalChange<'a> {
    Nothing,
    Leaf(&'a [u8]),
    /// The states of the arrays follow.
    Synced(&'a [u8]),
}

/// The file that records are appended to.
#[derive(Debug)]
pub(super) struct LogWriter {
    path: PathBuf,
    file: File,
    /// Bytes of whole records.
    bytes: u64,
    buffer: Vec<u8>,
    /// Set when nobody can say what the file has: its owner must open the store again.
    is_broken: bool,
}

// === encoding ===

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

/// Appends a record whose body `write` makes.
fn put_record(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(MAGIC);
    let length = out.len();
    out.extend([0; 4]);
    write(out);
    let bytes = u32::try_from(out.len() - length - 4).expect("a record is far smaller");
    out[length..length + 4].copy_from_slice(&bytes.to_le_bytes());
    let checksum = crc32c::crc32c(&out[length..]);
    out.extend(checksum.to_le_bytes());
}

impl Record<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        put_record(out, |out| match self {
            Self::Checkpoint { manifest, arrays, leaves } => {
                out.push(CHECKPOINT);
                put_optional(out, *manifest);
                put_bytes(out, arrays);
                out.extend(u32::try_from(leaves.len()).expect("few").to_le_bytes());
                for leaf in leaves {
                    put_bytes(out, leaf);
                }
            }
            Self::Rows(rows) => {
                out.push(ROWS);
                for (table, key, value) in rows {
                    out.push(*table);
                    put_bytes(out, key);
                    put_optional(out, *value);
                }
            }
            Self::Publish { manifest, journal } => {
                out.push(PUBLISH);
                put_optional(out, Some(manifest));
                match journal {
                    JournalChange::Nothing => out.push(0),
                    JournalChange::Leaf(leaf) => {
                        out.push(1);
                        put_bytes(out, leaf);
                    }
                    JournalChange::Synced(arrays) => {
                        out.push(2);
                        put_bytes(out, arrays);
                    }
                }
            }
            Self::End => out.push(END),
        });
    }
}

// === decoding ===

fn optional<'a>(cursor: &mut Cursor<'a>) -> Option<Value<'a>> {
    match cursor.u8()? {
        0 => Some(None),
        1 => cursor.bytes().map(Some),
        _ => None,
    }
}

impl<'a> Record<'a> {
    fn decode(body: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(body);
        let record = match cursor.u8()? {
            CHECKPOINT => {
                let (manifest, arrays) = (optional(&mut cursor)?, cursor.bytes()?);
                let leaves = (0..cursor.u32()?).map(|_| cursor.bytes()).collect::<Option<_>>()?;
                Self::Checkpoint { manifest, arrays, leaves }
            }
            ROWS => {
                let mut rows = Vec::new();
                while !cursor.is_empty() {
                    rows.push((cursor.u8()?, cursor.bytes()?, optional(&mut cursor)?));
                }
                Self::Rows(rows)
            }
            PUBLISH => {
                let manifest = optional(&mut cursor)??;
                let journal = match cursor.u8()? {
                    0 => JournalChange::Nothing,
                    1 => JournalChange::Leaf(cursor.bytes()?),
                    2 => JournalChange::Synced(cursor.bytes()?),
                    _ => return None,
                };
                Self::Publish { manifest, journal }
            }
            END => Self::End,
            _ => return None,
        };
        cursor.is_empty().then_some(record)
    }
}

/// Cuts the body of the record that `bytes` begin with; `None` if there is no whole one. Gives also what follows.
fn cut_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let after = bytes.strip_prefix(MAGIC)?;
    let length = u32::from_le_bytes(*after.first_chunk()?) as usize;
    let (proved, rest) = after.split_at_checked(length.checked_add(4)?)?;
    let (checksum, rest) = rest.split_first_chunk::<CHECKSUM_BYTES>()?;
    (crc32c::crc32c(proved) == u32::from_le_bytes(*checksum)).then_some((&proved[4..], rest))
}

/// Passes every record of a log file to `apply`.
///
/// # Errors
/// [`Error::Corrupt`] when a damaged record is followed by an intact one, or an intact one cannot be decoded.
pub(super) fn replay(path: &Path, mut apply: impl FnMut(Record<'_>) -> Result<()>) -> Result<()> {
    let bytes = fs::read(path).map_err(|source| io_error("read", path, source))?;
    let damaged =
        |reason: &str| Error::Corrupt { table: "(log)".to_owned(), reason: format!("{}: {reason}", path.display()) };
    let mut left = bytes.as_slice();
    while let Some((body, rest)) = cut_record(left) {
        apply(Record::decode(body).ok_or_else(|| damaged("a record cannot be decoded"))?)?;
        left = rest;
    }
    let mut later = left.get(1..).unwrap_or_default();
    while let Some(at) = later.windows(MAGIC.len()).position(|window| window == MAGIC) {
        if cut_record(&later[at..]).is_some() {
            return Err(damaged("a record is damaged, and others follow it"));
        }
        later = &later[at + 1..];
    }
    Ok(())
}

// === impl LogWriter ===

impl LogWriter {
    /// Begins a log file with a checkpoint. It is durable at the next sync.
    pub(super) fn create(path: &Path, manifest: Option<&[u8]>, arrays: &[u8], leaves: &[Vec<u8>]) -> Result<Self> {
        let file = File::options().write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|source| io_error("create", path, source))?;
        let mut log = Self { path: path.to_owned(), file, bytes: 0, buffer: Vec::new(), is_broken: false };
        let leaves = leaves.iter().map(Vec::as_slice).collect();
        log.append(&Record::Checkpoint { manifest, arrays, leaves })?;
        log.append(&Record::End)?;
        Ok(log)
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a record, not durably. After an error the file is as before.
    pub(super) fn append(&mut self, record: &Record<'_>) -> Result<()> {
        self.check()?;
        self.buffer.clear();
        record.put(&mut self.buffer);
        if let Err(source) = self.file.write_all(&self.buffer) {
            self.is_broken = self.rewind().is_err();
            return Err(io_error("write", &self.path, source));
        }
        self.bytes += self.buffer.len() as u64;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Removes what a failed write left.
    fn rewind(&mut self) -> std::io::Result<()> {
        use std::io::Seek as _;
        self.file.set_len(self.bytes)?;
        self.file.seek(std::io::SeekFrom::Start(self.bytes)).map(drop)
    }

    /// Makes every record durable. After an error nothing more is taken: the kernel may have dropped the pages that it
    /// could not write.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.file.sync_data().map_err(|source| {
            self.is_broken = true;
            io_error("sync", &self.path, source)
        })
    }

    /// Takes nothing more: what it would take could not be read again.
    pub(super) fn refuse(&mut self) {
        self.is_broken = true;
    }

    fn check(&self) -> Result<()> {
        if self.is_broken {
            let source = std::io::Error::other("an earlier write or sync failed; start again");
            return Err(io_error("write", &self.path, source));
        }
        Ok(())
    }
}

/// A buffer that one large batch made larger is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn written(folder: &TempDir) -> PathBuf {
        let path = folder.path().join("log");
        let mut log = LogWriter::create(&path, Some(b"first"), b"arrays", &[b"leaf".to_vec()]).unwrap();
        log.append(&Record::Rows(vec![(0, b"key", Some(b"")), (1, b"", None)])).unwrap();
        log.append(&Record::Publish { manifest: b"", journal: JournalChange::Leaf(b"bhlg") }).unwrap();
        log.append(&Record::Publish { manifest: b"second", journal: JournalChange::Nothing }).unwrap();
        log.append(&Record::Publish { manifest: b"third", journal: JournalChange::Synced(b"all") }).unwrap();
        log.append(&Record::Rows(Vec::new())).unwrap();
        log.sync().unwrap();
        path
    }

    fn replayed(path: &Path) -> Result<Vec<String>> {
        let mut records = Vec::new();
        replay(path, |record| {
            records.push(format!("{record:?}"));
            Ok(())
        })?;
        Ok(records)
    }

    #[test]
    fn records_come_back() {
        let folder = TempDir::new().unwrap();
        let records = replayed(&written(&folder)).unwrap();
        assert_eq!(records.len(), 7);
        assert_eq!(records[6], format!("{:?}", Record::Rows(Vec::new())));
        let rows = Record::Rows(vec![(0, b"key", Some(b"")), (1, b"", None)]);
        assert_eq!(records[2], format!("{rows:?}"));
    }

    #[test]
    fn a_log_cut_anywhere_gives_the_records_before() {
        let folder = TempDir::new().unwrap();
        let path = written(&folder);
        let (whole, records) = (fs::read(&path).unwrap(), replayed(&path).unwrap());
        let mut seen = 0;
        for bytes in 0..=whole.len() {
            fs::write(&path, &whole[..bytes]).unwrap();
            let found = replayed(&path).unwrap();
            assert!(found.len() >= seen && records.starts_with(&found), "{bytes}");
            seen = found.len();
        }
        assert_eq!(seen, records.len());
    }

    #[test]
    fn a_damaged_record_that_others_follow_is_damage() {
        let folder = TempDir::new().unwrap();
        let path = written(&folder);
        let (whole, records) = (fs::read(&path).unwrap(), replayed(&path).unwrap());
        let last = HEAD_BYTES + 1 + CHECKSUM_BYTES;
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << (place % 8);
            fs::write(&path, &bytes).unwrap();
            match replayed(&path) {
                Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{place}: {error}"),
                // A torn last record looks alike.
                Ok(found) => assert!(place >= whole.len() - last && found == records[..records.len() - 1], "{place}"),
            }
        }
    }
}
