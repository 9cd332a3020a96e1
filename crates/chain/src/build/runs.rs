//! Sorted runs: the durable output of one generation of the build and input of the next, one file per partition.
//!
//! ```text
//! scripts  per script, ascending by key: length 4 LE | state (`ScriptState::encode`)
//! txids    per transaction, ascending: hash 8 | txnum 8, in the machine's byte order
//! ```

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::PathBuf;

use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::build::record::TxRecord;
use crate::build::script_state::ScriptState;
use crate::error::{Error, Result};
use crate::prefix::ScriptKey;

const BUFFER_BYTES: usize = 256 << 10;

/// Writes one file of a run.
pub(crate) struct RunWriter {
    file: BufWriter<File>,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl RunWriter {
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        Ok(Self { file: BufWriter::with_capacity(BUFFER_BYTES, file), path, buffer: Vec::new() })
    }

    pub(crate) fn push_script(&mut self, key: ScriptKey, state: &ScriptState) -> Result<()> {
        self.buffer.clear();
        state.encode(key, &mut self.buffer);
        let len = u32::try_from(self.buffer.len()).expect("a script's state is shorter than 4 GiB");
        let written = self.file.write_all(&len.to_le_bytes()).and_then(|()| self.file.write_all(&self.buffer));
        written.map_err(Error::io("write", &self.path))
    }

    pub(crate) fn push_tx(&mut self, record: TxRecord) -> Result<()> {
        self.file.write_all(record.as_bytes()).map_err(Error::io("write", &self.path))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(Error::io("write", &self.path))
    }
}

/// Reads one file of a run. A run without a file is empty.
pub(crate) struct RunReader {
    file: Option<BufReader<File>>,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl RunReader {
    /// Opens the run in a file; `None` stands for the empty run before the first generation.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self { file: None, path: PathBuf::new(), buffer: Vec::new() });
        };
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        Ok(Self { file: Some(BufReader::with_capacity(BUFFER_BYTES, file)), path, buffer: Vec::new() })
    }

    /// Reads the next script into `state`; `None` at the end.
    pub(crate) fn next_script(&mut self, state: &mut ScriptState) -> Result<Option<ScriptKey>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut len = [0; 4];
        if file.fill_buf_is_empty().map_err(Error::io("read", &self.path))? {
            return Ok(None);
        }
        file.read_exact(&mut len).map_err(Error::io("read", &self.path))?;
        self.buffer.resize(u32::from_le_bytes(len) as usize, 0);
        file.read_exact(&mut self.buffer).map_err(Error::io("read", &self.path))?;
        state.decode(&self.buffer).map(Some).map_err(|malformed| Error::damaged(&self.path, malformed))
    }

    /// Reads the next transaction; `None` at the end.
    pub(crate) fn next_tx(&mut self) -> Result<Option<TxRecord>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        if file.fill_buf_is_empty().map_err(Error::io("read", &self.path))? {
            return Ok(None);
        }
        let mut record = TxRecord::new_zeroed();
        file.read_exact(record.as_mut_bytes()).map_err(Error::io("read", &self.path))?;
        Ok(Some(record))
    }
}

trait AtEnd {
    fn fill_buf_is_empty(&mut self) -> std::io::Result<bool>;
}

impl AtEnd for BufReader<File> {
    fn fill_buf_is_empty(&mut self) -> std::io::Result<bool> {
        std::io::BufRead::fill_buf(self).map(<[u8]>::is_empty)
    }
}
