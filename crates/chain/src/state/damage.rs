//! Damage of the index that a read has met, and the remedies of failures.
//!
//! The follower waits and tries again after a failure, and health checks see that. The read of an answer ends with it,
//! so its damage is kept here, from the first one to the end of the process.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use birdhouse_store::Error::{Corrupt, Io};

use crate::error::{Error, Result};

/// The first damage that a read has met.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Folder of the index, for messages.
    folder: OnceLock<PathBuf>,
    /// Message of the damage, with its remedy.
    first: OnceLock<String>,
}

impl Damage {
    pub(crate) fn set_folder(&self, folder: &Path) {
        // The first call counts.
        let _ = self.folder.set(folder.to_owned());
    }

    /// Returns the message of a failure, with its remedy.
    pub(crate) fn advised(&self, error: &Error) -> String {
        self.folder.get().map_or_else(|| error.to_string(), |folder| error.advised(folder))
    }

    /// Returns the message of the first damage, with its remedy.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    /// Passes the result of a read on; keeps and logs the first damage.
    pub(super) fn noted<T>(&self, read: birdhouse_store::Result<T>) -> Result<T> {
        read.map_err(|error| {
            let error = Error::from(error);
            match &error {
                Error::Store(Corrupt { .. }) => self.keep(self.advised(&error)),
                Error::Store(Io { .. }) => self.keep(format!("{error}; check the disk, then start birdhouse again")),
                _ => {}
            }
            error
        })
    }

    fn keep(&self, message: String) {
        if self.first.set(message).is_ok() {
            let error = self.first();
            tracing::error!(error, "a read met damage in the index; answers that need this place fail");
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::io;

    use birdhouse_store::Error::Engine;

    use super::*;

    fn after(error: birdhouse_store::Error) -> Option<String> {
        let damage = Damage::default();
        damage.set_folder(Path::new("/data/bitcoin"));
        assert!(damage.noted::<()>(Err(error)).is_err());
        damage.first().map(str::to_owned)
    }

    #[test]
    fn a_damaged_page_names_the_folder_that_can_go_and_an_unreadable_one_the_disk() {
        let page = after(Corrupt { table: "long".into(), reason: "a block's checksum is wrong".into() }).unwrap();
        assert!(page.starts_with("table long is damaged: a block's checksum is wrong; "), "{page}");
        assert!(page.contains("remove the folder /data/bitcoin and nothing else"), "{page}");
        let cause = io::Error::from_raw_os_error(5);
        let disk = after(Io { action: "read /data/bitcoin/segments/7".into(), cause }).unwrap();
        assert!(disk.ends_with("; check the disk, then start birdhouse again"), "{disk}");
    }

    #[test]
    fn the_first_damage_is_kept_and_other_failures_are_none() {
        assert_eq!(after(Engine("refused".into())), None);
        let damage = Damage::default();
        for table in ["first", "second"] {
            let read = Err(Corrupt { table: table.into(), reason: "why".into() });
            assert!(damage.noted::<()>(read).is_err());
        }
        assert_eq!(damage.noted(Ok(7)).unwrap(), 7);
        assert_eq!(damage.first(), Some("table first is damaged: why"));
    }
}
