//! A dry run meets what a start would meet, entry by entry and with the exit codes of a start, and writes not a byte.

use super::*;
use crate::prelude::*;
use crate::{Ended, ErrorKind, State};
use flott_checkpoint::{CheckpointId, LogEntry};
use flott_runtime::io::{StorageReply, StorageRequest};
use flott_runtime::sink::{Committer, Sink};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A sink that may not be opened, unless it may.
struct Guarded {
    sink: MemorySink<u64>,
    may_open: bool,
}

impl Sink<u64> for Guarded {
    type Writer = <MemorySink<u64> as Sink<u64>>::Writer;

    fn open(&self, cx: &SinkContext) -> Result<Self::Writer> {
        assert!(self.may_open, "a sink was opened");
        self.sink.open(cx)
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        self.sink.committer(cx)
    }

    fn is_transactional(&self) -> bool {
        true
    }
}

fn job<S: State>(
    directory: &Path,
    may_open: bool,
    state: S,
    keep: impl for<'a> Fn(S::At<'a, u64>, u64) + Send + Sync + 'static,
) -> Job {
    let job = Job::new("looked-at");
    job.workers(2).checkpoint_interval(Duration::from_millis(10)).checkpoint_dir(directory.display().to_string());
    job.source("numbers", MemorySource::new((0..20_000u64).collect()))
        .throttle(20_000)
        .process_with_list(
            "wait",
            SplitList::<u64>::named("waiting"),
            |mut waiting, n, out| {
                waiting.push(n);
                if waiting.len() > 3 {
                    waiting.take().into_iter().for_each(|n| out.emit(n));
                }
                Ok(())
            },
            |_, _| Ok(()),
        )
        .key_by(|n| n % 50)
        .process("keep", state, move |state, n, out| {
            keep(state, n);
            out.emit(n);
            Ok(())
        })
        .sink("out", Guarded { sink: MemorySink::new(), may_open });
    job
}

fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// A job that was stopped after some increments.
fn stopped(directory: &Path) {
    let kept = Map::<u64, u64>::named("kept");
    let handle = job(directory, true, kept, |mut kept, n| kept.insert(n % 4, n)).spawn().unwrap();
    while handle.status().completed_checkpoints < 4 {
        assert!(handle.wait_for(Duration::from_millis(2)).is_none(), "it ended before");
    }
    handle.stop();
    assert_eq!(handle.wait().unwrap().ended, Ended::Stopped);
}

fn look(job: &Job, workers: u16) -> Result<Option<Found>> {
    let settings = Settings { workers: Some(workers), ..Settings::default() };
    dry_run(&job.freeze()?, &settings.over(job.settings.borrow().clone()))
}

#[test]
fn every_entry_is_decoded_for_any_number_of_workers_and_nothing_is_opened_or_written() {
    let directory = tempfile::tempdir().unwrap();
    stopped(directory.path());
    let before = content(directory.path());
    for workers in [1, 2, 5] {
        let same = job(directory.path(), false, Map::<u64, u64>::named("kept"), |_, _| ());
        let found = look(&same, workers).unwrap().expect("there is a checkpoint");
        assert!(found.lines().iter().any(|line| line.contains("every entry fits")), "{:?}", found.lines());
        let first = found.lines().swap_remove(0);
        let rescaled = if workers == 2 { String::new() } else { ", rescaled from 2".to_owned() };
        assert!(first.ends_with(&format!("with {workers} workers{rescaled}")), "{first}");
        let restores = found.json()["restores"].clone();
        let before = (workers != 2).then_some(2);
        assert_eq!((restores["workers"].as_u64(), restores["rescaled_from"].as_u64()), (Some(workers.into()), before));
        let other = job(directory.path(), false, Map::<u64, (u64, u64)>::named("kept"), |_, _| ());
        let error = look(&other, workers).err().expect("another type");
        assert_eq!((error.kind(), error.kind().exit_code()), (ErrorKind::Unusable, 4));
        let said = error.to_string();
        for part in ["`keep`", "keep/kept", "the entry of key", "map<u64,u64>", "map<u64,(u64,u64)>"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert!(content(directory.path()) == before, "a dry run has written something");
}

/// The checkpoints that are retained, the newest last.
fn retained(directory: &Path) -> Vec<u64> {
    let storage = block_on(open_storage_if_there(&directory.display().to_string(), "looked-at"));
    let storage = storage.unwrap().unwrap().expect("there is a job");
    let listed = block_on(storage.serve(StorageRequest::List { prefix: "log".to_owned() })).unwrap();
    let StorageReply::Listed(objects) = listed else { panic!("{listed:?}") };
    let mut ids = Vec::new();
    for (path, _) in objects {
        let StorageReply::Read(bytes) = block_on(storage.serve(StorageRequest::Read { path, range: None })).unwrap()
        else {
            continue;
        };
        if let Ok(LogEntry::Checkpoint(entry)) = LogEntry::decode(&bytes) {
            ids.push(entry.id.0);
        }
    }
    ids.sort_unstable();
    ids
}

/// What a dry run and a real start say of the same job with the same settings: nothing, or why not.
fn both_say(directory: &Path, settings: Settings) -> (Option<(u8, String)>, Vec<String>) {
    let kept = || Map::<u64, u64>::named("kept");
    let before = content(directory);
    let same = job(directory, false, kept(), |_, _| ());
    let looked = dry_run(&same.freeze().unwrap(), &settings.clone().over(same.settings.borrow().clone()));
    assert!(content(directory) == before, "a dry run has written something");
    // The start does what it does to a copy.
    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in before {
        let to = copy.path().join(path.strip_prefix(directory).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
    let real = job(copy.path(), true, kept(), |mut kept, n| kept.insert(n % 4, n));
    let settings = settings.over(real.settings.borrow().clone());
    *real.settings.borrow_mut() = settings;
    let started = real.spawn().unwrap();
    started.stop();
    let code = |error: &Error| (error.kind().exit_code(), error.to_string());
    let (dry, started) = (looked.as_ref().err().map(code), started.wait().err().map(|error| code(&error)));
    assert_eq!(dry, started, "a dry run says what a start says");
    (dry, looked.ok().flatten().map(|found| found.lines()).unwrap_or_default())
}

/// The slot of the Start that began the incarnation.
fn beginning(directory: &Path) -> PathBuf {
    let mut slots = fs::read_dir(directory.join("looked-at/log")).unwrap().map(|entry| entry.unwrap().path());
    let begins = |path: &PathBuf| matches!(LogEntry::decode(&fs::read(path).unwrap()), Ok(LogEntry::Start(start)) if start.began.is_some());
    slots.find(begins).expect("one Start began it")
}

fn restoring(id: u64) -> Settings {
    Settings { restore: Some(Restore::Id(CheckpointId(id))), ..Settings::default() }
}

#[test]
fn going_back_past_output_that_may_be_committed_is_said_as_a_start_says_it() {
    let directory = tempfile::tempdir().unwrap();
    stopped(directory.path());
    let ids = retained(directory.path());
    let [.., older, newest] = ids.as_slice() else { panic!("{ids:?}") };
    assert_eq!(both_say(directory.path(), restoring(*newest)).0, None);
    let (code, said) = both_say(directory.path(), restoring(*older)).0.expect("refused");
    assert!(code == 4 && said.contains("sink out may have committed output"), "{code}: {said}");
    let allowed = Settings { allow_duplicates: Some(true), ..restoring(*older) };
    let (error, lines) = both_say(directory.path(), allowed.clone());
    assert_eq!(error, None);
    assert!(lines.iter().any(|line| line.contains("writes it again")), "{lines:?}");
    let (code, said) = both_say(directory.path(), Settings { require: Some(crate::Guarantee::ExactlyOnce), ..allowed })
        .0
        .expect("refused");
    assert!(code == 2 && said.contains("--require"), "the guarantee is lowered: {said}");
    let (code, said) = both_say(directory.path(), restoring(newest + 100)).0.expect("refused");
    assert!(code == 4 && said.contains("is not in the log"), "{code}: {said}");
    // The newest one is damaged: what comes before it lies behind what may be committed.
    let manifests = fs::read_dir(directory.path().join("looked-at/manifests")).unwrap();
    let manifests: Vec<PathBuf> = manifests.map(|entry| entry.unwrap().path()).collect();
    let newest = manifests.iter().max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap();
    fs::write(newest, b"{}").unwrap();
    let (code, said) = both_say(directory.path(), Settings::default()).0.expect("refused");
    assert!(code == 4 && said.contains("is damaged") && said.contains("may have committed"), "{code}: {said}");
    let (error, lines) = both_say(directory.path(), Settings { allow_duplicates: Some(true), ..Settings::default() });
    assert_eq!(error, None);
    assert!(lines.iter().any(|line| line.contains(&format!("goes back to checkpoint {older}"))), "{lines:?}");
    let strict = Settings { no_fallback: Some(true), ..Settings::default() };
    assert!(both_say(directory.path(), strict).0.expect("refused").1.contains("--no-fallback"));
}

#[test]
fn a_manifest_of_another_incarnation_than_the_log_says_is_refused_as_by_a_start() {
    let directory = tempfile::tempdir().unwrap();
    stopped(directory.path());
    let slot = beginning(directory.path());
    let Ok(LogEntry::Start(mut start)) = LogEntry::decode(&fs::read(&slot).unwrap()) else { panic!("a Start") };
    let began = start.began.as_mut().expect("it began one");
    began.key_seed ^= 1;
    fs::write(&slot, LogEntry::Start(start).encode()).unwrap();
    let (code, said) = both_say(directory.path(), Settings::default()).0.expect("refused");
    assert!(code == 4 && said.contains("another incarnation"), "{code}: {said}");
}

#[test]
fn a_job_that_would_begin_anew_is_told_so_and_a_log_without_its_beginning_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(both_say(directory.path(), Settings::default()), (None, Vec::new()));
    stopped(directory.path());
    fs::remove_file(beginning(directory.path())).unwrap();
    for settings in [Settings::default(), Settings { restore: Some(Restore::None), ..Settings::default() }] {
        let (code, said) = both_say(directory.path(), settings).0.expect("refused");
        assert!(code == 4 && said.contains("the first entry"), "{code}: {said}");
    }
}

/// A Start that is refused afterwards would stay the head of the log, and each later start would go on from it.
#[test]
fn a_start_that_outputs_refuse_leaves_the_log_as_it_was() {
    let (directory, out, savepoint) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let job = || {
        let job = Job::new("looked-at");
        job.workers(2).checkpoint_interval(Duration::from_millis(10));
        job.checkpoint_dir(directory.path().display().to_string());
        job.source("numbers", MemorySource::new((0..2_000u64).collect()))
            .throttle(2_000)
            .map(|n| n.to_string())
            .sink("out", FileSink::lines(out.path()));
        job
    };
    let handle = job().spawn().unwrap();
    while handle.status().completed_checkpoints < 4 {
        assert!(handle.wait_for(Duration::from_millis(2)).is_none(), "it ended before");
    }
    let target = savepoint.path().join("save").display().to_string();
    handle.savepoint(&target).unwrap();
    handle.stop();
    assert_eq!(handle.wait().unwrap().ended, Ended::Stopped);
    let log = directory.path().join("looked-at/log");
    let before = content(&log);
    let anew = Settings { restore: Some(Restore::None), ..Settings::default() };
    let moved = Settings { restore_from: Some(target), ..Settings::default() };
    for settings in [anew, moved] {
        let job = job();
        let settings = settings.over(job.settings.borrow().clone());
        *job.settings.borrow_mut() = settings;
        let refused = job.spawn().unwrap().wait().expect_err("there is output of an earlier life");
        assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
        assert!(refused.to_string().contains("--claim") && refused.to_string().contains("--overwrite"), "{refused}");
        assert!(content(&log) == before, "the log was touched");
    }
    assert_eq!(job().run().unwrap().ended, Ended::Finished);
    let lines = content(out.path()).into_iter().filter(|(path, _)| path.display().to_string().contains("part-"));
    let mut all: Vec<u64> = lines
        .flat_map(|(_, bytes)| {
            String::from_utf8(bytes).unwrap().lines().map(|n| n.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..2_000).collect::<Vec<_>>());
}
