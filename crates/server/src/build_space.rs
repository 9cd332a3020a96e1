//! Estimate of the disk space of the first build.

use std::fs;
use std::path::Path;

use crate::config::ProfileName;

/// Bytes of an index for 100 bytes of blocks, by profile: 523 and 267 MB for 2.72 GB (README).
const INDEX_PERCENT: [(ProfileName, u64); 2] = [(ProfileName::Full, 20), (ProfileName::Lean, 10)];
/// Bytes of the records of inputs and outputs for 100 bytes of blocks: 1.13 GB for 2.72 GB (BENCHMARKS).
const RECORDS_PERCENT: u64 = 42;
/// Bytes of sorted runs at the end of the last of several generations, beyond those of the index, for 100 bytes of
/// blocks (BENCHMARKS).
const RUNS_PERCENT: u64 = 5;

/// Disk space of the first build, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuildSpace {
    /// The finished index, in the data folder.
    pub(crate) index: u64,
    /// Temporary files at their peak, in the folder of temporary files.
    pub(crate) temp: u64,
}

impl BuildSpace {
    /// Estimates from the bytes of the block files and the bound on the records of a generation.
    pub(crate) fn estimate(block_bytes: u64, index_percent: u64, temp_max: u64) -> Self {
        let percent = |percent| block_bytes / 100 * percent;
        let records = percent(RECORDS_PERCENT);
        let temp = if records <= temp_max { records } else { temp_max + percent(RUNS_PERCENT) };
        Self { index: percent(index_percent), temp }
    }
}

/// Returns the bytes of an index for 100 bytes of blocks.
pub(crate) fn index_percent(profile: ProfileName) -> u64 {
    INDEX_PERCENT.iter().find(|(name, _)| *name == profile).map_or(0, |(_, percent)| *percent)
}

/// Returns the bytes of the block files in a folder.
pub(crate) fn block_bytes(folder: &Path) -> Option<u64> {
    let is_block_file = |name: &str| name.strip_prefix("blk").is_some_and(|rest| rest.strip_suffix(".dat").is_some());
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_block_file));
    Some(files.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_the_records_or_those_of_a_generation_and_the_runs_of_all() {
        let percent = index_percent(ProfileName::Full);
        assert_eq!(BuildSpace::estimate(1000, percent, 1 << 40), BuildSpace { index: 200, temp: 420 });
        assert_eq!(BuildSpace::estimate(1000, percent, 300), BuildSpace { index: 200, temp: 350 });
    }
}
