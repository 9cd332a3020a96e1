//! A line of bounded length.

use std::io;

/// A line that takes at most `bytes_max` bytes.
pub(super) struct Line {
    pub(super) bytes: Vec<u8>,
    pub(super) bytes_max: usize,
}

/// The line would exceed its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

impl Line {
    /// Appends bytes.
    pub(super) fn put(&mut self, more: &[u8]) -> Result<(), TooLong> {
        if self.bytes.len() + more.len() > self.bytes_max {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// Reserves room for `bytes` more bytes.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), TooLong> {
        if self.bytes.len().saturating_add(bytes) > self.bytes_max {
            return Err(TooLong);
        }
        self.bytes.reserve(bytes);
        Ok(())
    }
}

impl io::Write for Line {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        self.put(more).map_err(|TooLong| io::ErrorKind::FileTooLarge)?;
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
