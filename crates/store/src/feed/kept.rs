//! The changes that are kept for replicas, by number, within bounds. Pure.
//!
//! Invariant: the changes from `first` on are there without a gap, and `base` is the manifest before the first of them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::change::RunFile;

/// Bounds on what is kept for replicas. Beyond them the oldest changes are dropped, and a replica that still needed one
/// copies the store anew.
#[derive(Debug, Clone, Copy)]
pub struct FeedBounds {
    /// Bytes of changes in memory.
    pub bytes: usize,
    /// Bytes of their files. A file takes disk space of its own only after the store has merged or dropped its rows.
    pub file_bytes: u64,
}

impl Default for FeedBounds {
    fn default() -> Self {
        Self { bytes: 64 << 20, file_bytes: 16 << 30 }
    }
}

/// One change, encoded.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) manifest: Vec<u8>,
    pub(super) files: Vec<RunFile>,
}

impl Sealed {
    fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// The answer to a request for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The bytes of the change.
    Change(Arc<Vec<u8>>),
    /// It was not published yet.
    NotYet,
    /// It was dropped, or belongs to another run of the process: the store has to be copied anew.
    Gone,
}

#[derive(Debug)]
pub(super) struct Kept {
    bounds: FeedBounds,
    first: u64,
    base: Vec<u8>,
    changes: VecDeque<Sealed>,
    bytes: usize,
    file_bytes: u64,
}

impl Kept {
    /// Returns an empty list after the publish of `base`.
    pub(super) fn new(bounds: FeedBounds, base: Vec<u8>) -> Self {
        Self { bounds, first: 0, base, changes: VecDeque::new(), bytes: 0, file_bytes: 0 }
    }

    /// Adds the next change; returns the files of those that it drops, its own among them if it is too large.
    pub(super) fn push(&mut self, sealed: Sealed) -> Vec<RunFile> {
        self.bytes += sealed.bytes.len();
        self.file_bytes += sealed.file_bytes();
        self.changes.push_back(sealed);
        let mut dropped = Vec::new();
        while self.bytes > self.bounds.bytes || self.file_bytes > self.bounds.file_bytes {
            dropped.extend(self.drop_first());
        }
        dropped
    }

    /// Drops every change, and counts one that published `manifest` and that nobody kept.
    pub(super) fn skip(&mut self, manifest: &[u8]) -> Vec<RunFile> {
        let mut dropped = Vec::new();
        while !self.changes.is_empty() {
            dropped.extend(self.drop_first());
        }
        self.first += 1;
        self.base = manifest.to_vec();
        dropped
    }

    fn drop_first(&mut self) -> Vec<RunFile> {
        let first = self.changes.pop_front().expect("an empty list is within its bounds");
        self.bytes -= first.bytes.len();
        self.file_bytes -= first.file_bytes();
        self.first += 1;
        self.base = first.manifest;
        first.files
    }

    /// Returns the number of the first change after the publish of `manifest`; `None` if it was dropped.
    ///
    /// A manifest that was published twice counts from the first time: a change that is applied again changes nothing.
    pub(super) fn after(&self, manifest: &[u8]) -> Option<u64> {
        let known =
            std::iter::once(self.base.as_slice()).chain(self.changes.iter().map(|change| change.manifest.as_slice()));
        (self.first..).zip(known).find(|(_, known)| *known == manifest).map(|(number, _)| number)
    }

    pub(super) fn get(&self, number: u64) -> Fetched {
        let Some(place) = number.checked_sub(self.first) else { return Fetched::Gone };
        let found = usize::try_from(place).ok().and_then(|place| self.changes.get(place));
        found.map_or(Fetched::NotYet, |change| Fetched::Change(Arc::clone(&change.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(manifest: &str, file_bytes: u64) -> Sealed {
        let files = vec![RunFile { number: file_bytes, bytes: file_bytes }];
        Sealed { bytes: Arc::new(vec![7; 10]), manifest: manifest.into(), files }
    }

    fn kept(bounds: FeedBounds) -> Kept {
        Kept::new(bounds, b"base".to_vec())
    }

    #[test]
    fn changes_are_found_by_the_manifest_before_them_and_by_number() {
        let mut kept = kept(FeedBounds { bytes: 100, file_bytes: 100 });
        assert_eq!((kept.after(b"base"), kept.get(0)), (Some(0), Fetched::NotYet));
        for manifest in ["one", "two", "two"] {
            assert_eq!(kept.push(sealed(manifest, 1)), []);
        }
        assert_eq!(
            [b"base", &b"one"[..], b"two", b"other"].map(|known| kept.after(known)),
            [Some(0), Some(1), Some(2), None]
        );
        assert!(matches!(kept.get(2), Fetched::Change(_)));
        assert_eq!(kept.get(3), Fetched::NotYet);
    }

    #[test]
    fn the_oldest_are_dropped_beyond_either_bound() {
        for bounds in [FeedBounds { bytes: 25, file_bytes: 100 }, FeedBounds { bytes: 100, file_bytes: 4 }] {
            let mut kept = kept(bounds);
            assert_eq!(kept.push(sealed("one", 1)), []);
            assert_eq!(kept.push(sealed("two", 2)), []);
            assert_eq!(kept.push(sealed("three", 2)), [RunFile { number: 1, bytes: 1 }]);
            assert_eq!((kept.after(b"base"), kept.after(b"one")), (None, Some(1)));
            assert_eq!((kept.get(0), kept.get(3)), (Fetched::Gone, Fetched::NotYet));
        }
        let mut kept = kept(FeedBounds { bytes: 25, file_bytes: 4 });
        assert_eq!(kept.push(sealed("large", 5)).len(), 1, "it is larger than the bound");
        assert_eq!((kept.after(b"large"), kept.get(0)), (Some(1), Fetched::Gone));
    }

    #[test]
    fn a_change_that_was_not_kept_leaves_nothing_before_it() {
        let mut kept = kept(FeedBounds { bytes: 100, file_bytes: 100 });
        kept.push(sealed("one", 1));
        assert_eq!(kept.skip(b"two").len(), 1);
        assert_eq!((kept.after(b"one"), kept.after(b"two")), (None, Some(2)));
        assert_eq!([0, 1, 2].map(|number| kept.get(number)), [Fetched::Gone, Fetched::Gone, Fetched::NotYet]);
    }
}
