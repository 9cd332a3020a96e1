//! Estimate of the disk space of the first build.

use std::fs;
use std::path::Path;

use crate::config::ProfileName;

/// Bytes of an index for 100 bytes of blocks, by profile: 4358 and 2307 MB for 22 GB ("As the chain grows" of
/// BENCHMARKS.md), and a margin.
const INDEX_PERCENT: [(ProfileName, u64); 2] = [(ProfileName::Full, 21), (ProfileName::Lean, 12)];
/// Bytes of the records of inputs and outputs for 100 bytes of blocks: 1.13 GB for the 2.72 GB of 8 million
/// transactions.
const RECORDS_PERCENT: u64 = 42;
/// Bytes of the temporary files of several generations at their peak, for 100 bytes of blocks: 1.5 GB for the 11 GB of
/// 32 million transactions (BENCHMARKS.md).
const FILES_PERCENT: u64 = 15;
/// The peak of several generations, for 100 bytes of the finished index (BENCHMARKS.md).
const PEAK_PERCENT: u64 = 130;

/// Disk space of the first build, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuildSpace {
    /// The finished index, in the data folder.
    pub(crate) index: u64,
    /// Temporary files at their peak, in the folder of temporary files.
    pub(super) temp: u64,
    /// The peak of the index and the temporary files together, which shrink while the index grows.
    pub(crate) peak: u64,
}

impl BuildSpace {
    /// Estimates from the bytes of the block files and the bound on the records of the first generation.
    pub(crate) fn estimate(block_bytes: u64, index_percent: u64, temp_max: u64) -> Self {
        let percent = |percent| block_bytes / 100 * percent;
        let (index, records) = (percent(index_percent), percent(RECORDS_PERCENT));
        if records <= temp_max {
            return Self { index, temp: records, peak: index + records };
        }
        // Half of a full index are the txids, which lie beside the records.
        let peak = (index / 100 * PEAK_PERCENT).max(index / 2 + temp_max);
        Self { index, temp: temp_max.max(percent(FILES_PERCENT)), peak }
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
    fn temporary_files_are_the_records_or_the_sorted_files_of_all_generations() {
        let estimate = |temp_max| BuildSpace::estimate(1000, index_percent(ProfileName::Full), temp_max);
        assert_eq!(estimate(1 << 40), BuildSpace { index: 210, temp: 420, peak: 630 });
        assert_eq!(estimate(300), BuildSpace { index: 210, temp: 300, peak: 405 });
        assert_eq!(estimate(10), BuildSpace { index: 210, temp: 150, peak: 260 });
    }
}
