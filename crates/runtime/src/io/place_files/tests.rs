//! Tests of files in a bucket, over a store in memory: what the file sink and the file source rest on.

use super::PlaceFiles;
use crate::io::Files;
use crate::io::storage::StorageServer;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

fn files() -> PlaceFiles {
    PlaceFiles::with_bucket("s3://b", StorageServer::in_memory())
}

fn put(files: &PlaceFiles, path: &str, text: &str) {
    let mut file = files.create_new(Path::new(path)).expect("created");
    file.write_all(text.as_bytes()).expect("written");
    file.sync().expect("synced");
}

fn get(files: &PlaceFiles, path: &str) -> String {
    let mut file = files.open(Path::new(path)).expect("opened");
    let (mut text, mut buffer) = (Vec::new(), [0; 7]);
    loop {
        match file.read_at(text.len() as u64, &mut buffer).expect("read") {
            0 => return String::from_utf8(text).expect("text"),
            read => text.extend_from_slice(&buffer[..read]),
        }
    }
}

#[track_caller]
fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.map(|_| ()).expect_err("it fails").kind()
}

#[test]
fn a_file_is_no_object_before_it_is_synced() {
    let files = files();
    let path = Path::new("s3://b/out/.part");
    let mut file = files.create_new(path).expect("created");
    assert_eq!(kind(files.create_new(path)), ErrorKind::AlreadyExists);
    file.write_all(b"hello ").expect("written");
    assert_eq!(files.info(path).expect("spooled").length, 6);
    assert_eq!(kind(files.open(path)), ErrorKind::NotFound);
    assert_eq!(files.list(Path::new("s3://b/out")).expect("listed"), Vec::<String>::new());
    file.write_all(b"world").expect("written");
    // Closed before it is synced, as a part that is full.
    drop(file);
    files.sync_file(path).expect("synced");
    files.sync_file(path).expect("and again");
    assert_eq!(get(&files, "s3://b/out/.part"), "hello world");
    assert_eq!(files.list(Path::new("s3://b/out/")).expect("listed"), [".part"]);
    assert_eq!(kind(files.sync_file(Path::new("s3://b/out/none"))), ErrorKind::NotFound);
}

#[test]
fn bytes_that_the_disk_has_changed_become_no_object() {
    let files = files();
    let path = Path::new("s3://b/out/.part");
    let mut file = files.create_new(path).expect("created");
    file.write_all(b"what was written").expect("written");
    let spooled = files.0.spooled().get("s3://b/out/.part").cloned().expect("spooled");
    spooled.file.set_len(4).expect("cut");
    spooled.file.set_len(16).expect("as long as before");
    for _ in 0..2 {
        let error = file.sync().expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}: to be tried again would mean that nothing is lost");
        assert_eq!(kind(files.open(path)), ErrorKind::NotFound);
    }
}

#[test]
fn an_empty_file_and_one_of_many_pieces_are_objects() {
    let files = files();
    let long = "0123456789".repeat(900_000);
    for text in ["", &long] {
        let path = format!("s3://b/out/{}", text.len());
        put(&files, &path, text);
        assert!(get(&files, &path) == text);
        assert_eq!(files.info(Path::new(&path)).expect("there").length, text.len() as u64);
    }
}

#[test]
fn a_link_is_a_second_object_and_never_replaces_one() {
    let files = files();
    put(&files, "s3://b/out/.a", "a");
    put(&files, "s3://b/out/other", "b");
    let [pending, committed, other] = ["s3://b/out/.a", "s3://b/out/a", "s3://b/out/other"].map(Path::new);
    files.link(pending, committed).expect("linked");
    assert_eq!(kind(files.link(pending, committed)), ErrorKind::AlreadyExists);
    assert_eq!(kind(files.link(pending, other)), ErrorKind::AlreadyExists);
    files.remove(pending).expect("removed");
    files.remove(pending).expect("and again");
    assert_eq!((get(&files, "s3://b/out/a"), get(&files, "s3://b/out/other")), ("a".to_owned(), "b".to_owned()));
    assert_eq!(kind(files.link(pending, Path::new("s3://b/out/c"))), ErrorKind::NotFound);
}

#[test]
fn a_pattern_finds_whole_names_below_its_fixed_part() {
    let files = files();
    for key in ["in/1.csv", "in/2.csv", "in/deep/3.csv", "in/4.txt", "inn/5.csv"] {
        put(&files, &format!("s3://b/{key}"), "x");
    }
    let glob = |pattern: &str| files.glob(pattern).expect("a pattern");
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(glob("s3://b/in/*.csv"), paths(&["s3://b/in/1.csv", "s3://b/in/2.csv"]));
    assert_eq!(glob("s3://b/in/*/*.csv"), paths(&["s3://b/in/deep/3.csv"]));
    assert_eq!(glob("s3://b/in?/*"), paths(&["s3://b/inn/5.csv"]));
    assert_eq!(glob("s3://b/in/none"), paths(&["s3://b/in/none"]));
    assert_eq!(kind(files.glob("s3://b/in/[")), ErrorKind::InvalidInput);
}

#[test]
fn a_prefix_is_a_directory_and_what_is_not_there_is_not_there() {
    let files = files();
    put(&files, "s3://b/in/1.csv", "x");
    let info = |path: &str| files.info(Path::new(path));
    assert!(info("s3://b/in").expect("there").is_dir && info("s3:/b/in/1.csv").expect("there").is_file);
    assert_eq!(kind(info("s3://b/none")), ErrorKind::NotFound);
    for path in ["s3://b/in", "s3://b", "s3:/", "s3:"] {
        files.sync_dir(Path::new(path)).expect("nothing to do");
    }
}

#[test]
fn an_object_that_changes_while_it_is_read_is_an_error_that_says_so() {
    let files = files();
    put(&files, "s3://b/in", "before");
    let mut file = files.open(Path::new("s3://b/in")).expect("opened");
    put(&files, "s3://b/in", "behind");
    let error = file.read_at(0, &mut [0; 10]).expect_err("another object");
    assert!(error.to_string().contains("was changed while it was read"), "{error}");
}

#[test]
fn paths_of_this_machine_are_its_files() {
    let (files, dir) = (files(), tempfile::tempdir().expect("a directory"));
    let path = dir.path().join("file");
    put(&files, &path.display().to_string(), "x");
    assert_eq!(std::fs::read(&path).expect("there"), b"x");
}

#[test]
fn where_copies_are_late_no_sink_opens_and_nothing_is_published() {
    for root in ["az://b", "azure://b"] {
        let files = PlaceFiles::with_bucket(root, StorageServer::in_memory());
        let error = files.create_dir_all(Path::new(&format!("{root}/out"))).expect_err("no place for a sink");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "the sink refuses");
        assert!(error.to_string().contains("write to s3://"), "{error}");
        let [pending, committed] = [".a", "a"].map(|name| format!("{root}/out/{name}"));
        put(&files, &pending, "a");
        assert_eq!(kind(files.link(Path::new(&pending), Path::new(&committed))), ErrorKind::PermissionDenied);
        assert_eq!(get(&files, &pending), "a", "it can be read");
    }
}

#[test]
fn where_output_goes_is_tried_out_once_and_nothing_is_left_there() {
    let server = StorageServer::in_memory();
    let files = PlaceFiles::with_bucket("s3://b", server.clone());
    for _ in 0..2 {
        files.create_dir_all(Path::new("s3://b/out")).expect("it can be written");
    }
    assert!(files.0.below(&files.0.object(Path::new("s3://b")).expect("a bucket"), "").expect("listed").is_empty());
    assert_eq!(files.0.proved.lock().expect("sound").iter().collect::<Vec<_>>(), ["s3://b/out"]);
}

#[test]
fn a_prefix_without_objects_is_an_empty_directory() {
    let files = files();
    assert!(files.is_directory(Path::new("s3://b/none")).expect("asked"));
    assert_eq!(files.glob("s3://b/none/*").expect("listed"), Vec::<PathBuf>::new());
    let missing = tempfile::tempdir().expect("a directory").path().join("none");
    assert_eq!(kind(files.is_directory(&missing)), ErrorKind::NotFound);
}

#[test]
fn what_asks_about_a_bucket_is_done_on_another_thread_and_about_a_file_at_once() {
    let files = files();
    let (to, from) = std::sync::mpsc::channel();
    for path in ["s3://b/in", "in"] {
        let to = to.clone();
        files.ask(Path::new(path), Box::new(move || to.send(std::thread::current().id()).expect("awaited")));
        let is_here = from.recv().expect("done") == std::thread::current().id();
        assert_eq!(is_here, path == "in", "{path}");
    }
}

#[cfg(not(feature = "s3"))]
#[test]
fn without_the_feature_a_bucket_is_refused_and_no_directory_of_that_name_is_made() {
    let files = PlaceFiles::default();
    let error = files.create_dir_all(Path::new("s3://b/out")).expect_err("not built in");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "the sink refuses");
    assert!(error.to_string().contains("the feature `s3`"), "{error}");
}
