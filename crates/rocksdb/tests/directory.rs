//! Databases that another process left behind, and what is none.

use flott_checkpoint::{AttemptId, SubtaskId};
use flott_rocksdb::{RocksOptions, RocksStores};
use flott_runtime::segment::StateName;
use flott_runtime::state::store::{Change, Space, Stores};
use std::path::Path;

fn stores(directory: &Path) -> RocksStores {
    RocksStores::new(directory, RocksOptions { memory: 16 << 20, ..RocksOptions::default() })
}

const SUBTASK: SubtaskId = SubtaskId { vertex: 2, index: 1 };

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    entries.map(|name| name.into_string().expect("UTF-8")).collect()
}

/// A database under a name of another process, closed without being removed: as after a kill.
fn left_behind(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("attempt-3-1").join("0-0");
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    drop(rocksdb::DB::open(&options, &path).expect("a database"));
    path
}

#[test]
fn a_closed_store_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = stores(directory.path()).open(AttemptId(1), SUBTASK).expect("a database");
    let space = store.create(&StateName::new("operator", "state")).expect("a space");
    assert_eq!(space, Space(0));
    store.write(space, vec![Change::Put(b"key".to_vec(), b"value".to_vec())]).expect("a write");
    assert_eq!(store.get(space, b"key"), Ok(Some(b"value".to_vec())));
    assert_eq!(names(directory.path()).len(), 1);
    drop(store);
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn a_database_that_another_attempt_left_is_not_read_and_goes_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = left_behind(directory.path());
    drop(stores(directory.path()).open(AttemptId(4), SUBTASK).expect("a database"));
    assert!(!path.exists(), "{:?}", names(directory.path()));
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn a_database_of_a_living_process_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = left_behind(directory.path());
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let held = rocksdb::DB::open(&options, &path).expect("a database");
    drop(stores(directory.path()).open(AttemptId(4), SUBTASK).expect("a database"));
    held.put(b"key", b"value").expect("a write");
    assert_eq!(held.get(b"key").expect("a read"), Some(b"value".to_vec()));
}

#[test]
fn what_is_no_database_is_not_touched() {
    let directory = tempfile::tempdir().expect("a directory");
    let foreign = directory.path().join("attempt-3-1").join("0-0");
    std::fs::create_dir_all(&foreign).expect("a directory");
    std::fs::write(foreign.join("000001.log"), "mine").expect("a file");
    std::fs::write(left_behind(&directory.path().join("photos")).join("CURRENT"), "mine too").expect("a file");
    drop(stores(directory.path()).open(AttemptId(4), SUBTASK).expect("a database"));
    assert_eq!(std::fs::read_to_string(foreign.join("000001.log")).expect("still there"), "mine");
    assert!(directory.path().join("photos/attempt-3-1/0-0/CURRENT").exists());
}

#[test]
fn a_directory_that_cannot_be_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let Err(error) = stores(&file).open(AttemptId(1), SUBTASK) else { panic!("a database in a file") };
    assert!(error.0.contains("file") && error.0.contains("--work-dir"), "{}", error.0);
}

/// The process was killed within a restore: the file was written and not yet taken.
#[test]
fn a_load_that_was_cut_off_goes_away_with_its_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = left_behind(directory.path());
    std::fs::write(path.join("9000000000000000000.sst"), "half of it").expect("a file");
    drop(stores(directory.path()).open(AttemptId(4), SUBTASK).expect("a database"));
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn what_is_loaded_is_there_and_a_later_load_or_write_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = stores(directory.path()).open(AttemptId(1), SUBTASK).expect("a database");
    let space = store.create(&StateName::new("operator", "state")).expect("a space");
    let load = |pairs: &[(&[u8], &[u8])]| store.load(space, &mut pairs.iter().copied()).expect("a load");
    load(&[(b"a", b"1"), (b"c", b"1")]);
    store.write(space, vec![Change::Put(b"a".to_vec(), b"2".to_vec())]).expect("a write");
    load(&[(b"b", b"3"), (b"c", b"3")]);
    let value = |key: &[u8]| store.get(space, key).expect("a read");
    assert_eq!([value(b"a"), value(b"b"), value(b"c")], [b"2", b"3", b"3"].map(|value| Some(value.to_vec())));
    drop(store);
    assert_eq!(names(directory.path()), Vec::<String>::new());
}
