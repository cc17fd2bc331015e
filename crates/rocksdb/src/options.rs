//! What can be tuned, and what follows from it for RocksDB.

use rocksdb::{BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, Options, WriteBufferManager};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What can be tuned. The defaults suit a process that has some hundred MiB for its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RocksOptions {
    /// Bytes for all workers of the process together (256 MiB). Entries that are used again are kept in three eighths of it, in front
    /// of RocksDB, with the logs of changed keys; the block cache, with indexes and filters, gets a quarter; memtables get an eighth. The rest is for
    /// what RocksDB takes besides: open files, iterators, compactions.
    pub memory: usize,
    /// Bits per key of the Bloom filters (10): the chance of a read in vain is 1 % with 10, 0.1 % with 15.
    pub filter_bits: u8,
    /// Threads for flushes and compactions, for all workers together (2).
    pub background_threads: u8,
    /// Files that each database may keep open (256). There is one database for each subtask with state.
    pub open_files: u16,
}

impl Default for RocksOptions {
    fn default() -> Self {
        RocksOptions { memory: 256 << 20, filter_bits: 10, background_threads: 2, open_files: 256 }
    }
}

/// A budget below this cannot work: each memtable takes one arena block at least.
const LEAST_MEMORY: usize = 8 << 20;
/// Larger ones are slower to search than what they save in compactions.
const LARGEST_MEMTABLE: usize = 8 << 20;
const SMALLEST_FILE: u64 = 4 << 20;
const LARGEST_FILE: u64 = 64 << 20;

/// The part of the memory that memtables get, and the parts of entries and of blocks.
const MEMTABLES: (usize, usize) = (1, 8);
const ENTRIES: (usize, usize) = (3, 8);
const BLOCKS: (usize, usize) = (1, 4);

fn part(memory: usize, (part, of): (usize, usize)) -> usize {
    memory / of * part
}

/// What the databases of a process share.
pub(crate) struct Budget {
    /// Databases that are open.
    open: Arc<AtomicUsize>,
    cache: Cache,
    memtables: WriteBufferManager,
    options: RocksOptions,
}

impl Budget {
    pub(crate) fn new(options: RocksOptions) -> Budget {
        let memory = options.memory.max(LEAST_MEMORY);
        // Each has its own part. If memtables were charged to the cache, what blocks leave behind would be too scattered for them to
        // take over, and the process would have room for both.
        let memtables = WriteBufferManager::new_write_buffer_manager(part(memory, MEMTABLES), false);
        let cache = Cache::new_lru_cache(part(memory, BLOCKS));
        Budget { open: Arc::default(), cache, memtables, options: RocksOptions { memory, ..options } }
    }

    /// A part of the memory for entries, as long as it is held.
    pub(crate) fn share(&self) -> Share {
        self.open.fetch_add(1, Ordering::Relaxed);
        Share { entries: part(self.options.memory, ENTRIES), open: Arc::clone(&self.open) }
    }

    /// Options of a database that is made anew.
    pub(crate) fn options(&self) -> Options {
        let RocksOptions { memory, filter_bits, background_threads, open_files } = self.options;
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        blocks.set_bloom_filter(f64::from(filter_bits), false);
        blocks.set_cache_index_and_filter_blocks(true);
        // In one piece each, they are megabytes that no small cache can hold: then every look-up reads and checks them anew.
        blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_metadata_block_size(4 << 10);
        blocks.set_pin_top_level_index_and_filter(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_error_if_exists(true);
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_manager(&self.memtables);
        options.set_write_buffer_size(LARGEST_MEMTABLE.min(memory / 8));
        // Every write reads first, and most keys are in no memtable: a search there costs more than the rest of a read.
        options.set_memtable_prefix_bloom_ratio(0.1);
        options.set_memtable_whole_key_filtering(true);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_max_background_jobs(i32::from(background_threads.max(1)));
        // For each file of a compaction, beside the budget: with the 2 MiB of RocksDB many small files take as much as a small budget.
        options.set_compaction_readahead_size(256 << 10);
        // What a compaction gathers for the filter of the file that it writes is in memory, beside the budget, until the file is done.
        options.set_target_file_size_base((memory as u64 / 8).clamp(SMALLEST_FILE, LARGEST_FILE));
        options.set_max_open_files(i32::from(open_files.max(16)));
        options.set_keep_log_file_num(1);
        options.set_stats_dump_period_sec(0);
        options
    }
}

/// The memory for entries is shared in equal parts by the databases that are open.
pub(crate) struct Share {
    entries: usize,
    open: Arc<AtomicUsize>,
}

impl Share {
    /// Bytes, now.
    pub(crate) fn bytes(&self) -> usize {
        self.entries / self.open.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
