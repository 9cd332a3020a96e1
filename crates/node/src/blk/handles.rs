//! A bounded cache of open files.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use parking_lot::Mutex;

/// Number of files kept open for reading parts of blocks.
const OPEN_FILES_MAX: usize = 64;

/// Handles of block files, most recently used first.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Vec<(u32, Arc<File>)>>);

impl Handles {
    /// Returns the handle of file `number`; calls `open` when it is not cached.
    pub(crate) fn get(&self, number: u32, open: impl FnOnce() -> io::Result<File>) -> io::Result<Arc<File>> {
        if let Some(file) = self.cached(number) {
            return Ok(file);
        }
        let file = Arc::new(open()?);
        let mut files = self.0.lock();
        files.truncate(OPEN_FILES_MAX - 1);
        files.insert(0, (number, Arc::clone(&file)));
        Ok(file)
    }

    /// Closes the handle of file `number`, because the file may have been replaced.
    pub(crate) fn close(&self, number: u32) {
        self.0.lock().retain(|(n, _)| *n != number);
    }

    /// Closes the handles of files that were deleted: while they are open, their space is not free.
    pub(crate) fn close_deleted(&self) {
        self.0.lock().retain(|(_, file)| file.metadata().is_ok_and(|file| file.nlink() > 0));
    }

    fn cached(&self, number: u32) -> Option<Arc<File>> {
        let mut files = self.0.lock();
        let at = files.iter().position(|(n, _)| *n == number)?;
        files[..=at].rotate_right(1);
        Some(Arc::clone(&files[0].1))
    }
}
