//! Bounds of a build, and its result.

use std::path::PathBuf;

/// Resources that a build may use.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// A folder for temporary files. Files of an earlier build in it are resumed or removed.
    pub temp_dir: PathBuf,
    /// Threads that read, hash and sort.
    pub threads: usize,
    /// Bytes of memory beyond the file cache.
    pub memory_bytes: u64,
    /// Bytes of temporary disk for the records of one generation.
    pub temp_bytes: u64,
    /// Only the last generation ends within this many blocks of the tip, because a reorg may replace them.
    pub reorg_blocks: u32,
}

impl BuildOptions {
    /// The usual [`BuildOptions::reorg_blocks`].
    pub const REORG_BLOCKS: u32 = 1000;

    /// Modest options: two threads, 64 MiB of memory, 1 GiB of temporary disk.
    pub fn modest(temp_dir: impl Into<PathBuf>) -> Self {
        Self {
            temp_dir: temp_dir.into(),
            threads: 2,
            memory_bytes: 64 << 20,
            temp_bytes: 1 << 30,
            reorg_blocks: Self::REORG_BLOCKS,
        }
    }

    /// The bytes that one generation may spool: sorting it must keep within the bound on memory.
    pub(crate) fn spool_bytes_max(&self, partitions: usize) -> u64 {
        let per_thread = self.memory_bytes / 2 / self.threads as u64;
        self.temp_bytes.min(per_thread * partitions as u64)
    }

    /// The threads that may sort partitions of this size together within the bound on memory; at least one.
    pub(crate) fn threads_sorting(&self, partition_bytes: u64) -> usize {
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
