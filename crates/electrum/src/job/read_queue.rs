//! The reads of one job: those that are left, the threads that do them, and whether the disk makes them wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::request::Read;

/// Reads in the order of their requests, shared by the threads that do them.
#[derive(Debug)]
pub(super) struct ReadQueue {
    /// Each with the index of its request in the job.
    reads: Vec<(usize, Read)>,
    /// Reads before this one are taken.
    next: AtomicUsize,
    /// Threads that take reads now.
    readers: AtomicUsize,
    /// Some reads have waited for the disk.
    has_stalled: AtomicBool,
}

impl ReadQueue {
    pub(super) fn new(reads: Vec<(usize, Read)>) -> Self {
        Self { reads, next: AtomicUsize::new(0), readers: AtomicUsize::new(0), has_stalled: AtomicBool::new(false) }
    }

    /// Returns the number of reads, taken ones too.
    pub(super) fn len(&self) -> usize {
        self.reads.len()
    }

    /// Returns the read, if there is one alone.
    pub(super) fn single(&self) -> Option<&(usize, Read)> {
        if let [read] = &self.reads[..] { Some(read) } else { None }
    }

    /// Returns the read of the request at `index` of the job, which must be one.
    pub(super) fn at(&self, index: usize) -> &Read {
        let at = self.reads.binary_search_by_key(&index, |(index, _)| *index).expect("the request is a read");
        &self.reads[at].1
    }

    /// Takes the next read.
    pub(super) fn take(&self) -> Option<&(usize, Read)> {
        self.reads.get(self.next.fetch_add(1, Ordering::AcqRel))
    }

    /// Returns the number of reads that are not taken.
    pub(super) fn waiting(&self) -> usize {
        self.len().saturating_sub(self.next.load(Ordering::Acquire))
    }

    /// Returns the number of threads that take reads.
    pub(super) fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// Counts a thread that begins to take reads.
    pub(super) fn add_reader(&self) {
        self.readers.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a thread that stops taking reads. Returns true if it was the last one and has left reads behind.
    pub(super) fn remove_reader(&self) -> bool {
        let was_last = self.readers.fetch_sub(1, Ordering::AcqRel) == 1;
        was_last && self.waiting() > 0
    }

    /// Returns true if a read has waited for the disk.
    pub(super) fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Relaxed)
    }

    /// Notes that a read has waited for the disk. Returns true the first time.
    pub(super) fn note_stall(&self) -> bool {
        !self.has_stalled.swap(true, Ordering::Relaxed)
    }
}
