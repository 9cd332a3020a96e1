//! Bulk runs: sorted rows written straight into segments beside the store, then moved in.
//!
//! Invariant: files of one run do not overlap; a run that is not finished leaves nothing behind.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::segment::{Segment, SegmentWriter};
use super::shared::Shared;
use crate::error::{Error, Result, io_error, keys_do_not_ascend};
use crate::store::{BulkRun, FinishedRun, RunRows};
use crate::table::Table;

/// A run under way.
pub(super) struct SegmentRun {
    shared: Arc<Shared>,
    table: Table,
    /// The file being written; it is the last of `files`.
    writer: Option<SegmentWriter>,
    files: Vec<PathBuf>,
    last_key: Option<Vec<u8>>,
}

// === runs of other stores ===

/// Takes a file that a run of another store has finished, makes it durable, and proves its checksums.
///
/// # Errors
/// [`Error::Corrupt`] when it is damaged.
pub(super) fn adopt_run(shared: &Shared, table: Table, path: PathBuf) -> Result<FinishedRun> {
    File::open(&path).and_then(|file| file.sync_all()).map_err(|source| io_error("sync", &path, source))?;
    let number = shared.next_file.fetch_add(1, Ordering::Relaxed);
    let _ = Segment::open(&path, number, table.name, &shared.cache)?.verify(&mut |_| {})?;
    Ok(FinishedRun { table, rows: RunRows::Files(vec![path]) })
}

// === impl SegmentRun ===

impl SegmentRun {
    pub(super) fn new(shared: Arc<Shared>, table: Table) -> Self {
        Self { shared, table, writer: None, files: Vec::new(), last_key: None }
    }

    fn begin_file(&mut self) -> Result<SegmentWriter> {
        let number = self.shared.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self.shared.folder.bulk().join(format!("{}-{number}.seg", self.table.name));
        self.files.push(path.clone());
        SegmentWriter::create(&path, self.table)
    }
}

impl BulkRun for SegmentRun {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.last_key.as_deref().is_some_and(|last| key <= last) {
            return Err(keys_do_not_ascend(self.table.name));
        }
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin_file()?,
        };
        writer.push(key, Some(value))?;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        if writer.bytes() >= self.shared.options.segment_bytes {
            writer.finish()?;
        } else {
            self.writer = Some(writer);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedRun> {
        if let Some(writer) = self.writer.take() {
            writer.finish()?;
        }
        let files = std::mem::take(&mut self.files);
        Ok(FinishedRun { table: self.table, rows: RunRows::Files(files) })
    }
}

impl Drop for SegmentRun {
    fn drop(&mut self) {
        self.writer = None;
        for file in &self.files {
            // Opening the store removes what stays behind here.
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
