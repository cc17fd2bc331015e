//! Runs the built `flott checkpoints …` on good and on damaged directories.

use flott_checkpoint::{CheckpointId, Kind};
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::open_storage;
use flott_runtime::pin::Pin;
use flott_runtime::testing::Random;
use flott_runtime::testing::sample_job::SampleJob;
use flott_runtime::testing::stateful_job::StatefulJob;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A checkpoint directory with one good job, `sample`.
fn good() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    add_job(dir.path(), "sample");
    dir
}

fn add_job(dir: &Path, name: &str) {
    let storage = open_storage(&dir.display().to_string(), name).expect("opened");
    block_on(async {
        storage.probe().await.expect("honest");
        SampleJob::good(storage).await
    })
    .expect("written");
}

fn flott(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flott")).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn at(dir: &TempDir, path: &str) -> PathBuf {
    dir.path().join("sample").join(path)
}

/// Runs a subcommand on a directory.
fn checkpoints(subcommand: &str, dir: &Path, more: &[&str]) -> (i32, String, String) {
    let dir = dir.display().to_string();
    let mut arguments = vec!["checkpoints", subcommand, &dir];
    arguments.extend(more);
    let output = flott(&arguments);
    (output.status.code().expect("no signal"), text(&output.stdout), text(&output.stderr))
}

fn json_lines(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn verify_says_that_a_good_directory_is_good() {
    let dir = good();
    let (code, stdout, stderr) = checkpoints("verify", dir.path(), &[]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.starts_with("job sample is good: "), "{stdout}");
    assert!(stdout.contains("4 checkpoints; the newest checkpoint that is whole is 5"), "{stdout}");
    assert_eq!(stderr, "", "no progress when nobody looks");
}

/// Each kind of object, damaged in each way that verification must see.
#[test]
fn verify_finds_and_names_every_kind_of_damage() {
    let flip: fn(&Path) = |path| {
        let mut bytes = fs::read(path).expect("there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).expect("written");
    };
    let truncate: fn(&Path) = |path| {
        let bytes = fs::read(path).expect("there");
        fs::write(path, &bytes[..bytes.len() - 1]).expect("written");
    };
    let remove: fn(&Path) = |path| fs::remove_file(path).expect("there");
    let cases = [
        ("log/6.json", flip),
        ("log/6.json", truncate),
        ("log/1.json", flip),
        ("log/4.json", truncate),
        ("log/4.json", remove),
        ("manifests/5-4.json", flip),
        ("manifests/2-1.json", truncate),
        ("manifests/1-1.json", remove),
        ("data/4/5-1.seg", flip),
        ("data/1/2-0.seg", truncate),
        ("data/1/1-0.seg", remove),
        ("history/3-4.json", flip),
    ];
    for (path, damage) in cases {
        let dir = good();
        damage(&at(&dir, path));
        let (code, stdout, _) = checkpoints("verify", dir.path(), &[]);
        assert_eq!(code, 1, "{path}: {stdout}");
        assert!(stdout.contains(&format!("damage: {path}: ")), "{path}: {stdout}");
        assert!(stdout.contains("what to do: ") && stdout.contains("job sample is DAMAGED"), "{stdout}");

        let (code, stdout, _) = checkpoints("verify", dir.path(), &["--json"]);
        assert_eq!(code, 1);
        let lines = json_lines(&stdout);
        let named = |line: &Value| line["severity"] == "damage" && line["path"] == path;
        assert!(lines.iter().any(named), "{path}: {stdout}");
        assert_eq!(lines.last().map(|line| line["verdict"].clone()), Some("damaged".into()));
    }
}

#[test]
fn verify_names_the_newest_checkpoint_that_can_still_be_restored() {
    let dir = good();
    fs::remove_file(at(&dir, "data/4/5-0.seg")).expect("there");
    let (_, stdout, _) = checkpoints("verify", dir.path(), &["--json"]);
    assert_eq!(json_lines(&stdout).last().map(|line| line["newest_whole"].clone()), Some(4.into()));
}

#[test]
fn list_is_an_aligned_table_and_with_json_an_object_a_line() {
    let dir = good();
    let (code, stdout, _) = checkpoints("list", dir.path(), &[]);
    assert_eq!(code, 0);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{stdout}");
    let column = lines[0].find("KIND").expect("a heading");
    let completed = lines[1..].iter().filter(|line| !line.contains("FAILED"));
    for (line, kind) in completed.zip(["checkpoint", "checkpoint", "savepoint", "checkpoint"]) {
        assert!(line[column..].starts_with(kind), "not aligned: {stdout}");
        assert!(
            line.contains("exactly-once") && line.contains("18ms") && line.contains("2023-11-14T22:13:20.018Z"),
            "{line}"
        );
    }

    let (code, stdout, _) = checkpoints("list", dir.path(), &["--json"]);
    assert_eq!(code, 0);
    let rows = json_lines(&stdout);
    assert_eq!(rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>(), [1, 2, 3, 4, 5].map(Value::from));
    assert_eq!(rows[4]["details"]["base"], 2);
    assert_eq!(rows[0]["details"]["base"], Value::Null);
    assert_eq!(rows[0]["details"]["duration_ms"], 18.0, "times are in milliseconds");
    assert_eq!(rows[0]["details"]["completed_at_ms"], 1_700_000_000_018.0);
}

#[test]
fn list_shows_what_failed_and_why() {
    let dir = good();
    let (_, stdout, _) = checkpoints("list", dir.path(), &[]);
    let line = stdout.lines().find(|line| line.trim_start().starts_with("3 ")).expect("checkpoint 3 was tried");
    assert!(line.contains("FAILED: nobody knows whether it was recorded: nobody knows"), "{line}");
    assert!(line.contains("aligned"), "{line}");
    let (_, stdout, _) = checkpoints("list", dir.path(), &["--json"]);
    let row = &json_lines(&stdout)[2];
    assert_eq!((&row["status"], &row["id"], &row["mode"]), (&"failed".into(), &3.into(), &"aligned".into()));
    assert_eq!(row["duration_ms"], 3.0);
    assert!(row["reason"].as_str().is_some_and(|reason| reason.contains("nobody knows")), "{row}");
    assert_eq!(json_lines(&stdout)[0]["status"], "completed");
}

#[test]
fn show_draws_where_each_subtask_spent_its_time() {
    let dir = good();
    let (_, stdout, _) = checkpoints("show", dir.path(), &[]);
    let bars: Vec<&str> = stdout.lines().skip_while(|line| !line.trim_start().starts_with("0  ")).collect();
    assert_eq!(bars.len(), 7, "an axis, four subtasks, the record, a legend: {stdout}");
    let bar = bars[4].strip_prefix("1/1 count, out").expect("the last subtask");
    let order: String = {
        let mut letters: Vec<char> = bar.trim().chars().collect();
        letters.dedup();
        letters.into_iter().collect()
    };
    assert_eq!(order, ".acsu", "{stdout}");
    assert!(bars[5].starts_with("record") && bars[6].contains("a alignment"), "{stdout}");
    let (_, stdout, _) = checkpoints("show", dir.path(), &["--json"]);
    assert_eq!(json_lines(&stdout)[0]["record_ms"], 0.0);
}

#[test]
fn list_shows_a_checkpoint_whose_manifest_is_damaged() {
    let dir = good();
    fs::write(at(&dir, "manifests/2-1.json"), b"{}").expect("written");
    let (code, stdout, _) = checkpoints("list", dir.path(), &[]);
    assert_eq!(code, 0);
    assert!(stdout.lines().nth(2).is_some_and(|line| line.contains("damaged or missing")), "{stdout}");
}

#[test]
fn show_tells_all_of_one_checkpoint_but_the_secret_seed() {
    let dir = good();
    let (code, newest, _) = checkpoints("show", dir.path(), &[]);
    assert_eq!(code, 0);
    assert!(newest.starts_with("checkpoint 5 of job sample (checkpoint, builds on checkpoint 2)"), "{newest}");
    assert!(newest.contains("lines, count, out") && newest.contains("data/4/5-1.seg"), "{newest}");
    assert!(newest.contains(r#"a.csv  {"offset":17}"#), "{newest}");
    assert!(newest.contains("in flight    6 records, 26 B before compression"), "{newest}");

    let (code, stdout, _) = checkpoints("show", dir.path(), &["--id", "1", "--json"]);
    assert_eq!(code, 0);
    let lines = json_lines(&stdout);
    assert_eq!((&lines[0]["id"], &lines[0]["base"]), (&1.into(), &Value::Null));
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1]["timings_ms"]["upload"], 0.004);
    assert_eq!(lines[1]["splits"]["lines"]["a.csv"]["position"]["offset"], 17);
    assert_eq!((&lines[0]["captured"]["records"], &lines[3]["captured"]["records"]), (&6.into(), &3.into()));
    assert!(!stdout.contains("5eed") && !newest.contains("5eed"));
}

#[test]
fn show_of_a_damaged_checkpoint_is_damage_and_of_none_is_usage() {
    let dir = good();
    let (code, _, stderr) = checkpoints("show", dir.path(), &["--checkpoint", "3"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no checkpoint 3"), "{stderr}");
    fs::remove_file(at(&dir, "manifests/5-4.json")).expect("there");
    let (code, _, stderr) = checkpoints("show", dir.path(), &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("manifests/5-4.json"), "{stderr}");
}

#[test]
fn the_job_is_found_or_asked_for() {
    let dir = good();
    for place in [dir.path().to_owned(), at(&dir, "")] {
        assert_eq!(checkpoints("list", &place, &[]).0, 0, "{}", place.display());
    }
    assert_eq!(checkpoints("list", dir.path(), &["sample"]).0, 0);
    add_job(dir.path(), "other");
    let (code, _, stderr) = checkpoints("list", dir.path(), &[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("several jobs: other, sample"), "{stderr}");
    assert_eq!(checkpoints("list", dir.path(), &["other"]).0, 0);
}

#[test]
fn what_is_no_checkpoint_directory_is_a_usage_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    for (place, words) in [
        (dir.path(), "no job"),
        (&file, "not a directory"),
        (&dir.path().join("none"), "cannot open"),
        #[cfg(not(feature = "s3"))]
        (Path::new("s3://bucket/dir"), "without the feature `s3`"),
        (Path::new("s3://"), "names no bucket"),
    ] {
        for subcommand in ["list", "show", "verify"] {
            let (code, stdout, stderr) = checkpoints(subcommand, place, &[]);
            assert_eq!((code, stdout.as_str()), (2, ""), "{}", place.display());
            assert!(stderr.contains(words), "{}: {stderr}", place.display());
        }
    }
    assert_eq!(flott(&["checkpoints", "verify"]).status.code(), Some(2));
    let version = flott(&["--version"]).stdout;
    assert_eq!(String::from_utf8_lossy(&version), concat!("flott ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(flott(&["checkpoints", "mend"]).status.code(), Some(2));
}

fn storage(dir: &TempDir) -> flott_runtime::io::storage::StorageServer {
    open_storage(&dir.path().display().to_string(), "sample").expect("opened")
}

/// Attempt 1 recorded checkpoints 1 to 4 and died over 5; attempt 6 went on from 4 and recorded 6 to 8. A reader holds 2.
fn two_lives() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    block_on(async {
        let mut job = SampleJob::new(storage(&dir));
        job.start(None).await;
        for _ in 0..4 {
            job.checkpoint(Kind::Checkpoint, None).await;
        }
        job.unrecorded().await;
        job.start(Some(CheckpointId(4))).await;
        for _ in 0..3 {
            job.checkpoint(Kind::Checkpoint, None).await;
        }
        let pin = Pin { checkpoint: CheckpointId(2), holder: "an export".to_owned() };
        job.put(&Pin::path("reader-1"), pin.encode()).await;
    })
    .expect("a runtime");
    dir
}

fn files(dir: &TempDir) -> Vec<String> {
    let all = block_on(async { SampleJob::new(storage(dir)).paths().await });
    all.expect("a runtime")
}

#[test]
fn gc_deletes_what_dead_attempts_left_and_a_dry_run_says_it_and_deletes_nothing() {
    let dir = two_lives();
    let before = files(&dir);
    let (code, dry, _) = checkpoints("gc", dir.path(), &["--dry-run", "--json"]);
    assert_eq!(code, 0, "{dry}");
    assert_eq!(files(&dir), before, "a dry run deletes nothing");
    let (code, stdout, _) = checkpoints("gc", dir.path(), &["--json"]);
    assert_eq!(code, 0, "{stdout}");
    let named = |stdout: &str| -> Vec<String> {
        json_lines(stdout).iter().filter_map(|line| line["deleted"].as_str().map(str::to_owned)).collect()
    };
    let gone = named(&stdout);
    assert_eq!(named(&dry), gone);
    let left = files(&dir);
    assert!(gone.iter().all(|path| before.contains(path) && !left.contains(path)), "{gone:?}");
    assert_eq!(before.len() - left.len(), gone.len());
    for path in
        ["log/2.json", "manifests/1-1.json", "data/1/3-0.seg", "data/1/4-1.seg", "manifests/5-1.json", "data/1/5-0.seg"]
    {
        assert!(gone.iter().any(|named| named == path), "{path} is of no use any more: {gone:?}");
    }
    assert!(
        left.contains(&"manifests/2-1.json".to_owned()) && left.contains(&"data/1/2-1.seg".to_owned()),
        "it is pinned"
    );
    let held = json_lines(&stdout);
    assert!(held.iter().any(|line| line["pin"] == "pins/reader-1" && line["holder"] == "an export"), "{stdout}");
    assert_eq!(held.last().map(|line| line["objects"].clone()), Some(gone.len().into()));
    let (code, stdout, _) = checkpoints("verify", dir.path(), &[]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("the newest checkpoint that is whole is 8"), "{stdout}");
    // The attempt that owns the log may be running: what it does not need is its own affair.
    let (_, stdout, _) = checkpoints("gc", dir.path(), &["--retain", "1"]);
    assert!(stdout.contains("0 objects") && stdout.contains("nothing of attempt 6 is touched"), "{stdout}");
}

#[test]
fn gc_of_a_job_that_has_recorded_nothing_since_its_start_keeps_all_that_is_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    block_on(async {
        let mut job = SampleJob::good(storage(&dir)).await;
        job.start(Some(CheckpointId(2))).await;
    })
    .expect("a runtime");
    let (code, stdout, _) = checkpoints("gc", dir.path(), &["--retain", "1"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("0 objects"), "{stdout}");
    let (code, _, stderr) = checkpoints("gc", dir.path(), &["--retain", "0"]);
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn diff_says_which_entries_were_added_removed_and_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    block_on(async {
        let mut job = StatefulJob::new(SampleJob::new(storage(&dir))).await;
        let mut random = Random::new(5);
        (0..200).for_each(|_| job.change(&mut random, 30));
        let first = job.checkpoint(None).await;
        job.put_alarm(7_777, 5);
        job.checkpoint(Some(first)).await;
    })
    .expect("a runtime");
    let place = dir.path().display().to_string();
    let (one, two) = (format!("{place}@1"), "@2");
    let run = |arguments: &[&str]| {
        let output = flott(arguments);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = run(&["checkpoints", "diff", &one, two, "--keys"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("+ count/alarms 7777 timer at 5 ms\n"), "{stdout}");
    let (code, back, _) = run(&["checkpoints", "diff", two, &one, "--keys"]);
    assert_eq!((code, back.as_str()), (Some(2), ""), "the first of the two needs a directory");
    let (_, stdout, _) = run(&["checkpoints", "diff", &format!("{place}@2"), &one, "--keys", "--json"]);
    let lines = json_lines(&stdout);
    assert_eq!(
        (&lines[0]["change"], &lines[0]["key"], &lines[0]["time_ms"]),
        (&"removed".into(), &7_777.into(), &5.into())
    );
    assert_eq!(lines.len(), 5, "one entry and four states: {stdout}");
    assert!(lines[2..].iter().all(|state| state["changed"] == 0 && state["before"] == state["after"]), "{stdout}");
    let (code, _, stderr) = run(&["checkpoints", "diff", &one, two, "--operator", "none"]);
    assert_eq!(code, Some(2), "{stderr}");
}

#[cfg(unix)]
#[test]
fn foreign_names_and_junk_where_objects_lie_hinder_no_subcommand_and_are_named() {
    use std::os::unix::ffi::OsStrExt;
    let dir = good();
    let no_text = std::ffi::OsStr::from_bytes(b"caf\xe9.json");
    fs::create_dir_all(at(&dir, "pins")).expect("a directory");
    for directory in ["log", "manifests", "history", "pins", "data"] {
        fs::write(at(&dir, directory).join(no_text), "mine").expect("written");
    }
    fs::write(at(&dir, "pins/mine"), "no pin").expect("written");
    fs::write(at(&dir, "log/notes.txt"), "mine").expect("written");
    for subcommand in ["list", "show"] {
        let (code, stdout, stderr) = checkpoints(subcommand, dir.path(), &[]);
        assert_eq!(code, 0, "{subcommand}: {stdout}{stderr}");
        assert!(stdout.contains("exactly-once"), "{subcommand}: {stdout}");
    }
    let (code, stdout, stderr) = checkpoints("verify", dir.path(), &[]);
    assert_eq!(code, 1, "the pin is damaged: {stdout}{stderr}");
    assert!(stdout.contains("damage: pins/mine"), "{stdout}");
    assert!(stdout.contains("log/notes.txt: it is foreign") && stdout.contains("log/caf"), "{stdout}");
    assert!(stdout.contains("the newest checkpoint that is whole is 5"), "{stdout}");
}
