//! Bulk runs: sorted on the disk of this process, then sent.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io_error, keys_do_not_ascend};
use crate::range::Row;
use crate::segments::spool::{SpoolWriter, read};
use crate::store::{BulkRun, FinishedRun, RunRows};
use crate::table::Table;

/// Removes the runs of a process that was killed, and creates the folder if it is missing.
pub(super) fn empty_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|cause| io_error("create", folder, cause))?;
    let failed = |cause| io_error("read", folder, cause);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "run") {
            fs::remove_file(&path).map_err(|cause| io_error("remove", &path, cause))?;
        }
    }
    Ok(())
}

/// A run under way.
pub(super) struct SpooledRun {
    table: Table,
    /// `None` once it is finished.
    writer: Option<SpoolWriter>,
    file: SpoolFile,
    last_key: Option<Vec<u8>>,
}

/// A file that is removed with its owner.
struct SpoolFile(Option<PathBuf>);

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // The next process removes what stays behind here.
            let _ = fs::remove_file(path);
        }
    }
}

/// Begins a run in a file of this number.
pub(super) fn begin(folder: &Path, table: Table, number: u64) -> Result<SpooledRun> {
    let path = folder.join(format!("{}-{number}.run", table.name));
    let writer = SpoolWriter::create(&path, table)?;
    Ok(SpooledRun { table, writer: Some(writer), file: SpoolFile(Some(path)), last_key: None })
}

impl BulkRun for SpooledRun {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.last_key.as_deref().is_some_and(|last| key <= last) {
            return Err(keys_do_not_ascend(self.table.name));
        }
        self.writer.as_mut().expect("a run is pushed to before it is finished").push(key, value)?;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedRun> {
        self.writer.take().expect("a run is finished once").finish()?;
        Ok(FinishedRun { table: self.table, rows: RunRows::Files(self.file.0.take().into_iter().collect()) })
    }
}

/// Reads a finished run in parts, and removes it.
pub(super) fn each_part(
    run: FinishedRun,
    rows_max: usize,
    bytes_max: usize,
    mut load: impl FnMut(Table, Vec<Row>) -> Result<()>,
) -> Result<()> {
    let table = run.table;
    let RunRows::Files(files) = run.rows else {
        return Err(Error::Engine("failed to load a bulk run: it belongs to another engine".to_owned()));
    };
    for file in files {
        let file = SpoolFile(Some(file));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        read(file.0.as_deref().expect("it is there until the drop"), table, |key, value| {
            bytes += key.len() + value.len();
            rows.push((key.to_vec(), value.to_vec()));
            if rows.len() < rows_max && bytes < bytes_max {
                return Ok(());
            }
            bytes = 0;
            load(table, std::mem::take(&mut rows))
        })?;
        if !rows.is_empty() {
            load(table, rows)?;
        }
    }
    Ok(())
}
