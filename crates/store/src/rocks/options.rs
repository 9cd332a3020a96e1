//! Settings of the engine, and the reason for each.
//!
//! The figures in comments come from one bench of 15 to 22 million rows on two shared cores.

use std::sync::OnceLock;

use parking_lot::Mutex;
use rust_rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, IngestExternalFileOptions, LogLevel, Options,
    SliceTransform,
};

use crate::table::Table;

/// Bits per partition in filters: one lookup in a hundred of an absent partition costs a read.
const FILTER_BITS: f64 = 10.0;
/// Bytes of a block. Lookups are single and random, so the rest of a block is read, verified and cached for nothing.
/// With 16 KiB a wallet with a cold cache took a tenth longer; with 4 KiB an index of 8 million transactions is 0.8 %
/// larger.
const BLOCK_BYTES: usize = 4 << 10;
/// Bytes of a partition of index and filter. A cold lookup reads one of each. Whole index and filter blocks of a 64 MiB
/// file cost a cold lookup 640 us in a small cache, partitions 90 us.
const METADATA_BLOCK_BYTES: usize = 4096;
/// Part of the memtable that its filter takes.
const MEMTABLE_FILTER_RATIO: f64 = 0.02;
/// Target size of a table file, in bytes.
const TABLE_FILE_BYTES: u64 = 64 << 20;

/// Settings of an operator.
#[derive(Debug, Clone)]
pub struct RocksOptions {
    /// Bytes of the block cache. All tables share it; it holds index and filter blocks too.
    pub cache_bytes: usize,
    /// Bytes of all memtables together: rows that are in no table file yet.
    pub write_buffer_bytes: usize,
    /// Number of table files kept open.
    pub open_files: i32,
    /// Number of threads that flush and compact.
    pub background_jobs: i32,
    /// Bytes at which a bulk run begins a new file.
    pub bulk_file_bytes: u64,
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            write_buffer_bytes: 64 << 20,
            open_files: 512,
            background_jobs: 2,
            bulk_file_bytes: TABLE_FILE_BYTES,
        }
    }
}

/// Returns the settings of the whole database.
pub(super) fn database(options: &RocksOptions) -> Options {
    let mut database = Options::default();
    // Preallocated log files would add 40 MB to the folder of a small index.
    database.set_allow_fallocate(false);
    database.create_if_missing(true);
    database.create_missing_column_families(true);
    database.set_paranoid_checks(true);
    database.set_max_open_files(options.open_files);
    database.set_max_background_jobs(options.background_jobs);
    database.set_db_write_buffer_size(options.write_buffer_bytes);
    // A kill leaves this much log to replay: opening with 256 MiB took 6 s.
    database.set_max_total_wal_size(options.write_buffer_bytes as u64);
    database.set_bytes_per_sync(1 << 20);
    database.set_log_level(LogLevel::Warn);
    database.set_keep_log_file_num(2);
    database.set_max_log_file_size(1 << 20);
    database.set_stats_dump_period_sec(0);
    database.set_stats_persist_period_sec(0);
    database
}

/// Returns the settings of one table in an open database.
pub(super) fn family(table: Table, options: &RocksOptions, cache: &Cache) -> Options {
    let mut family = table_options(table, cache);
    family.set_write_buffer_size(options.write_buffer_bytes / 2);
    family.set_max_write_buffer_number(3);
    // A lookup searches every run: level 0 keeps few.
    family.set_level_zero_file_num_compaction_trigger(2);
    family.set_target_file_size_base(TABLE_FILE_BYTES);
    family.set_memtable_prefix_bloom_ratio(MEMTABLE_FILTER_RATIO);
    family.set_memtable_whole_key_filtering(table.partition_bytes == 0);
    family
}

/// Returns the settings of table files that a bulk run writes.
///
/// A writer borrows its settings for its whole life, and runs outlive the call that opens them. The settings of each
/// kind of table are therefore leaked, once a process.
pub(super) fn bulk(table: Table) -> &'static Options {
    type Kind = (usize, bool);
    static KINDS: Mutex<Vec<(Kind, &'static Options)>> = Mutex::new(Vec::new());
    static CACHE: OnceLock<Cache> = OnceLock::new();

    let kind = (table.partition_bytes, table.compress);
    let mut kinds = KINDS.lock();
    if let Some((_, options)) = kinds.iter().find(|(known, _)| *known == kind) {
        return options;
    }
    // A writer reads nothing back, but needs a cache.
    let cache = CACHE.get_or_init(|| Cache::new_lru_cache(1 << 20));
    let mut options = table_options(table, cache);
    options.set_bytes_per_sync(1 << 20);
    let options: &'static Options = Box::leak(Box::new(options));
    kinds.push((kind, options));
    options
}

/// Returns the settings for loading files written beside the database: they are moved and not copied.
pub(super) fn ingest() -> IngestExternalFileOptions {
    let mut ingest = IngestExternalFileOptions::default();
    ingest.set_move_files(true);
    ingest
}

/// Returns the settings of the files of a table, for every writer.
fn table_options(table: Table, cache: &Cache) -> Options {
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks(table, cache));
    if table.partition_bytes > 0 {
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(table.partition_bytes));
    }
    if table.compress {
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
    } else {
        options.set_compression_type(DBCompressionType::None);
        options.set_bottommost_compression_type(DBCompressionType::None);
    }
    options
}

/// Returns the layout of blocks, index and filters.
fn blocks(table: Table, cache: &Cache) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_format_version(6);
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_block_cache(cache);
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_metadata_block_size(METADATA_BLOCK_BYTES);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // Lookups in a table without partitions ask for keys that exist. In a table with partitions, lookups of single keys
    // ask the filter on partitions too; a second filter on whole keys would cost the same number of bits for every row.
    if table.partition_bytes > 0 {
        blocks.set_bloom_filter(FILTER_BITS, false);
        blocks.set_partition_filters(true);
    }
    blocks.set_whole_key_filtering(false);
    blocks
}
