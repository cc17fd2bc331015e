//! The file system in memory that tests trust: it loses exactly what a power loss may take.

use super::*;
use std::collections::BTreeSet;

fn contents(files: &MemoryFiles, path: &str) -> Option<String> {
    files.get(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a file looks like after a power loss, over many seeds, each on a copy.
fn after_crashes(files: &MemoryFiles, path: &str) -> BTreeSet<Option<String>> {
    let crashed = (0..300).map(|seed| {
        let fork = files.fork();
        fork.crash(seed);
        contents(&fork, path)
    });
    crashed.collect()
}

fn one(text: &str) -> BTreeSet<Option<String>> {
    BTreeSet::from([Some(text.to_owned())])
}

#[test]
fn a_new_file_may_be_lost_until_its_directory_is_synced() {
    let files = MemoryFiles::new();
    files.create_dir_all("d".as_ref()).unwrap();
    files.sync_dir("/".as_ref()).unwrap();
    let mut file = files.create_new("d/f".as_ref()).unwrap();
    file.write_all(b"ab").unwrap();
    file.sync().unwrap();
    assert_eq!(after_crashes(&files, "d/f"), BTreeSet::from([None, Some("ab".to_owned())]));
    files.sync_dir("d".as_ref()).unwrap();
    assert_eq!(after_crashes(&files, "d/f"), one("ab"));
}

#[test]
fn a_new_directory_may_be_lost_with_all_in_it_until_its_parent_is_synced() {
    let files = MemoryFiles::new();
    files.create_dir_all("a/b".as_ref()).unwrap();
    let mut file = files.create_new("a/b/f".as_ref()).unwrap();
    file.sync().unwrap();
    files.sync_dir("a/b".as_ref()).unwrap();
    files.sync_dir("a".as_ref()).unwrap();
    assert!(after_crashes(&files, "a/b/f").contains(&None));
    files.sync_dir("/".as_ref()).unwrap();
    assert_eq!(after_crashes(&files, "a/b/f"), one(""));
}

#[test]
fn unsynced_bytes_may_be_lost_cut_or_torn() {
    let files = MemoryFiles::new();
    files.put("f", "");
    let mut opened = files.create_new("g".as_ref()).unwrap();
    opened.write_all(b"ab").unwrap();
    files.sync_file("g".as_ref()).unwrap();
    files.sync_dir("/".as_ref()).unwrap();
    opened.write_all(b"cd").unwrap();
    let expected = ["ab", "abc", "abcd", "ab\0", "abc\0", "ab\0\0"].map(|text| Some(text.to_owned()));
    assert_eq!(after_crashes(&files, "g"), BTreeSet::from(expected));
    opened.sync().unwrap();
    assert_eq!(after_crashes(&files, "g"), one("abcd"));
}

#[test]
fn a_removal_may_be_undone_until_the_directory_is_synced() {
    let files = MemoryFiles::new();
    files.put("f", "x");
    files.remove("f".as_ref()).unwrap();
    assert_eq!(after_crashes(&files, "f"), BTreeSet::from([None, Some("x".to_owned())]));
    files.sync_dir("/".as_ref()).unwrap();
    assert_eq!(after_crashes(&files, "f"), BTreeSet::from([None]));
}

#[test]
fn names_survive_each_for_itself() {
    let files = MemoryFiles::new();
    files.put("from", "x");
    files.link("from".as_ref(), "to".as_ref()).unwrap();
    files.remove("from".as_ref()).unwrap();
    let left = (0..300).map(|seed| {
        let fork = files.fork();
        fork.crash(seed);
        fork.all_files()
    });
    let all = [vec![], vec!["from"], vec!["to"], vec!["from", "to"]];
    let all = all.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(left.collect::<BTreeSet<_>>(), BTreeSet::from(all), "even a link lost and its removal kept");
}

#[test]
fn bytes_whose_sync_failed_may_be_lost_after_a_later_sync() {
    let files = MemoryFiles::new();
    files.put("d/x", "");
    let mut file = files.create_new("d/f".as_ref()).unwrap();
    files.sync_dir("d".as_ref()).unwrap();
    file.write_all(b"ab").unwrap();
    files.set_hook(Some(Box::new(|call: &FileCall<'_>| match call.operation {
        Operation::Sync => Fault::Fail(ErrorKind::Other),
        _ => Fault::None,
    })));
    assert!(file.sync().is_err());
    files.set_hook(None);
    file.sync().unwrap();
    assert_eq!(after_crashes(&files, "d/f"), BTreeSet::from([Some("ab".to_owned()), Some("\0\0".to_owned())]));
}

#[test]
fn links_are_one_file_and_never_replace() {
    let files = MemoryFiles::new();
    files.put("a", "x");
    files.put("b", "x");
    files.link("a".as_ref(), "c".as_ref()).unwrap();
    let identity = |path: &str| files.info(path.as_ref()).unwrap().identity;
    assert_eq!(identity("a"), identity("c"));
    assert_ne!(identity("a"), identity("b"));
    assert_eq!(files.link("a".as_ref(), "b".as_ref()).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(files.create_new("b".as_ref()).err().unwrap().kind(), ErrorKind::AlreadyExists);
    assert_eq!(files.link("none".as_ref(), "d".as_ref()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_removed_file_lives_until_it_is_closed_and_no_handle_survives_a_crash() {
    let files = MemoryFiles::new();
    files.put("f", "abc");
    let mut open = files.open("f".as_ref()).unwrap();
    files.remove("f".as_ref()).unwrap();
    for n in 0..500 {
        // Enough to have garbage collected.
        files.put("g", n.to_string());
        files.remove("g".as_ref()).unwrap();
        files.sync_dir("/".as_ref()).unwrap();
    }
    let mut buffer = [0; 8];
    assert_eq!(open.read_at(1, &mut buffer).unwrap(), 2);
    assert_eq!(&buffer[..2], b"bc");
    files.crash(1);
    assert!(open.read_at(0, &mut buffer).is_err());
}

#[test]
fn every_fault_does_what_it_says() {
    let files = MemoryFiles::new();
    let with = |fault: Fault| files.set_hook(Some(Box::new(move |_: &FileCall<'_>| fault)));
    with(Fault::Fail(ErrorKind::Other));
    assert!(files.create_new("f".as_ref()).is_err());
    assert_eq!(files.all_files(), [""; 0]);
    with(Fault::FailAfter(ErrorKind::TimedOut));
    assert_eq!(files.create_new("f".as_ref()).err().unwrap().kind(), ErrorKind::TimedOut);
    assert_eq!(files.all_files(), ["f"]);
    files.set_hook(None);
    let mut file = files.create_new("g".as_ref()).unwrap();
    with(Fault::Short(2));
    assert!(file.write_all(b"abcd").is_err());
    assert_eq!(contents(&files, "g").unwrap(), "ab");
    let calls = files.calls();
    let mut seen = [0; 4];
    assert_eq!(files.open("g".as_ref()).unwrap().read_at(0, &mut seen[..1]).unwrap(), 1);
    assert_eq!(files.calls(), calls + 2, "each call is counted");
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let files = MemoryFiles::new();
    for n in 0..20 {
        let mut file = files.create_new(format!("f{n}").as_ref()).unwrap();
        file.write_all(b"some text").unwrap();
    }
    let left = |seed| {
        let fork = files.fork();
        fork.crash(seed);
        fork.all_files().into_iter().map(|path| (fork.get(&path), path)).collect::<Vec<_>>()
    };
    for seed in 0..50 {
        assert_eq!(left(seed), left(seed));
    }
}

#[test]
fn globs_match_files_and_hidden_ones_too() {
    let files = MemoryFiles::new();
    for path in ["in/a.csv", "in/.hidden.csv", "in/deep/b.csv", "other.csv"] {
        files.put(path, "");
    }
    let glob = |pattern: &str| files.glob(pattern).unwrap();
    assert_eq!(glob("in/*.csv"), [PathBuf::from("in/.hidden.csv"), PathBuf::from("in/a.csv")]);
    assert_eq!(glob("/in/**/b.csv"), [PathBuf::from("/in/deep/b.csv")]);
    assert_eq!(glob("missing"), [PathBuf::from("missing")]);
    assert!(glob("missing*").is_empty());
    assert_eq!(files.glob("a**").unwrap_err().kind(), ErrorKind::InvalidInput);
}
