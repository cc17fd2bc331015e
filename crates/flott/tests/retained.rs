//! Retained checkpoints are whole for whoever comes: resumed again and again, from the side by several, and as a copy beside the
//! original.

use flott::Ended;
use flott::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const NUMBERS: u64 = 4_000;
const KEYS: u64 = 11;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory for temporary files"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Numbers that wait in the list of a worker, then are summed up by key in several kinds of state.
    fn job(&self, checkpoints: &str, out: &str, rate: u64) -> Job {
        let job = Job::new("sums");
        job.checkpoint_dir(self.text(checkpoints)).checkpoint_interval(Duration::from_millis(15));
        let state = (
            Value::<u64>::named("sum"),
            Reducing::<u64>::named("greatest", |kept, n| *kept = n.max(*kept)),
            Map::<u64, u64>::named("by digit"),
            List::<u64>::named("all"),
        );
        job.source(
            "numbers",
            MemorySource::with_splits(vec![(0..NUMBERS / 2).collect(), (NUMBERS / 2..NUMBERS).collect()]),
        )
        .throttle(rate)
        .process_with_list(
            "wait",
            SplitList::<u64>::named("waiting"),
            |mut waiting, n, out| {
                waiting.push(n);
                if waiting.len() >= 9 {
                    waiting.take().into_iter().for_each(|n| out.emit(n));
                }
                Ok(())
            },
            |waiting, out| {
                waiting.to_vec().into_iter().for_each(|n| out.emit(n));
                Ok(())
            },
        )
        .key_by(|n| n % KEYS)
        .process("sum", state, |(mut sum, mut greatest, mut digits, mut all), n, out| {
            greatest.add(n);
            digits.update(n % 10, || 0, |count| *count += 1);
            all.push(n);
            let sum = sum.update(|| 0, |sum| (*sum += n, *sum).1);
            let counted: u64 = digits.entries().iter().map(|(_, count)| count).sum();
            out.emit((*out.key, all.len() as u64, sum, greatest.get(), counted));
            Ok(())
        })
        .sink("out", FileSink::csv(self.path(out)).header(["key", "count", "sum", "greatest", "counted"]));
        job
    }

    /// Runs a job until it has taken a few checkpoints, and stops it.
    fn stopped(&self, job: &Job) {
        let handle = job.spawn().expect("the job starts");
        while handle.status().completed_checkpoints < 4 {
            assert!(handle.wait_for(Duration::from_millis(2)).is_none(), "it ended before");
        }
        handle.stop();
        assert_eq!(handle.wait().expect("a stop is no failure").ended, Ended::Stopped);
    }

    /// The last row of each key, the one with the highest count.
    fn last_rows(&self, outs: &[&str]) -> BTreeMap<u64, Vec<u64>> {
        let mut last: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut rows = 0;
        for path in outs.iter().flat_map(|out| files(&self.path(out))) {
            for line in fs::read_to_string(path).expect("a part").lines().skip(1) {
                let row: Vec<u64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
                let kept = last.entry(*row.first().expect("a key")).or_default();
                rows += 1;
                if kept.get(1) < row.get(1) {
                    *kept = row;
                }
            }
        }
        assert_eq!(rows, NUMBERS, "each number comes out once");
        last
    }
}

fn expected() -> BTreeMap<u64, Vec<u64>> {
    let of = |key| {
        let numbers: Vec<u64> = (0..NUMBERS).filter(|n| n % KEYS == key).collect();
        let (count, sum) = (numbers.len() as u64, numbers.iter().sum());
        (key, vec![key, count, sum, *numbers.last().expect("some"), count])
    };
    (0..KEYS).map(of).collect()
}

/// The committed parts of an output.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let committed = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "csv") && !is_hidden(path);
    entries.filter(committed).collect()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Every file below a directory with its content.
fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
    all
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).expect("a copy");
        }
    }
}

#[test]
fn a_checkpoint_is_resumed_again_and_again_with_checkpoints_of_its_own_each_time() {
    let place = Place::new();
    for workers in [1, 2, 2, 3] {
        let job = place.job("checkpoints", "out", 8_000);
        job.workers(workers);
        place.stopped(&job);
    }
    assert_eq!(place.job("checkpoints", "out", 1_000_000).run().expect("it goes on").ended, Ended::Finished);
    assert_eq!(place.last_rows(&["out"]), expected());
}

#[test]
fn a_retained_checkpoint_is_resumed_twice_from_the_side_and_stays_as_it_was() {
    let place = Place::new();
    place.stopped(&place.job("checkpoints", "out", 8_000));
    let before = content(&place.path("checkpoints"));
    for (number, workers) in [("1", 2), ("2", 4)] {
        let (checkpoints, out) = (format!("checkpoints-{number}"), format!("out-{number}"));
        let job = place.job(&checkpoints, &out, 8_000);
        job.workers(workers).restore_from(place.path("checkpoints").join("sums").display().to_string());
        place.stopped(&job);
        let job = place.job(&checkpoints, &out, 1_000_000);
        assert_eq!(job.run().expect("it goes on").ended, Ended::Finished);
        assert_eq!(place.last_rows(&["out", &out]), expected(), "the {number}. time");
    }
    assert!(content(&place.path("checkpoints")) == before, "what was only read has changed");
}

#[test]
fn a_copy_of_a_checkpoint_directory_goes_on_beside_the_original() {
    let place = Place::new();
    place.stopped(&place.job("checkpoints", "out", 8_000));
    copy(&place.path("checkpoints"), &place.path("copy"));
    copy(&place.path("out"), &place.path("out-copy"));
    let jobs = [place.job("checkpoints", "out", 20_000), place.job("copy", "out-copy", 20_000)];
    // Side by side, each with its own collector.
    let running: Vec<_> = jobs.iter().map(|job| job.spawn().expect("it starts")).collect();
    for handle in running {
        assert_eq!(handle.wait().expect("it goes on").ended, Ended::Finished);
    }
    assert_eq!(place.last_rows(&["out"]), expected());
    assert_eq!(place.last_rows(&["out-copy"]), expected());
}
