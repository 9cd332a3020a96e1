//! Blobs, and what a key owns, as values.

use crate::hash::BlobHash;

/// A blob that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its name.
    pub hash: BlobHash,
    /// Bytes.
    pub size: u64,
    /// Time of its first upload, or of that by one owner in a list of its blobs; seconds since 1970.
    pub uploaded: u64,
    /// Its media type.
    pub media_type: String,
}

/// Bytes and files that a key owns, or that all own together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

/// A page of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListPage {
    /// The last blob of the page before.
    pub(crate) after: Option<BlobHash>,
    /// Most blobs.
    pub(crate) limit: usize,
    /// First and last time of an upload, seconds since 1970.
    pub(crate) since: u64,
    pub(crate) until: u64,
}

/// A blob whose upload is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    New(Blob),
    Known(Blob),
    /// The key owned the blob when the upload began, so that it did not count in its quotas, and has deleted it since.
    Uncounted,
}

/// Files that a sweep has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files that have a row.
    pub kept: u64,
    /// Files without a row, which are removed.
    pub removed: u64,
    /// Further files without a row.
    pub left: u64,
}

/// Effect of an owner's deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The blob has no owner any more, and is gone.
    Blob,
    /// Others own it still.
    Owner,
    /// There is no such blob.
    Unknown,
    /// The key does not own it.
    NotOwned,
}

// === impl Usage ===

impl Usage {
    pub(super) fn of((bytes, files): (u64, u64)) -> Self {
        Self { bytes, files }
    }

    pub(super) fn plus(self, size: u64) -> Self {
        Self { bytes: self.bytes.saturating_add(size), files: self.files.saturating_add(1) }
    }

    pub(super) fn minus(self, size: u64) -> Self {
        Self { bytes: self.bytes.saturating_sub(size), files: self.files.saturating_sub(1) }
    }
}
