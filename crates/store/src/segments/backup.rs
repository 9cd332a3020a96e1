//! A backup: a second folder with what was published, made beside readers and writers.
//!
//! Segments never change, so they are linked, or copied to another file system. Array files grow, but their published
//! bytes never change, so they are copied range by range while they grow. Meanwhile nobody frees discarded ranges.
//!
//! Invariant: `VERSION` is written last, so a folder that is not whole is not taken for a store.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use super::SegmentStore;
use super::files::{LAYOUT, STATE, log_path_in, segment_path, segment_path_in};
use super::log::LogWriter;
use super::state::State;
use crate::array::state::{self, ArrayState, ArrayStates};
use crate::error::{Error, Result, io_error};
use crate::journal::Due;
use crate::sync::sync_folder;

/// Number of the only log of a backup.
const LOG: u64 = 1;
/// Bytes that are copied between two looks at whether to stop.
const COPY_BYTES: u64 = 16 << 20;

/// A published state, and its segments in the folder of the backup.
struct Checkpoint {
    manifest: Vec<u8>,
    arrays: Vec<u8>,
}

impl SegmentStore {
    /// Writes what is published now into a new folder that [`open`](Self::open) takes, durably, while the store is in
    /// use. `go_on` is asked between pieces of the copy. Returns false if it ended the backup.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder exists or cannot be written, [`Error::Engine`] when nothing was ever published.
    pub fn backup(&self, folder: &Path, go_on: &mut dyn FnMut() -> ControlFlow<()>) -> Result<bool> {
        fs::create_dir_all(folder).map_err(|source| io_error("create", folder, source))?;
        for part in LAYOUT.parts.iter().chain(&["arrays"]) {
            let part = folder.join(part);
            // Whoever has made it may still need what is in it.
            fs::create_dir(&part).map_err(|source| io_error("create", &part, source))?;
        }
        let arrays = &self.shared.arrays;
        let _kept = arrays.keep_discarded();
        let checkpoint = self.checkpoint(folder)?;
        let states = state::decode(&checkpoint.arrays).expect("encoded by this process");
        if copy_arrays(&self.shared.folder.arrays(), &folder.join("arrays"), &states, go_on)?.is_break() {
            return Ok(false);
        }
        let log = log_path_in(folder, LOG);
        LogWriter::create(&log, Some(&checkpoint.manifest), &checkpoint.arrays, &[])?.sync()?;
        for part in LAYOUT.parts.iter().chain(&["arrays"]) {
            sync_folder(&folder.join(part))?;
        }
        let version = folder.join("VERSION");
        fs::write(&version, format!("{}\n", LAYOUT.format))
            .and_then(|()| File::open(&version)?.sync_all())
            .map_err(|source| io_error("write", &version, source))?;
        sync_folder(folder)?;
        Ok(true)
    }

    /// Publishes the manifest again, with all rows in segments and all arrays synced. Nobody else publishes meanwhile.
    fn checkpoint(&self, folder: &Path) -> Result<Checkpoint> {
        let shared = &self.shared;
        let _alone = shared.publishing.lock();
        let manifest = shared.read(|contents| contents.manifest.clone());
        let manifest = manifest.ok_or_else(|| {
            Error::Engine(format!("failed to back up {}: nothing was published yet", shared.folder.path().display()))
        })?;
        shared.arrays.journal().leave_gap();
        let due = shared.arrays.journal().take();
        debug_assert!(matches!(due, Due::Sync(_)));
        if let Err(error) = shared.publish_with(due, &manifest) {
            shared.arrays.journal().failed();
            return Err(error);
        }
        shared.flush_all()?;
        let arrays = shared.writer.lock().array_states.clone();
        // Whoever holds it changes which segments there are.
        let installed = shared.installed.lock();
        let segments = installed.tables.iter().flat_map(|table| table.runs.iter().flatten());
        for number in segments {
            link(&segment_path(&shared.folder, *number), &segment_path_in(folder, *number))?;
        }
        State { first_log: LOG, ..installed.clone() }.write(folder, STATE)?;
        Ok(Checkpoint { manifest, arrays })
    }
}

/// Links a file that never changes, or copies it where that is impossible.
fn link(from: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(io_error("create", to, error)),
        Err(_) => {
            fs::copy(from, to).and_then(|_| File::open(to)?.sync_all()).map_err(|source| io_error("write", to, source))
        }
    }
}

fn copy_arrays(
    from: &Path,
    to: &Path,
    states: &ArrayStates,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    for (name, state) in states {
        let sums = format!("{name}.crc");
        let target = to.join(&sums);
        fs::copy(from.join(&sums), &target)
            .and_then(|_| File::open(&target)?.sync_all())
            .map_err(|source| io_error("write", &target, source))?;
        let target = to.join(name);
        let copied = copy_ranges(&from.join(name), &target, state, go_on);
        if copied.map_err(|source| io_error("write", &target, source))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Copies the written ranges of an array's file. The others stay holes.
fn copy_ranges(
    from: &Path,
    to: &Path,
    state: &ArrayState,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let (mut source, mut target) = (File::open(from)?, File::create_new(to)?);
    target.set_len(state.bytes)?;
    for range in state.written.iter() {
        let mut at = range.start;
        while at < range.end {
            if go_on().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            source.seek(SeekFrom::Start(at))?;
            target.seek(SeekFrom::Start(at))?;
            let wanted = COPY_BYTES.min(range.end - at);
            if io::copy(&mut (&mut source).take(wanted), &mut target)? < wanted {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            at += wanted;
        }
    }
    target.sync_all()?;
    Ok(ControlFlow::Continue(()))
}
