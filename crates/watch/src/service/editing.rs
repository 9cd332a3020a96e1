//! Edits of the watch file for an operator who has no shell at hand: the same ones that `birdhouse watch` makes.

use super::watches::Watches;
use crate::error::{Error, Result};
use crate::file::{NewWatch, WatchFile};

impl Watches {
    /// Adds a watch to the file, and puts it to work. Waits for an update under way.
    ///
    /// # Errors
    /// The watch has a mistake, the file cannot be written, or the new file cannot be put to work.
    pub fn add(&self, watch: &NewWatch) -> Result<()> {
        WatchFile::add(&self.inner.paths.file, watch, self.inner.network)?;
        tracing::info!("added a watch for the operator");
        self.reload()
    }

    /// Removes a watch from the file, and what is known of it. Waits for an update under way.
    ///
    /// # Errors
    /// The file has no such watch, cannot be written, or cannot be put to work.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = &self.inner.paths.file;
        if !WatchFile::remove(path, name, self.inner.network)? {
            return Err(Error::File(format!("{} has no watch with the name \"{name}\"", path.display())));
        }
        tracing::info!("removed a watch for the operator");
        self.reload()
    }
}
