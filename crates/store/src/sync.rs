//! Durable names of files.

use std::fs::File;
use std::path::Path;

use crate::error::{Result, io_error};

/// Makes the file names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| io_error("sync", folder, source))
}
