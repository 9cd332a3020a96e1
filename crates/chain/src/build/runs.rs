//! Sorted runs: the durable output of a generation, one file per partition.
//!
//! ```text
//! file      base 8 LE (the first txnum of the generation) | names 1 (0 by hash, 1 by place) | gap bytes 1 | blocks
//! block     length 4 LE | scripts, ascending by key
//! script    gap | [check 1]  with wide keys | state (`ScriptState::encode`)
//! gap       prefix - prefix of the script before: its lowest `gap bytes` LE | the rest LEB128
//! ```

use std::fs::File;
use std::io::{BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use crate::block::{Cursor, Malformed, put_leb128};
use crate::build::funding::Naming;
use crate::build::record::PARTITION_BITS;
use crate::build::script_state::ScriptState;
use crate::error::{Error, Result};
use crate::names::{KeyLength, ScriptKey, TxNum};

/// Bytes at which a block ends. A script with a long history makes a longer one.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of runs for one script, about: it sets the size of buckets.
pub(super) const RUN_BYTES_PER_SCRIPT: u64 = 26;

/// The head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunHead {
    /// The first txnum of the generation.
    pub(super) base: TxNum,
    pub(super) naming: Naming,
    /// Bytes of a gap between two keys that are always written.
    pub(super) gap_bytes: usize,
}

/// Returns the bytes that nearly all gaps between keys have in a file of about `scripts` scripts: of the others, one
/// byte of LEB128 has most.
pub(super) fn gap_bytes(scripts: u64) -> usize {
    let gap_bits = (u64::BITS - PARTITION_BITS).saturating_sub(scripts.max(1).ilog2());
    gap_bits.saturating_sub(4) as usize / 8
}

/// Writes one file of a run.
pub(super) struct RunWriter {
    file: File,
    path: PathBuf,
    head: RunHead,
    key_length: KeyLength,
    last_prefix: u64,
    block: Vec<u8>,
}

impl RunWriter {
    pub(super) fn create(path: PathBuf, head: RunHead, key_length: KeyLength) -> Result<Self> {
        let mut file = File::create(&path).map_err(Error::io("create", &path))?;
        file.write_all(&head.encode()).map_err(Error::io("write", &path))?;
        Ok(Self { file, path, head, key_length, last_prefix: 0, block: vec![0; LENGTH_BYTES] })
    }

    /// Adds a script. Keys ascend.
    pub(super) fn push(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
        let (gap, low) = (key.prefix - self.last_prefix, self.head.gap_bytes);
        // A copy of a fixed length is quicker than one of `low` bytes.
        let end = self.block.len() + low;
        self.block.extend_from_slice(&gap.to_le_bytes());
        self.block.truncate(end);
        put_leb128(&mut self.block, gap >> (8 * low));
        if self.key_length == KeyLength::Wide {
            self.block.push(key.check);
        }
        state.encode(self.head.base, self.head.naming, &mut self.block);
        self.last_prefix = key.prefix;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Makes the run durable.
    pub(super) fn finish(mut self) -> Result<()> {
        self.end_block()?;
        self.file.sync_all().map_err(Error::io("write", &self.path))
    }

    fn end_block(&mut self) -> Result<()> {
        let length = u32::try_from(self.block.len() - LENGTH_BYTES).expect("a script's state is shorter than 4 GiB");
        if length > 0 {
            self.block[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            self.file.write_all(&self.block).map_err(Error::io("write", &self.path))?;
            self.block.truncate(LENGTH_BYTES);
        }
        Ok(())
    }
}

/// Bytes of the head of a file.
const HEAD_BYTES: usize = 10;
/// Bytes of the length before a block.
const LENGTH_BYTES: usize = 4;

impl RunHead {
    /// Reads the head of a file.
    pub(super) fn of(path: &Path) -> Result<Self> {
        Self::read(&mut File::open(path).map_err(Error::io("open", path))?, path)
    }

    fn read(file: &mut impl Read, path: &Path) -> Result<Self> {
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head).map_err(Error::io("read", path))?;
        Self::decode(&mut Cursor::new(&head)).map_err(|malformed| Error::damaged(path, malformed))
    }

    fn encode(self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&self.base.0.to_le_bytes());
        head[8] = u8::from(self.naming == Naming::Place);
        head[9] = u8::try_from(self.gap_bytes).expect("less than eight");
        head
    }

    fn decode(head: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let base = TxNum(head.u64_le("base")?);
        let naming = if head.u8("names")? == 0 { Naming::Hash } else { Naming::Place };
        match usize::from(head.u8("gap bytes")?) {
            gap_bytes @ 0..8 => Ok(Self { base, naming, gap_bytes }),
            _ => Err(head.malformed("gap bytes")),
        }
    }
}

/// Reads one file of a run.
pub(super) struct RunReader {
    file: BufReader<File>,
    path: PathBuf,
    head: RunHead,
    key_length: KeyLength,
    last_prefix: u64,
    block: Vec<u8>,
    /// Position of the next script in the block.
    at: usize,
}

impl RunReader {
    pub(super) fn open(path: PathBuf, key_length: KeyLength) -> Result<Self> {
        let mut file = BufReader::new(File::open(&path).map_err(Error::io("open", &path))?);
        let head = RunHead::read(&mut file, &path)?;
        Ok(Self { file, path, head, key_length, last_prefix: 0, block: Vec::new(), at: 0 })
    }

    /// Reads the next script into `state`; `None` at the end.
    pub(super) fn next(&mut self, state: &mut ScriptState) -> Result<Option<ScriptKey>> {
        if self.at == self.block.len() && !self.next_block().map_err(Error::io("read", &self.path))? {
            return Ok(None);
        }
        self.decode(state).map(Some).map_err(|malformed| Error::damaged(&self.path, malformed))
    }

    fn decode(&mut self, state: &mut ScriptState) -> Result<ScriptKey, Malformed> {
        let mut cursor = Cursor::new(&self.block[self.at..]);
        let low = self.head.gap_bytes;
        let (gap, rest) = (cursor.uint_le(low, "script key")?, cursor.leb128("script key")?);
        let rest = rest.checked_mul(1 << (8 * low));
        let prefix = rest.and_then(|rest| self.last_prefix.checked_add(rest | gap));
        self.last_prefix = prefix.ok_or_else(|| cursor.malformed("script key"))?;
        let check = match self.key_length {
            KeyLength::Narrow => 0,
            KeyLength::Wide => cursor.u8("check")?,
        };
        state.decode(self.head.base, &mut cursor)?;
        self.at += cursor.position();
        Ok(ScriptKey { prefix: self.last_prefix, check })
    }

    /// Reads the next block. Returns false at the end of the file.
    fn next_block(&mut self) -> std::io::Result<bool> {
        if std::io::BufRead::fill_buf(&mut self.file)?.is_empty() {
            return Ok(false);
        }
        let mut length = [0; LENGTH_BYTES];
        self.file.read_exact(&mut length)?;
        self.block.resize(u32::from_le_bytes(length) as usize, 0);
        self.at = 0;
        self.file.read_exact(&mut self.block)?;
        Ok(true)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::build::record::{Record, Side};
    use crate::build::script_state::Unknown;

    #[test]
    fn gaps_are_as_wide_as_the_scripts_are_few() {
        assert_eq!([0, 1, 20_000, 1 << 17, 1 << 40, u64::MAX].map(gap_bytes), [6, 6, 4, 4, 1, 0]);
    }

    #[test]
    fn a_run_gives_back_its_scripts_and_one_that_is_cut_short_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for key_length in [KeyLength::Narrow, KeyLength::Wide] {
            let path = folder.path().join("a.run");
            let base = TxNum(1_000_000);
            let script = |number: u64| {
                let check = if key_length == KeyLength::Wide { number.to_le_bytes()[0] } else { 0 };
                // Gaps of all sizes.
                let key = ScriptKey { prefix: (number * number) << 30, check };
                let record = Record::new(key, Side::Funded, TxNum(base.0 + number), 5, 1000, number).unwrap();
                let mut state = ScriptState::default();
                state.apply(&[record], Unknown::Keep).unwrap();
                (key, state)
            };
            // Several blocks.
            let scripts: Vec<_> = (0..20_000).map(script).collect();
            let head = RunHead { base, naming: Naming::Hash, gap_bytes: gap_bytes(20_000) };
            let mut writer = RunWriter::create(path.clone(), head, key_length).unwrap();
            scripts.iter().try_for_each(|(key, state)| writer.push(*key, state)).unwrap();
            writer.finish().unwrap();
            assert_eq!(RunHead::of(&path).unwrap(), head);
            let read = |path: &PathBuf| {
                let (mut reader, mut scripts) = (RunReader::open(path.clone(), key_length)?, Vec::new());
                let mut state = ScriptState::default();
                while let Some(key) = reader.next(&mut state)? {
                    scripts.push((key, std::mem::take(&mut state)));
                }
                Ok::<_, Error>(scripts)
            };
            assert_eq!(read(&path).unwrap(), scripts);
            let bytes = std::fs::read(&path).unwrap();
            assert!(bytes.len() > 2 * BLOCK_BYTES);
            std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            assert!(read(&path).is_err());
        }
    }
}
