//! What somebody can do to a job's directories behind its back: each ends with a message that says what happened and what to
//! do, at once, and nothing goes on as if it were recorded.

use flott::prelude::*;
use flott::{Ended, ErrorKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Input, output and checkpoints of a job that counts words.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory for temporary files"));
        let lines: String = (0..4_000).map(|n| format!("word-{}\n", n % 11)).collect();
        fs::write(place.path("input.txt"), lines).expect("input");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn log(&self) -> PathBuf {
        self.path("checkpoints/words/log")
    }

    fn job(&self, rate: u64) -> Job {
        let job = Job::new("words");
        job.workers(1).checkpoint_interval(Duration::from_millis(20));
        job.checkpoint_dir(self.path("checkpoints").display().to_string());
        job.source("lines", FileSource::lines(self.path("input.txt").display().to_string()))
            .throttle(rate)
            .key_by(|word: &String| word.clone())
            .fold("count", 0u64, |count, _| *count += 1)
            .sink("out", FileSink::csv(self.path("out")).header(["word", "count"]));
        job
    }

    /// A job that has read a part of its input and was stopped.
    fn stopped(&self) {
        let handle = self.job(5_000).spawn().expect("the job starts");
        wait_for(&handle, 6);
        handle.stop();
        assert_eq!(handle.wait().expect("a stop is no failure").ended, Ended::Stopped);
    }

    /// The committed parts, oldest first.
    fn parts(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.path("out")).expect("output").map(|entry| entry.expect("an entry").path());
        let mut parts: Vec<PathBuf> = names.filter(|path| name(path).starts_with("part-")).collect();
        parts.sort();
        parts
    }

    /// The slots of the log, in order.
    fn slots(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.log()).expect("the log").map(|entry| entry.expect("an entry").path());
        let mut slots: Vec<u64> = entries.filter_map(|path| path.file_stem()?.to_str()?.parse().ok()).collect();
        slots.sort_unstable();
        slots
    }
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

fn wait_for(handle: &flott::JobHandle, checkpoints: u64) {
    while handle.status().completed_checkpoints < checkpoints {
        if let Some(ended) = handle.wait_for(Duration::from_millis(5)) {
            panic!("the job ended before: {ended:?}");
        }
    }
}

#[track_caller]
fn assert_says(error: &flott::Error, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[test]
fn a_checkpoint_directory_deleted_while_the_job_runs_ends_it_and_the_log_stays_without_a_beginning() {
    for part in ["", "log"] {
        let place = Place::new();
        let handle = place.job(2_000).spawn().expect("the job starts");
        wait_for(&handle, 3);
        // A checkpoint may be written meanwhile.
        let directory = place.path("checkpoints/words").join(part);
        while directory.join("1.json").exists() || directory.join("log/1.json").exists() {
            let _ = fs::remove_dir_all(&directory);
        }
        let words = ["was deleted or replaced while the job ran", "log/1.json", "nothing can be recorded"];
        assert_says(&handle.wait().expect_err("nothing can be recorded"), ErrorKind::Unusable, &words);
        let history = place.path("checkpoints/words/history");
        let reasons: Vec<String> = fs::read_dir(history)
            .expect("the history")
            .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("an entry"))
            .collect();
        assert!(reasons.iter().any(|text| text.contains("was deleted or replaced")), "{reasons:?}");
        // Nothing goes on from what was written after that; and if that was nothing, the old output is in the way.
        let again = place.job(2_000).run().expect_err("the log has no beginning");
        if place.log().exists() && !place.slots().is_empty() {
            assert_says(&again, ErrorKind::Unusable, &["the first entry of the checkpoint log is missing"]);
        } else {
            assert_says(&again, ErrorKind::Refused, &["holds output of an earlier job"]);
        }
    }
}

#[test]
fn an_entry_of_the_log_copied_to_another_slot_is_damage_and_no_fence() {
    for absurd in ["5000", "18446744073709551615"] {
        let place = Place::new();
        place.stopped();
        let copied = place.slots()[1];
        fs::copy(place.log().join(format!("{copied}.json")), place.log().join(format!("{absurd}.json")))
            .expect("a copy");
        let slot = format!("slot {absurd} of the checkpoint log is unusable");
        let words = [slot.as_str(), "was it copied or renamed?"];
        assert_says(&place.job(1_000_000).run().expect_err("damaged"), ErrorKind::Unusable, &words);
        fs::remove_file(place.log().join(format!("{absurd}.json"))).expect("the copy");
        assert_eq!(place.job(1_000_000).run().expect("mended").ended, Ended::Finished);
    }
}

#[test]
fn an_entry_that_is_copied_into_the_log_of_a_running_job_ends_it_as_damage() {
    let place = Place::new();
    let handle = place.job(2_000).spawn().expect("the job starts");
    wait_for(&handle, 3);
    // Whichever slot is the next one when the copy is there.
    let copy = fs::read(place.log().join("1.json")).expect("the Start");
    let last = *place.slots().last().expect("some slots");
    for slot in last + 1..last + 200 {
        let _ = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(place.log().join(format!("{slot}.json")))
            .and_then(|mut file| std::io::Write::write_all(&mut file, &copy));
    }
    assert_says(
        &handle.wait().expect_err("damaged"),
        ErrorKind::Unusable,
        &["is unusable", "was it copied or renamed?"],
    );
}

#[cfg(unix)]
#[test]
fn what_is_no_file_in_the_place_of_a_slot_is_said_at_once() {
    type Make = fn(&Path);
    let things: [(&str, Make); 2] = [
        ("is a directory where a file must be", |path| fs::create_dir(path).expect("a directory")),
        ("is a link that leads nowhere", |path| std::os::unix::fs::symlink("nowhere", path).expect("a link")),
    ];
    for (what, make) in things {
        let place = Place::new();
        place.stopped();
        let next = place.slots().last().expect("some slots") + 1;
        make(&place.log().join(format!("{next}.json")));
        let slot = format!("log/{next}.json");
        assert_says(&place.job(1_000_000).run().expect_err("damaged"), ErrorKind::Unusable, &[what, &slot]);
    }
}

#[cfg(unix)]
#[test]
fn foreign_names_in_the_checkpoint_directory_hinder_nothing_and_stay() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    place.stopped();
    let foreign = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let directories = ["", "log", "manifests", "history", "pins", "data", "data/1"];
    let paths = directories.map(|directory| place.path("checkpoints/words").join(directory).join(foreign));
    for path in &paths {
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, "mine").expect("a file");
    }
    assert_eq!(place.job(1_000_000).run().expect("nothing hinders it").ended, Ended::Finished);
    assert!(paths.iter().all(|path| path.exists()), "what is foreign is never deleted");
}

/// The guide says what is checked after a restore: the parts of the restored checkpoint, and no older ones.
#[test]
fn output_that_was_deleted_is_noticed_if_the_restored_checkpoint_names_it() {
    let place = Place::new();
    place.stopped();
    let parts = place.parts();
    let newest = parts.last().expect("output");
    fs::remove_file(newest).expect("the newest part");
    let words = ["output of a completed checkpoint is gone", &name(newest)];
    assert_says(&place.job(1_000_000).run().expect_err("output is gone"), ErrorKind::OutputDamaged, &words);

    let place = Place::new();
    place.stopped();
    fs::remove_file(&place.parts()[0]).expect("the oldest part");
    assert_eq!(place.job(1_000_000).run().expect("nobody asks for it").ended, Ended::Finished);
}

#[test]
fn two_copies_of_a_checkpoint_directory_on_one_output_directory_are_told_what_happened() {
    let place = Place::new();
    place.stopped();
    let copy = place.path("copy");
    copy_directory(&place.path("checkpoints"), &copy);
    assert_eq!(place.job(1_000_000).run().expect("the first one goes on").ended, Ended::Finished);
    let second = place.job(3_000);
    second.checkpoint_dir(copy.display().to_string());
    let words = ["checkpoint directory is a copy, or was copied", "only one of the two may go on"];
    assert_says(&second.run().expect_err("they collide"), ErrorKind::OutputDamaged, &words);
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(name(&path));
        if path.is_dir() {
            copy_directory(&path, &target);
        } else {
            fs::copy(&path, target).expect("a copy");
        }
    }
}
