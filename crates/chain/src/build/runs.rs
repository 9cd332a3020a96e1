//! Sorted runs: the durable output of a generation, one file per partition.
//!
//! ```text
//! file      base 8 LE (the first txnum of the generation) | names 1 (0 by hash, 1 by place) | blocks
//! block     length 4 LE | scripts, ascending by key
//! script    prefix - prefix of the script before LEB128 | [check 1]  with wide keys | state (`ScriptState::encode`)
//! ```

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::build::funding::Naming;
use crate::build::script_state::ScriptState;
use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::error::{Error, Result};
use crate::prefix::{KeyLength, ScriptKey};
use crate::txnum::TxNum;

/// Bytes at which a block ends. A script with a long history makes a longer one.
const BLOCK_BYTES: usize = 64 << 10;

/// Writes one file of a run.
pub(crate) struct RunWriter {
    file: File,
    path: PathBuf,
    base: TxNum,
    naming: Naming,
    key_length: KeyLength,
    last_prefix: u64,
    block: Vec<u8>,
}

impl RunWriter {
    pub(crate) fn create(path: PathBuf, base: TxNum, naming: Naming, key_length: KeyLength) -> Result<Self> {
        let mut file = File::create(&path).map_err(Error::io("create", &path))?;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&base.0.to_le_bytes());
        head[8] = u8::from(naming == Naming::Place);
        file.write_all(&head).map_err(Error::io("write", &path))?;
        Ok(Self { file, path, base, naming, key_length, last_prefix: 0, block: vec![0; LENGTH_BYTES] })
    }

    /// Adds a script. Keys ascend.
    pub(crate) fn push(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
        put_leb128(&mut self.block, key.prefix - self.last_prefix);
        if self.key_length == KeyLength::Wide {
            self.block.push(key.check);
        }
        state.encode(self.base, self.naming, &mut self.block);
        self.last_prefix = key.prefix;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Makes the run durable.
    pub(crate) fn finish(mut self) -> Result<()> {
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
const HEAD_BYTES: usize = 9;
/// Bytes of the length before a block.
const LENGTH_BYTES: usize = 4;

/// Reads the form of the names in a file of a run.
pub(crate) fn naming(path: &Path) -> Result<Naming> {
    let mut head = [0; HEAD_BYTES];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).map_err(Error::io("read", path))?;
    Ok(if head[HEAD_BYTES - 1] == 0 { Naming::Hash } else { Naming::Place })
}

/// Reads one file of a run.
pub(crate) struct RunReader {
    file: BufReader<File>,
    path: PathBuf,
    base: TxNum,
    key_length: KeyLength,
    last_prefix: u64,
    block: Vec<u8>,
    /// Position of the next script in the block.
    at: usize,
}

impl RunReader {
    pub(crate) fn open(path: PathBuf, key_length: KeyLength) -> Result<Self> {
        let mut file = BufReader::new(File::open(&path).map_err(Error::io("open", &path))?);
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head).map_err(Error::io("read", &path))?;
        let (base, _) = head.split_first_chunk().expect("the head is longer");
        let base = TxNum(u64::from_le_bytes(*base));
        Ok(Self { file, path, base, key_length, last_prefix: 0, block: Vec::new(), at: 0 })
    }

    /// Reads the next script into `state`; `None` at the end.
    pub(crate) fn next(&mut self, state: &mut ScriptState) -> Result<Option<ScriptKey>> {
        if self.at == self.block.len() && !self.next_block().map_err(Error::io("read", &self.path))? {
            return Ok(None);
        }
        self.decode(state).map(Some).map_err(|malformed| Error::damaged(&self.path, malformed))
    }

    fn decode(&mut self, state: &mut ScriptState) -> Result<ScriptKey, Malformed> {
        let mut cursor = Cursor::new(&self.block[self.at..]);
        let prefix = self.last_prefix.checked_add(cursor.leb128("script key")?);
        self.last_prefix = prefix.ok_or_else(|| cursor.malformed("script key"))?;
        let check = match self.key_length {
            KeyLength::Narrow => 0,
            KeyLength::Wide => cursor.u8("check")?,
        };
        state.decode(self.base, &mut cursor)?;
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
    fn a_run_gives_back_its_scripts_and_one_that_is_cut_short_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for key_length in [KeyLength::Narrow, KeyLength::Wide] {
            let path = folder.path().join("a.run");
            let base = TxNum(1_000_000);
            let script = |number: u64| {
                let check = if key_length == KeyLength::Wide { number.to_le_bytes()[0] } else { 0 };
                let key = ScriptKey { prefix: number << 40, check };
                let record = Record::new(key, Side::Funded, TxNum(base.0 + number), 5, 1000, number).unwrap();
                let mut state = ScriptState::default();
                state.apply(&[record], Unknown::Keep).unwrap();
                (key, state)
            };
            // Several blocks.
            let scripts: Vec<_> = (0..20_000).map(script).collect();
            let mut writer = RunWriter::create(path.clone(), base, Naming::Hash, key_length).unwrap();
            scripts.iter().try_for_each(|(key, state)| writer.push(*key, state)).unwrap();
            writer.finish().unwrap();
            assert_eq!(naming(&path).unwrap(), Naming::Hash);
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
