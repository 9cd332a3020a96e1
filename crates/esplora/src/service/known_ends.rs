//! Ends of the blocks in files of tweaks. A part of a file is found by them, and to compute them takes a read of all
//! rows of the file, so those of the last files are kept for the requests of further parts.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// Files whose ends are kept, of 16 kB each.
const FILES: usize = 16;

/// The ends of the blocks in the files that were asked for last, by the file's `ETag`, which no other file ever has.
#[derive(Debug, Default)]
pub(crate) struct KnownEnds(Mutex<VecDeque<(String, Arc<[u64]>)>>);

impl KnownEnds {
    /// Returns the ends of a file; computes them if they are not known. The lock is not held meanwhile.
    ///
    /// # Errors
    /// Those of the computation.
    pub(crate) fn of<E>(&self, etag: &str, compute: impl FnOnce() -> Result<Vec<u64>, E>) -> Result<Arc<[u64]>, E> {
        let known = self.take(etag);
        let ends = match known {
            Some(ends) => ends,
            None => compute()?.into(),
        };
        self.keep(etag, &ends);
        Ok(ends)
    }

    fn take(&self, etag: &str) -> Option<Arc<[u64]>> {
        let mut files = self.0.lock();
        let at = files.iter().position(|(known, _)| known == etag)?;
        files.remove(at).map(|(_, ends)| ends)
    }

    fn keep(&self, etag: &str, ends: &Arc<[u64]>) {
        let mut files = self.0.lock();
        files.retain(|(known, _)| known != etag);
        files.truncate(FILES - 1);
        files.push_front((etag.to_owned(), Arc::clone(ends)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn ends_are_computed_once_while_the_file_is_among_the_last_ones() {
        let (ends, computed) = (KnownEnds::default(), Cell::new(0));
        let of = |file: u64| {
            let compute = || {
                computed.set(computed.get() + 1);
                Ok::<_, ()>(vec![file, file + 1])
            };
            assert_eq!(ends.of(&file.to_string(), compute).as_deref(), Ok(&[file, file + 1][..]));
            computed.get()
        };
        assert_eq!([of(0), of(0), of(1), of(0)], [1, 1, 2, 2]);
        for file in 2..=FILES as u64 {
            of(file);
        }
        assert_eq!(of(0), FILES + 1, "asked for after the first one");
        assert_eq!(of(1), FILES + 2, "left for the last one");
    }

    #[test]
    fn a_failure_is_not_kept() {
        let ends = KnownEnds::default();
        assert_eq!(ends.of("file", || Err("a disk")).err(), Some("a disk"));
        assert_eq!(ends.of("file", || Ok::<_, ()>(vec![7])).as_deref(), Ok(&[7][..]));
    }
}
