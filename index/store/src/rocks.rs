//! The only file that names RocksDB: how it is opened, how it reads and writes, what its errors mean.
//!
//! Quirks of RocksDB 11 and its binding that this package works around; each has a test:
//! - An error is a string. Its kind is a prefix, the system's reason is the end.
//! - The lock on a directory belongs to the process *and the path as spelled*: opening one directory in one process by
//!   two paths succeeds. So paths are made canonical first. Closing any other descriptor of the file `LOCK` drops the
//!   lock, so nothing here opens that file.
//! - Creating a database next to data files without `CURRENT` deletes or replays them.
//! - Creating families is not atomic with creating the database.
//! - A range deletion with its ends swapped fails after it was logged, and the database refuses writes from then on.
//! - A write batch drops a key or value of 4 GiB or more without saying so.
//! - An iterator that failed looks like one that ended, until its status is asked.
//! - A manual compaction reports nothing.
//! - A family named twice on opening leaks a handle.

use std::path::Path;

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily, ColumnFamilyDescriptor,
    CompactOptions, DBCompressionType, DBIteratorWithThreadMode, DBRecoveryMode, DBWithThreadMode, Direction,
    Error, ErrorKind, IteratorMode, LogLevel, Options, ReadOptions, SingleThreaded, SnapshotWithThreadMode,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};

use crate::batch::ChangeRef;
use crate::engine::{Cause, Trouble};
use crate::{Batch, Family, Holder, Row, directory, lock_holders};

/// A database whose families are fixed when it is opened.
pub(crate) type Database = DBWithThreadMode<SingleThreaded>;
pub(crate) type Snapshot<'a> = SnapshotWithThreadMode<'a, Database>;
pub(crate) type Rows<'a> = DBIteratorWithThreadMode<'a, Database>;

/// The family every RocksDB database has; a store keeps nothing in it.
const DEFAULT_FAMILY: &str = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;

/// Recent writes of all families together, before they become table files. A server keeps several collections open, and
/// 64 MiB is still large against the batches it commits.
const WRITE_BUFFER_BYTES: usize = 64 * 1024 * 1024;

/// Table blocks kept decompressed, for all families together. The engine holds vectors and columns in memory itself;
/// what it reads again and again from here are payloads of hits, which are small.
const BLOCK_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Table files kept open. Four open collections fit the usual limit of 1024 descriptors per process.
const OPEN_FILES_MAX: i32 = 256;

/// The log is replayed on opening, at roughly 100 MB/s; without this limit a family that is rarely written keeps
/// gigabytes of it alive.
const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// RocksDB starts a new text log whenever it opens a database. The last few are enough to explain a failure.
const INFO_LOGS_KEPT: usize = 4;

/// At level "warn" a text log is short; the limit is for a disk that complains without end.
const INFO_LOG_BYTES_MAX: usize = 1024 * 1024;

/// Bits per key at which a lookup of an absent key reads a table file in vain one time in a hundred.
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// One flush and one compaction at a time: the smallest machine has two cores, and searches need them.
const BACKGROUND_JOBS: i32 = 2;

/// Whether opening makes a new database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// There must be none.
    Create,
    /// There may be one that lacks families.
    Complete,
    /// There must be one.
    Open,
}

pub(crate) fn open(path: &Path, families: &[Family], mode: Mode) -> Result<Database, Trouble> {
    open_named(path, families.iter().map(|family| family.name()), mode)
}

/// Who has the database at `path` open, if anybody. Changes nothing: the database is refused for being there, and
/// before that for being locked.
pub(crate) fn holder(path: &Path) -> Option<Holder> {
    match open_named(path, [].into_iter(), Mode::Create).err()?.cause {
        Cause::InUse(holder) => Some(holder),
        Cause::Denied
        | Cause::Corrupt
        | Cause::FileMissing
        | Cause::AlreadyExists
        | Cause::Mismatch
        | Cause::Other => None,
    }
}

/// Whether nothing was ever written to the database at `path`, which must have exactly the families `names`.
pub(crate) fn is_blank(path: &Path, names: &[String]) -> Result<bool, Trouble> {
    let database = open_named(path, names.iter().map(String::as_str), Mode::Open)?;
    Ok(database.latest_sequence_number() == 0)
}

fn open_named<'a>(
    path: &Path,
    names: impl Iterator<Item = &'a str>,
    mode: Mode,
) -> Result<Database, Trouble> {
    let mut options = options();
    options.create_if_missing(mode != Mode::Open);
    options.create_missing_column_families(mode != Mode::Open);
    options.set_error_if_exists(mode == Mode::Create);
    let mut names: Vec<&str> = names.chain([DEFAULT_FAMILY]).collect();
    names.sort_unstable();
    names.dedup();
    let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
    Database::open_cf_descriptors(&options, path, families.collect::<Vec<_>>()).map_err(|error| {
        let mut trouble = Trouble::from(error);
        if trouble.cause == Cause::InUse(Holder::AnotherProcess)
            && let Some(&process) = lock_holders(&path.join("LOCK")).first()
        {
            trouble.cause = Cause::InUse(Holder::Process(process));
        }
        trouble
    })
}

/// The families of the database at `path`, whether or not somebody has it open.
pub(crate) fn family_names(path: &Path) -> Result<Vec<String>, Trouble> {
    let mut names = Database::list_cf(&Options::default(), path)?;
    names.retain(|name| name != DEFAULT_FAMILY);
    Ok(names)
}

/// One set of options for the database and all its families; they share its write buffer and its cache.
fn options() -> Options {
    let mut options = Options::default();
    options.set_paranoid_checks(true);
    // A torn tail is a commit that was not acknowledged. Whatever follows a hole in the log is not replayed either, so
    // that what is there after a crash is a prefix of the commits.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    // A log in the place of an older one would end in what is left of that, which no check could tell from damage.
    options.set_recycle_log_file_num(0);
    options.set_max_total_wal_size(LOG_BYTES_MAX);
    options.set_db_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_open_files(OPEN_FILES_MAX);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(INFO_LOGS_KEPT);
    options.set_max_log_file_size(INFO_LOG_BYTES_MAX);
    // Nobody reads the statistics that RocksDB would otherwise gather on a timer.
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    // LZ4 costs next to nothing where data is rewritten often; most of it ends up in the last level,
    // where zstd halves it.
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    options.set_block_based_table_factory(&table_options());
    options
}

fn table_options() -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    // Indexes and filters count against the cache, or memory would grow with the number of table files.
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    table
}

/// Reads of the newest commit, or of the moment of `snapshot`.
pub(crate) fn read_options(snapshot: Option<&Snapshot<'_>>) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    if let Some(snapshot) = snapshot {
        options.set_snapshot(snapshot);
    }
    options
}

fn handle(database: &Database, family: Family) -> Result<&ColumnFamily, Trouble> {
    let handle = database.cf_handle(family.name());
    handle.ok_or_else(|| Trouble::new(Cause::Mismatch, format!("there is no family {family}")))
}

pub(crate) fn get(
    database: &Database,
    family: Family,
    key: &[u8],
    snapshot: Option<&Snapshot<'_>>,
) -> Result<Option<Vec<u8>>, Trouble> {
    Ok(database.get_cf_opt(handle(database, family)?, key, &read_options(snapshot))?)
}

/// The values of `keys`, in their order, all of one moment.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    database: &Database,
    family: Family,
    keys: &[K],
    snapshot: Option<&Snapshot<'_>>,
) -> Result<Vec<Option<Vec<u8>>>, Trouble> {
    let handle = handle(database, family)?;
    let values = database.batched_multi_get_cf_opt(handle, keys, false, &read_options(snapshot));
    values.into_iter().map(|value| Ok(value?.map(|bytes| bytes.to_vec()))).collect()
}

pub(crate) fn rows<'a>(
    database: &'a Database,
    family: Family,
    from: &[u8],
    to: Option<&[u8]>,
    snapshot: Option<&Snapshot<'_>>,
) -> Result<Rows<'a>, Trouble> {
    let handle = handle(database, family)?;
    let mut options = read_options(snapshot);
    if let Some(to) = to {
        options.set_iterate_upper_bound(to);
    }
    Ok(database.iterator_cf_opt(handle, options, IteratorMode::From(from, Direction::Forward)))
}

pub(crate) fn next_row(rows: &mut Rows<'_>) -> Option<Result<Row, Trouble>> {
    Some(rows.next()?.map_err(Trouble::from))
}

pub(crate) fn write(database: &Database, batch: Batch, synced: bool) -> Result<(), Trouble> {
    let mut writes = WriteBatch::with_capacity_bytes(batch.bytes());
    for change in batch.iter() {
        let handle = handle(database, change.family())?;
        match change {
            ChangeRef::Put { key, value, .. } => writes.put_cf(handle, key, value),
            ChangeRef::Delete { key, .. } => writes.delete_cf(handle, key),
            ChangeRef::DeleteRange { from, to, .. } => writes.delete_range_cf(handle, from, to),
        }
    }
    // It is in memory twice more below.
    drop(batch);
    let mut options = WriteOptions::default();
    options.set_sync(synced);
    Ok(database.write_opt(writes, &options)?)
}

pub(crate) fn sync_log(database: &Database) -> Result<(), Trouble> {
    Ok(database.flush_wal(true)?)
}

pub(crate) fn checkpoint(database: &Database, into: &Path) -> Result<(), Trouble> {
    Ok(Checkpoint::new(database)?.create_checkpoint(into)?)
}

/// Rewrites each family into its last level, without what was deleted or replaced.
pub(crate) fn compact(database: &Database, families: &[Family]) -> Result<(), Trouble> {
    let mut options = CompactOptions::default();
    options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    for handle in families.iter().filter_map(|family| database.cf_handle(family.name())) {
        database.flush_cf(handle)?;
        database.compact_range_cf_opt(handle, None::<&[u8]>, None::<&[u8]>, &options);
    }
    // The call above has no result; a compaction that failed leaves an error that this one returns.
    Ok(database.wait_for_compact(&WaitForCompactOptions::default())?)
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let cause = cause(&error);
        let text = error.into_string();
        let (file, offset) = place(&text).map_or((None, None), |(file, offset)| (Some(file), offset));
        Trouble { cause, text, file, offset }
    }
}

/// The file that a message names by its path, and where in it. A folder above may be called anything, so only names of
/// files that RocksDB makes count.
fn place(text: &str) -> Option<(String, Option<u64>)> {
    let number = |text: &str| -> Option<u64> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse().ok()
    };
    let named = text.match_indices('/').find_map(|(at, _)| {
        let tail = &text[at + 1..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let name = tail[..tail.bytes().take_while(|byte| is_name(byte)).count()].trim_end_matches('.');
        if !directory::is_store_file(name) {
            return None;
        }
        let offset = tail[name.len()..].split_once("offset ").and_then(|(_, rest)| number(rest));
        Some((name.to_owned(), offset))
    });
    // A log that is lost or of another length than the MANIFEST has it is told by its number alone.
    let by_number = || number(text.split_once("log number: ")?.1).map(|log| (format!("{log:06}.log"), None));
    named.or_else(by_number)
}

/// Reads the text of an error. The path in its middle may say anything, so only its two ends are looked at.
fn cause(error: &Error) -> Cause {
    let text: &str = error.as_ref();
    let kind = error.kind();
    if kind == ErrorKind::Corruption {
        return Cause::Corrupt;
    }
    if kind == ErrorKind::InvalidArgument {
        let exists = text.ends_with("(error_if_exists is true)") || text.ends_with("Directory exists");
        return if exists { Cause::AlreadyExists } else { Cause::Mismatch };
    }
    if text.starts_with("IO error: lock hold by current process") {
        return Cause::InUse(Holder::ThisProcess);
    }
    // A file system without locks is not a lock that somebody holds.
    if text.starts_with("IO error: While lock file") && !text.ends_with("No locks available") {
        return Cause::InUse(Holder::AnotherProcess);
    }
    let denials = ["Permission denied", "Read-only file system", "Operation not permitted"];
    if denials.iter().any(|denial| text.ends_with(denial)) {
        return Cause::Denied;
    }
    if text.starts_with("IO error: No such file or directory") {
        return Cause::FileMissing;
    }
    Cause::Other
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn message_names_a_file_of_the_store_and_where_in_it() {
        for (text, found) in [
            (
                "Corruption: block checksum mismatch: stored = 1  in /a.sst/b/000012.sst offset 70 size 9",
                Some(("000012.sst", Some(70))),
            ),
            (
                "IO error: No such file or directory: While open a file: /a/000008.sst: No such",
                Some(("000008.sst", None)),
            ),
            (
                "Corruption: bad  The file /a b/MANIFEST-000005 may be corrupted.",
                Some(("MANIFEST-000005", None)),
            ),
            ("Corruption: Missing WAL with log number: 5.", Some(("000005.log", None))),
            ("Corruption: in /my-data/000012.sst.copy and /LOCKED/x-000005", None),
            ("IO error: offset 7", None),
        ] {
            let found = found.map(|(name, offset): (&str, Option<u64>)| (name.to_owned(), offset));
            assert_eq!(place(text), found, "{text}");
        }
    }
}
