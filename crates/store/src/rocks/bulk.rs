//! Bulk runs: sorted rows written straight into table files beside the database, then moved into it.
//!
//! Invariant: files of one run do not overlap; a dropped run leaves no file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rust_rocksdb::{ErrorKind, SstFileWriter};

use super::engine::engine_error;
use super::options;
use crate::error::{Error, Result, keys_do_not_ascend};
use crate::store::{BulkRun, FinishedRun, RunRows};
use crate::table::Table;

/// An unfinished run.
pub(super) struct RocksRun {
    folder: PathBuf,
    table: Table,
    file_bytes_max: u64,
    number: Arc<AtomicU64>,
    /// The writer of the last of `files`.
    writer: Option<SstFileWriter<'static>>,
    files: Vec<PathBuf>,
    /// The last key of the previous file; the next file begins with a greater one.
    last_key: Option<Vec<u8>>,
}

// === impl RocksRun ===

impl RocksRun {
    pub(super) fn new(folder: PathBuf, table: Table, file_bytes_max: u64, number: Arc<AtomicU64>) -> Self {
        let (writer, files, last_key) = (None, Vec::new(), None);
        Self { folder, table, file_bytes_max, number, writer, files, last_key }
    }

    fn error(&self, error: rust_rocksdb::Error) -> Error {
        // Within one file the writer itself compares each key with the previous one.
        if error.kind() == ErrorKind::InvalidArgument {
            return keys_do_not_ascend(self.table.name);
        }
        engine_error("write a bulk run of", self.table.name, error)
    }

    /// Begins a file whose first key will be `key`.
    fn begin_file(&mut self, key: &[u8]) -> Result<SstFileWriter<'static>> {
        if self.last_key.as_deref().is_some_and(|last| key <= last) {
            return Err(keys_do_not_ascend(self.table.name));
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{number}.sst", self.table.name));
        let mut writer = SstFileWriter::create(options::bulk(self.table));
        self.files.push(path.clone());
        writer.open(path).map_err(|error| self.error(error))?;
        Ok(writer)
    }
}

impl BulkRun for RocksRun {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin_file(key)?,
        };
        writer.put(key, value).map_err(|error| self.error(error))?;
        if writer.file_size() >= self.file_bytes_max {
            writer.finish().map_err(|error| self.error(error))?;
            self.last_key = Some(key.to_vec());
        } else {
            self.writer = Some(writer);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedRun> {
        if let Some(mut writer) = self.writer.take() {
            writer.finish().map_err(|error| self.error(error))?;
        }
        let files = std::mem::take(&mut self.files);
        Ok(FinishedRun { table: self.table, rows: RunRows::Files(files) })
    }
}

impl Drop for RocksRun {
    fn drop(&mut self) {
        self.writer = None;
        for file in &self.files {
            // Opening the store removes a file that stays here.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The files of all runs, each table's together; tables without rows are left out.
pub(super) fn files_by_table(runs: Vec<FinishedRun>) -> Result<Vec<(Table, Vec<PathBuf>)>> {
    let mut tables: Vec<(Table, Vec<PathBuf>)> = Vec::new();
    for run in runs {
        let RunRows::Files(files) = run.rows else {
            return Err(Error::Engine("a run of another engine".to_owned()));
        };
        if files.is_empty() {
            continue;
        }
        match tables.iter_mut().find(|(table, _)| table.name == run.table.name) {
            Some((_, all)) => all.extend(files),
            None => tables.push((run.table, files)),
        }
    }
    Ok(tables)
}
