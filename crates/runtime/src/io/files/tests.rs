//! Tests of the operating system's files.

use super::OsFiles;
use crate::io::Files;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

fn write(path: &Path, bytes: &[u8]) {
    let mut file = OsFiles.create_new(path).expect("new");
    file.write_all(bytes).expect("written");
    file.sync().expect("synced");
}

#[test]
fn what_was_written_is_read_at_any_offset() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    write(&path, b"0123456789");
    let mut file = OsFiles.open(&path).expect("there");
    let mut buffer = [0; 4];
    assert_eq!(file.read_at(3, &mut buffer).expect("read"), 4);
    assert_eq!(&buffer, b"3456");
    assert_eq!(file.read_at(8, &mut buffer).expect("read"), 2);
    assert_eq!(file.read_at(10, &mut buffer).expect("read"), 0);
    OsFiles.sync_file(&path).expect("synced by somebody else");
    OsFiles.sync_dir(dir.path()).expect("synced");
}

#[test]
fn create_new_and_link_never_replace() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    write(&a, b"a");
    write(&b, b"b");
    assert_eq!(OsFiles.create_new(&a).err().map(|e| e.kind()), Some(ErrorKind::AlreadyExists));
    assert_eq!(OsFiles.link(&a, &b).map_err(|e| e.kind()), Err(ErrorKind::AlreadyExists));
    assert_eq!(std::fs::read(&b).expect("there"), b"b");
}

#[test]
fn two_names_of_one_file_have_one_identity_and_equal_files_have_two() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b, c) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
    write(&a, b"same");
    write(&b, b"same");
    OsFiles.link(&a, &c).expect("linked");
    let id = |path| OsFiles.info(path).expect("there").identity;
    assert_eq!(id(&a), id(&c));
    assert_ne!(id(&a), id(&b));
    OsFiles.remove(&a).expect("removed");
    assert_eq!(OsFiles.info(&c).expect("the other name stays").length, 4);
    assert_eq!(OsFiles.info(&a).map_err(|e| e.kind()), Err(ErrorKind::NotFound));
}

#[test]
fn names_and_globs_are_sorted_and_leave_directories_out() {
    let dir = tempfile::tempdir().expect("a directory");
    OsFiles.create_dir_all(&dir.path().join("x.txt/deep")).expect("made");
    for name in ["b.txt", "a.txt", "c.csv"] {
        write(&dir.path().join(name), b"");
    }
    assert_eq!(OsFiles.list(dir.path()).expect("listed"), ["a.txt", "b.txt", "c.csv", "x.txt"]);
    let found = OsFiles.glob(&format!("{}/*.txt", dir.path().display())).expect("globbed");
    assert_eq!(found, [dir.path().join("a.txt"), dir.path().join("b.txt")]);
}

#[test]
fn a_pattern_without_wildcards_names_itself_and_a_bad_one_is_an_error() {
    assert_eq!(OsFiles.glob("no/such.csv").expect("itself"), [PathBuf::from("no/such.csv")]);
    let error = OsFiles.glob("a***b").expect_err("no pattern");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("a***b"));
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf8_is_left_out_and_hides_no_other() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a directory");
    write(&dir.path().join("ours"), b"");
    write(&dir.path().join(OsStr::from_bytes(b"stray-\xff")), b"");
    assert_eq!(OsFiles.list(dir.path()).expect("listed"), ["ours"]);
}
