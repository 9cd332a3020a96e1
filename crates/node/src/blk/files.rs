//! Unverified bytes of the block files, read over handles that stay open, and the positions that scans have found.
//!
//! Callers compare hashes and checksums.

use std::fs::File;
use std::io;

use birdhouse_chain::source::{FilePosition, SourceResult};
use bitcoin::BlockHash;
use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::error::{transient, unreadable_blocks};
use crate::record::{RECORD_HEADER, RECORD_HEADER_BYTES, ReadAt};

use super::folder::Folder;
use super::handles::Handles;
use super::known::Known;
use super::scan::{HEADER_BYTES, header_hash};

/// Bytes of `magic | size | header`, which identify the block at a position.
const RECORD_AND_HEADER_BYTES: usize = RECORD_HEADER_BYTES + HEADER_BYTES;

/// The files of one folder, open for reading.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) folder: Folder,
    pub(super) handles: Handles,
    known: Mutex<Known>,
}

impl Files {
    /// Returns the files of `folder`. It scans none yet.
    pub(super) fn new(folder: Folder) -> Self {
        Self { folder, handles: Handles::default(), known: Mutex::default() }
    }

    /// Calls `work` with exclusive access to the scanned positions.
    pub(super) fn known<T>(&self, work: impl FnOnce(&mut Known) -> SourceResult<T>) -> SourceResult<T> {
        work(&mut self.known.lock())
    }

    /// Returns the size of the block at a position; `None` when another block, or none, lies there.
    pub(super) fn size_at(&self, hash: BlockHash, position: FilePosition) -> SourceResult<Option<u32>> {
        let Some(start) = u64::from(position.offset).checked_sub(RECORD_HEADER) else {
            return Ok(None);
        };
        let mut head = [0; RECORD_AND_HEADER_BYTES];
        let n = match self.read_at(position.file, start, &mut head) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| unreadable_blocks(&self.folder.blk_path(position.file), &e))?,
        };
        let ([_, _, _, _, s0, s1, s2, s3], header) = head
            .split_first_chunk()
            .map_or(([0; 8], None), |(first, rest)| (*first, rest.first_chunk::<HEADER_BYTES>()));
        let there = n == head.len() && header.is_some_and(|header| header_hash(header) == hash);
        Ok(there.then(|| u32::from_le_bytes([s0, s1, s2, s3])))
    }

    /// Reads de-obfuscated bytes of a block file and returns their number, over a handle that stays open.
    pub(super) fn read_at(&self, file: u32, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let handle = self.handles.get(file, || File::open(self.folder.blk_path(file)))?;
        let n = ReadAt::read_at(&*handle, offset, buf)?;
        self.folder.key.apply(offset, &mut buf[..n]);
        Ok(n)
    }

    /// Reads up to `len` de-obfuscated bytes; fewer only where the file ends. The buffer is not zeroed before, which
    /// costs more for a block than to parse it.
    fn read_new(&self, file: u32, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        let handle = self.handles.get(file, || File::open(self.folder.blk_path(file)))?;
        let len = len as usize;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&*handle, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        bytes.truncate(len);
        self.folder.key.apply(offset, &mut bytes);
        Ok(bytes)
    }

    /// Returns bytes of the block at a position; `None` when the file ends before.
    pub(super) fn part(&self, position: FilePosition, offset: u32, len: u32) -> io::Result<Option<Vec<u8>>> {
        let part = self.read_new(position.file, u64::from(position.offset) + u64::from(offset), len)?;
        Ok((part.len() == len as usize).then_some(part))
    }

    /// Returns the whole block of `size` bytes at a position.
    pub(super) fn body(&self, position: FilePosition, size: u32) -> SourceResult<Vec<u8>> {
        let path = self.folder.blk_path(position.file);
        let block = self.read_new(position.file, u64::from(position.offset), size);
        let block = block.map_err(|e| unreadable_blocks(&path, &e))?;
        if block.len() < size as usize {
            return Err(transient(format!(
                "failed to read {}: it ends inside a block; the node is still writing it",
                path.display()
            )));
        }
        Ok(block)
    }
}
