//! Files of a store's folder: their names, and which of them are leftovers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::merge::Run;
use super::state::State;
use crate::error::{Result, io_error};
use crate::folder::{Folder, Layout};

pub(super) const STATE: &str = "STATE";
pub(super) const LAYOUT: Layout = Layout { format: "3", parts: &["segments", "log"] };

pub(super) fn last_file(state: &State) -> u64 {
    state.tables.iter().flat_map(|table| table.runs.iter().flatten()).copied().max().unwrap_or(0)
}

/// Removes segments that the state does not name.
pub(super) fn remove_leftovers(folder: &Folder, state: &State) -> Result<()> {
    let live: BTreeSet<u64> = state.tables.iter().flat_map(|table| table.runs.iter().flatten()).copied().collect();
    for number in numbers(&folder.join("segments"), "seg")? {
        if !live.contains(&number) {
            let path = segment_path(folder, number);
            fs::remove_file(&path).map_err(|source| io_error("remove", &path, source))?;
        }
    }
    Ok(())
}

pub(super) fn remove_logs(folder: &Folder, first: u64) -> Result<()> {
    for number in numbers(&folder.join("log"), "log")? {
        if number < first {
            let path = log_path(folder, number);
            fs::remove_file(&path).map_err(|source| io_error("remove", &path, source))?;
        }
    }
    Ok(())
}

pub(super) fn remove_segments(runs: &[Run]) {
    for segment in runs.iter().flat_map(|run| run.0.iter()) {
        // Whoever still reads it has it open; what stays behind goes when the store is opened.
        let _ = fs::remove_file(segment.path());
    }
}

/// Numbers of the files with an ending in a folder, ascending.
pub(super) fn numbers(folder: &Path, ending: &str) -> Result<Vec<u64>> {
    let failed = |source| io_error("list", folder, source);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        if let Some((number, _)) = parts.filter(|(_, found)| *found == ending) {
            numbers.extend(number.parse::<u64>());
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

pub(super) fn segment_path(folder: &Folder, number: u64) -> PathBuf {
    segment_path_in(folder.path(), number)
}

pub(super) fn segment_path_in(folder: &Path, number: u64) -> PathBuf {
    folder.join("segments").join(format!("{number:08}.seg"))
}

pub(super) fn log_path(folder: &Folder, number: u64) -> PathBuf {
    log_path_in(folder.path(), number)
}

pub(super) fn log_path_in(folder: &Path, number: u64) -> PathBuf {
    folder.join("log").join(format!("{number:08}.log"))
}
