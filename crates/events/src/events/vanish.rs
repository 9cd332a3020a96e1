//! Vanish requests (NIP-62), carried out in pieces, so that the writer serves other authors between them.
//!
//! Invariant: the memtable is flushed only after its requests are carried out, so replaying the log finds every request
//! that a crash interrupted.

use std::collections::HashSet;

use super::{Events, VANISHED_TOGETHER, Writer};
use crate::error::Result;
use crate::event::Seq;
use crate::events::admission::Admission;
use crate::state::{Reader, Version};

impl Events {
    /// Carries out another piece of vanish requests; returns true if there may be more. Until it returns false, queries
    /// may find events of an author who vanished.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn vanish(&self) -> Result<bool> {
        self.change(|writer| self.vanish_piece(writer))
    }

    /// Carries out all vanish requests.
    pub(super) fn finish_vanishing(&self, writer: &mut Writer) -> Result<()> {
        while self.vanish_piece(writer)? {}
        Ok(())
    }

    /// Deletes and publishes a piece.
    fn vanish_piece(&self, writer: &mut Writer) -> Result<bool> {
        if writer.vanishing.is_empty() {
            return Ok(false);
        }
        let (mut deleted, version) = (HashSet::new(), self.installed());
        self.vanish_some(writer, &version, &mut deleted, &mut { VANISHED_TOGETHER })?;
        if !deleted.is_empty() {
            self.store.publish(&writer.manifest.encode())?;
            self.install(version.end, |tombstones| deleted.iter().for_each(|seq| tombstones.add(*seq)));
        }
        Ok(!writer.vanishing.is_empty())
    }

    /// Writes tombstones for up to `left` events of authors who vanished, and adds them to `superseded`. Subtracts them
    /// from `left`.
    pub(super) fn vanish_some(
        &self,
        writer: &mut Writer,
        version: &Version,
        superseded: &mut HashSet<Seq>,
        left: &mut usize,
    ) -> Result<()> {
        while *left > 0
            && let Some((by, vanish)) = writer.vanishing.front().copied()
        {
            let reader = Reader { superseded: Some(superseded), ..self.reader(version, Seq(u64::MAX)) };
            let found = Admission { reader, urls: &self.options.urls }.vanished(vanish, by, *left)?;
            if found.len() < *left {
                writer.vanishing.pop_front();
            }
            *left -= found.len();
            self.bury(&mut writer.manifest, &found, by)?;
            superseded.extend(found);
        }
        Ok(())
    }
}
