//! One database for each subtask, one column family for each state.

use crate::RocksOptions;
use crate::directory;
use crate::options::{Budget, Share};
use flott_checkpoint::{AttemptId, SubtaskId};
use flott_runtime::state::StateName;
use flott_runtime::state::store::{Change, Space, Store, StoreError, Stores};
use rocksdb::{
    ColumnFamily, DB, IngestExternalFileOptions, Options, ReadOptions, SstFileWriter, WriteBatch, WriteOptions,
};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The file of a load that has not been taken yet. RocksDB removes it with the database, because it has the name of one of its own, and
/// it will never count so far itself.
const LOADED: &str = "9000000000000000000.sst";

/// Stores in RocksDB, below one directory and within one budget of memory.
pub struct RocksStores {
    work_dir: PathBuf,
    budget: Budget,
    cleared: Once,
}

impl RocksStores {
    /// Databases below this directory, which is made when it is needed. What killed processes left in it is cleared then.
    pub fn new(work_dir: impl Into<PathBuf>, options: RocksOptions) -> RocksStores {
        RocksStores { work_dir: work_dir.into(), budget: Budget::new(options), cleared: Once::new() }
    }
}

impl Stores for RocksStores {
    fn open(&self, attempt: AttemptId, subtask: SubtaskId) -> Result<Box<dyn Store>, StoreError> {
        self.cleared.call_once(|| directory::clear_left_behind(&self.work_dir));
        let path = directory::of(&self.work_dir, attempt, subtask);
        // A process with this number may have run this attempt before.
        directory::remove(&path);
        let options = self.budget.options();
        let database = DB::open(&options, &path).map_err(|error| {
            let (path, error) = (path.display(), error.into_string());
            StoreError(format!(
                "cannot make a RocksDB database in {path}: {error}; see that the directory can be written and has room, or name \
                 another one with --work-dir"
            ))
        })?;
        let mut write = WriteOptions::default();
        write.disable_wal(true);
        Ok(Box::new(RocksStore {
            open: RefCell::new(Some(Open { database, families: Vec::new() })),
            options,
            write,
            path,
            memory: self.budget.share(),
        }))
    }
}

struct Open {
    database: DB,
    /// Names of the column families, by space.
    families: Vec<String>,
}

impl Open {
    fn family(&self, space: Space) -> &ColumnFamily {
        let name = self.families.get(usize::from(space.0)).expect("a space that this store has made");
        self.database.cf_handle(name).expect("a family that this store has made")
    }
}

struct RocksStore {
    /// Always there, until this is dropped.
    open: RefCell<Option<Open>>,
    options: Options,
    write: WriteOptions,
    path: PathBuf,
    memory: Share,
}

impl RocksStore {
    fn with<R>(&self, act: impl FnOnce(&Open) -> Result<R, rocksdb::Error>) -> Result<R, StoreError> {
        let open = self.open.borrow();
        act(open.as_ref().expect("open until it is dropped")).map_err(|error| failed(&self.path, error))
    }
}

impl RocksStore {
    /// The iterator lives as long as the call: one that stays open would hold memtables and files that are gone.
    fn iterate(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        mut read: ReadOptions,
    ) -> Result<(), StoreError> {
        self.with(|open| {
            read.set_iterate_upper_bound(until);
            let mut iterator = open.database.raw_iterator_cf_opt(open.family(space), read);
            iterator.seek(from);
            while let Some((key, value)) = iterator.item() {
                if !look(key, value) {
                    break;
                }
                iterator.next();
            }
            iterator.status()
        })
    }
}

fn failed(path: &Path, error: rocksdb::Error) -> StoreError {
    StoreError(format!("RocksDB in {}: {}; see that its disk has room and works", path.display(), error.into_string()))
}

impl Store for RocksStore {
    fn memory(&self) -> usize {
        self.memory.bytes()
    }

    fn create(&self, name: &StateName) -> Result<Space, StoreError> {
        let mut open = self.open.borrow_mut();
        let open = open.as_mut().expect("open until it is dropped");
        let space = u16::try_from(open.families.len()).map_err(|_| StoreError("more than 65,535 states".to_owned()))?;
        let family = name.to_string();
        open.database.create_cf(&family, &self.options).map_err(|error| failed(&self.path, error))?;
        open.families.push(family);
        Ok(Space(space))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|open| Ok(open.database.get_pinned_cf(open.family(space), key)?.map(|value| value.to_vec())))
    }

    fn write(&self, space: Space, changes: Vec<Change>) -> Result<(), StoreError> {
        self.with(|open| {
            let family = open.family(space);
            let mut batch = WriteBatch::default();
            for change in changes {
                match change {
                    Change::Put(key, value) => batch.put_cf(family, key, value),
                    Change::Delete(key) => batch.delete_cf(family, key),
                }
            }
            open.database.write_opt(batch, &self.write)
        })
    }

    /// As a file that RocksDB takes as it is, with neither log nor memtable: what is in nobody's way goes straight to the lowest
    /// level, and no compaction touches it again.
    fn load<'a>(&self, space: Space, sorted: &mut dyn Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), StoreError> {
        self.with(|open| {
            let file = self.path.join(LOADED);
            let mut writer = SstFileWriter::create(&self.options);
            writer.open(&file)?;
            for (key, value) in sorted {
                writer.put(key, value)?;
            }
            writer.finish()?;
            let mut ingest = IngestExternalFileOptions::default();
            ingest.set_move_files(true);
            open.database.ingest_external_file_cf_opts(open.family(space), &ingest, vec![file])
        })
    }

    fn remove_range(&self, space: Space, from: &[u8], until: &[u8]) -> Result<(), StoreError> {
        if from >= until {
            return Ok(());
        }
        self.with(|open| open.database.delete_range_cf_opt(open.family(space), from, until, &self.write))
    }

    fn visit(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.iterate(space, from, until, look, ReadOptions::default())
    }

    fn scan(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut read = ReadOptions::default();
        read.fill_cache(false);
        self.iterate(space, from, until, look, read)
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        drop(self.open.take());
        directory::remove(&self.path);
    }
}
