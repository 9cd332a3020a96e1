//! The state of a store on segments: which files are live.
//!
//! ```text
//! STATE   "birdstt1" | next file number u64 LE | first live log u64 LE | tables u8 | each table | CRC-32C u32 LE
//! table   bytes of the name u8 | name | runs u32 LE | each run, the newest first
//! run     segments u32 LE | file number u64 LE each, by ascending keys
//! ```
//! Invariant: the file is replaced whole, by a rename, after what it names is durable. Files that it does not name are
//! leftovers.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::error::{Error, Result, io_error};
use crate::sync::sync_folder;

const MAGIC: &[u8; 8] = b"birdstt1";

/// Names of files that are live, as numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) next_file: u64,
    pub(super) first_log: u64,
    pub(super) tables: Vec<TableState>,
}

/// One table's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableState {
    pub(super) name: String,
    /// The newest first; within a run keys do not overlap and ascend.
    pub(super) runs: Vec<Vec<u64>>,
}

impl State {
    /// Reads the state of a folder; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error("read", path, source)),
        };
        let damaged =
            || Error::Corrupt { table: "(state)".to_owned(), reason: format!("{} is damaged", path.display()) };
        Self::decode(&bytes).map(Some).ok_or_else(damaged)
    }

    /// Replaces the state of a folder, durably.
    pub(super) fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let (path, draft) = (folder.join(name), folder.join(format!("{name}.new")));
        File::create(&draft)
            .and_then(|mut file| {
                file.write_all(&self.encode())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|source| io_error("write", &path, source))?;
        sync_folder(folder)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.next_file.to_le_bytes());
        out.extend(self.first_log.to_le_bytes());
        out.push(u8::try_from(self.tables.len()).expect("few tables"));
        for table in &self.tables {
            out.push(u8::try_from(table.name.len()).expect("names are short"));
            out.extend(table.name.as_bytes());
            out.extend(u32::try_from(table.runs.len()).expect("few runs").to_le_bytes());
            for run in &table.runs {
                out.extend(u32::try_from(run.len()).expect("few segments").to_le_bytes());
                for number in run {
                    out.extend(number.to_le_bytes());
                }
            }
        }
        let checksum = crc32c::crc32c(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (proved, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(proved) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut left = proved.strip_prefix(MAGIC)?;
        let mut take = |bytes: usize| {
            let (taken, rest) = left.split_at_checked(bytes)?;
            left = rest;
            Some(taken)
        };
        let u64_of = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        let u32_of = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
        let mut state = Self { next_file: u64_of(take(8)?)?, first_log: u64_of(take(8)?)?, tables: Vec::new() };
        for _ in 0..take(1)?[0] {
            let length = usize::from(take(1)?[0]);
            let name = str::from_utf8(take(length)?).ok()?.to_owned();
            let mut runs = Vec::new();
            for _ in 0..u32_of(take(4)?)? {
                let segments = u32_of(take(4)?)?;
                runs.push((0..segments).map(|_| u64_of(take(8)?)).collect::<Option<_>>()?);
            }
            state.tables.push(TableState { name, runs });
        }
        left.is_empty().then_some(state)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_every_flipped_bit_is_damage() {
        let tables = [("script", vec![vec![5, 6], vec![1]]), ("recent", vec![])];
        let tables = tables.map(|(name, runs)| TableState { name: name.to_owned(), runs });
        let state = State { next_file: 7, first_log: 3, tables: tables.to_vec() };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("STATE");
        assert_eq!(State::read(&path).unwrap(), None);
        state.write(folder.path(), "STATE").unwrap();
        assert_eq!(State::read(&path).unwrap(), Some(state.clone()));
        let bytes = state.encode();
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(State::decode(&bytes), None);
        }
        assert!((0..bytes.len()).all(|end| State::decode(&bytes[..end]).is_none()));
    }
}
