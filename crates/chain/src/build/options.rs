//! Bounds of a build, and its result.

use std::path::PathBuf;

/// The smallest generation before the last one, as a part of the first.
const SPOOL_PARTS_MAX: u64 = 8;

/// Resources that a build may use.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// A folder for temporary files. Files of an earlier build in it are resumed or removed.
    pub temp_dir: PathBuf,
    /// Threads that read, hash and sort.
    pub threads: usize,
    /// Bytes of memory beyond the file cache.
    pub memory_bytes: u64,
    /// Bytes of temporary disk for the records of the first generation. Later ones take what the sorted files of all
    /// generations will take.
    pub temp_bytes: u64,
    /// Transactions whose rows are written before those of the whole chain, so that they answer early, in percent of
    /// the chain's. They cost about as many percent of the CPU time, and disk; 0 writes none. Nothing answers early
    /// where one generation holds the chain.
    pub early_percent: u32,
    /// Only the last generation ends within this many blocks of the tip, because a reorg may replace them.
    pub reorg_blocks: u32,
}

impl BuildOptions {
    /// The usual [`BuildOptions::early_percent`]: 0.05, 0.2 and 0.75 percent of the chain.
    pub const EARLY_PERCENT: u32 = 1;
    /// The usual [`BuildOptions::reorg_blocks`].
    pub const REORG_BLOCKS: u32 = 1000;

    /// Modest options: two threads, 64 MiB of memory, 1 GiB of temporary disk.
    pub fn modest(temp_dir: impl Into<PathBuf>) -> Self {
        Self {
            temp_dir: temp_dir.into(),
            threads: 2,
            memory_bytes: 64 << 20,
            temp_bytes: 1 << 30,
            early_percent: Self::EARLY_PERCENT,
            reorg_blocks: Self::REORG_BLOCKS,
        }
    }

    /// The bytes of records that one generation may spool: sorting it must keep within the bound on memory. A later
    /// generation spools about as much as the files that are still to come, so that its records and the files before it
    /// take no more disk than the files of all generations will; but an eighth of the bound at least, for few
    /// generations.
    pub(crate) fn spool_bytes_max(&self, partitions: usize, to_come: Option<u64>) -> u64 {
        let sortable = self.memory_bytes / 2 / self.threads as u64 * partitions as u64;
        let bound = self.temp_bytes.min(sortable);
        to_come.map_or(bound, |bytes| bytes.clamp(bound / SPOOL_PARTS_MAX, sortable))
    }

    /// The threads that may sort partitions of this size together within the bound on memory; at least one.
    pub(super) fn threads_sorting(&self, partition_bytes: u64) -> usize {
        let fit = self.memory_bytes / 2 / partition_bytes.max(1);
        usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, self.threads)
    }
}

/// Counts of a finished build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildReport {
    /// Blocks indexed.
    pub blocks: u64,
    /// Transactions in these blocks.
    pub txs: u64,
    /// Distinct scripts.
    pub scripts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_runs_take_little_more_disk_than_the_runs_alone() {
        /// Bytes of the chain's records, and of the runs that a record becomes, in parts of a hundred.
        const RECORDS: u64 = 1_000_000;
        const RUN_PERCENT: u64 = 30;
        let options = BuildOptions { temp_bytes: RECORDS / 12, memory_bytes: 1 << 40, ..BuildOptions::modest("") };
        let (mut done, mut most, mut generations) = (0, 0, 0);
        while done < RECORDS {
            let runs = done * RUN_PERCENT / 100;
            let to_come = (done > 0).then(|| (RECORDS - done) * RUN_PERCENT / 100);
            let spool = options.spool_bytes_max(256, to_come).min(RECORDS - done);
            most = most.max(runs + spool);
            (done, generations) = (done + spool, generations + 1);
        }
        // With generations of one size the most was 375 000, and there were 12.
        assert!(most <= 310_000 && generations <= 14, "{most} bytes in {generations} generations");
    }

    #[test]
    fn sorting_a_generation_keeps_within_the_bound_on_memory() {
        let options = BuildOptions { temp_bytes: u64::MAX, memory_bytes: 1 << 20, ..BuildOptions::modest("") };
        assert_eq!(options.spool_bytes_max(256, None), 256 << 18);
        assert_eq!(options.spool_bytes_max(256, Some(u64::MAX)), 256 << 18);
        assert_eq!(options.spool_bytes_max(256, Some(0)), 256 << 15);
    }
}
