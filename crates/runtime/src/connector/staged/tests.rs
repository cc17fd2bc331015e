//! The conformance suite over a small store with transactions, whose every step may fail; and what is particular to tokens.

use super::*;
use crate::error::ErrorKind;
use crate::io::{Files, failed_at};
use crate::testing::connector_contexts::sink_context;
use crate::testing::memory_files::{Fault, FileCall, MemoryFiles, Operation};
use crate::testing::sink_suite::{SinkCase, Visible, check_sink};
use std::path::{Path, PathBuf};

/// A store whose transactions are files: one is committed when it has its name, and what it holds is decided by those before.
/// Each step is a call that may fail, and may fail after it was served.
#[derive(Clone)]
struct Transactions {
    files: MemoryFiles,
}

/// One transaction: what it begins with, and what it adds.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Transaction {
    /// All records go; marks of other incarnations stand for everything that may come of them.
    Emptied {
        incarnation: String,
    },
    Wrote {
        mark: EpochMark,
        rows: Vec<(u16, u64)>,
    },
}

const DIRECTORY: &str = "store";

impl Transactions {
    fn all(&self) -> Vec<Transaction> {
        let names = self.files.all_files().into_iter().filter(|name| name.starts_with("store/t"));
        names.map(|name| serde_json::from_slice(&self.files.get(name).unwrap()).unwrap()).collect()
    }

    fn visible(&self) -> Vec<(u16, u64)> {
        let mut rows = Vec::new();
        for transaction in self.all() {
            match transaction {
                Transaction::Emptied { .. } => rows.clear(),
                Transaction::Wrote { rows: more, .. } => rows.extend(more),
            }
        }
        rows
    }

    /// The greatest epoch of a writer that is there, or the greatest of all if its life was taken over.
    fn newest(&self, mark: &EpochMark) -> Option<CheckpointId> {
        let all = self.all();
        let epochs = all.iter().filter_map(|transaction| match transaction {
            Transaction::Emptied { incarnation } if *incarnation != mark.life.incarnation => {
                Some(CheckpointId(u64::MAX))
            }
            Transaction::Wrote { mark: there, .. } if there.life == mark.life && there.writer == mark.writer => {
                Some(there.epoch)
            }
            _ => None,
        });
        epochs.max()
    }

    /// The name is the commit; it has to be durable, and the answer may be lost at any step.
    fn write(&self, transaction: &Transaction) -> Result<()> {
        let number = self.all().len();
        let (pending, name) = (path(&format!("pending-{}", self.files.calls())), path(&format!("t{number:06}")));
        let failed = |error: std::io::Error| failed_at(&name, "commit", &error);
        self.files.create_dir_all(Path::new(DIRECTORY)).map_err(failed)?;
        let mut file = self.files.create_new(&pending).map_err(failed)?;
        file.write_all(&serde_json::to_vec(transaction).unwrap()).map_err(failed)?;
        file.sync().map_err(failed)?;
        self.files.link(&pending, &name).map_err(failed)?;
        self.files.sync_dir(Path::new(DIRECTORY)).map_err(failed)
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

impl StagedStore<(u16, u64)> for Transactions {
    fn claim(&self, life: &SinkLife, overwrite: bool) -> Result<()> {
        // What was seen has to be durable before anybody goes by it, as in a store with a log.
        self.files.create_dir_all(Path::new(DIRECTORY)).map_err(|error| failed_at(&path(""), "open", &error))?;
        let foreign = self.all().into_iter().rev().find_map(|transaction| match transaction {
            Transaction::Wrote { mark, .. } if mark.life.incarnation != life.incarnation => Some(mark),
            _ => None,
        });
        match foreign {
            None => Ok(()),
            Some(_) if overwrite => self.write(&Transaction::Emptied { incarnation: life.incarnation.clone() }),
            Some(mark) => Err(Error::refused(format!("the store holds {mark}")).hint("replace it with `--overwrite`")),
        }
    }

    fn commit(&self, mark: &EpochMark, rows: Rows<'_, (u16, u64)>) -> Result<()> {
        let failed = |error: std::io::Error| failed_at(&path(""), "begin", &error);
        self.files.sync_dir(Path::new(DIRECTORY)).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(failed(error)),
        })?;
        if self.newest(mark) >= Some(mark.epoch) {
            return Ok(());
        }
        self.write(&Transaction::Wrote { mark: mark.clone(), rows: rows.collect::<Result<_>>()? })
    }
}

struct Case(Transactions);

impl SinkCase for Case {
    type Record = (u16, u64);
    type Sink = StagedSink<(u16, u64), Transactions>;

    fn new() -> Self {
        Case::on(&MemoryFiles::new())
    }
    fn on(files: &MemoryFiles) -> Self {
        // The store was there before.
        files.put(path("of-old"), "");
        Case(Transactions { files: files.clone() })
    }
    fn sink(&self) -> Self::Sink {
        StagedSink::new(self.0.clone())
    }
    fn record(&self, subtask: u16, n: u64) -> (u16, u64) {
        (subtask, n)
    }
    fn visible(&self, _files: &MemoryFiles) -> Visible {
        let mut visible = Visible::new();
        for (subtask, n) in self.0.visible() {
            visible.entry(subtask).or_default().push(n);
        }
        visible
    }
}

#[test]
fn epochs_are_committed_exactly_once_whatever_fails() {
    check_sink::<Case>();
}

/// Takes whatever comes.
struct Sieve<T>(Mutex<Vec<(EpochMark, Vec<T>)>>);

impl<T: Record> StagedStore<T> for Sieve<T> {
    fn claim(&self, _: &SinkLife, _: bool) -> Result<()> {
        Ok(())
    }
    fn commit(&self, mark: &EpochMark, rows: Rows<'_, T>) -> Result<()> {
        assert_eq!(rows.left(), 3);
        let rows = rows.collect::<Result<Vec<T>>>()?;
        self.0.lock().unwrap().push((mark.clone(), rows));
        Ok(())
    }
}

#[test]
fn an_epoch_larger_than_a_chunk_comes_back_whole_with_its_mark() {
    let sink = StagedSink::new(Sieve(Mutex::default()));
    let cx = SinkContext { subtask: 3, ..sink_context(Arc::new(MemoryFiles::new())) };
    let mut writer = sink.open(&cx).unwrap();
    let rows = ["a".to_owned(), "b".repeat(700_000), String::new()];
    rows.iter().for_each(|row| writer.write(row.clone(), Time(0)).unwrap());
    let mut sealed = writer.seal(CheckpointId(7)).unwrap();
    assert!(writer.seal(CheckpointId(8)).is_none(), "an empty epoch has no token");
    let committer = Sink::<String>::committer(&sink, &cx).unwrap();
    let tokens = committer.prepare(&mut sealed).unwrap();
    assert_eq!(tokens, committer.prepare(&mut sealed).unwrap(), "a prepare can be repeated");
    assert!(tokens[0].payload.len() < 10_000, "chunks are compressed: {} bytes", tokens[0].payload.len());
    committer.commit(&tokens[0]).unwrap();
    let life = SinkLife { job: "job".into(), sink: "out".into(), incarnation: "life".into() };
    let mark = EpochMark { life, writer: 3, epoch: CheckpointId(7) };
    assert_eq!(*sink.store.0.lock().unwrap(), [(mark, rows.to_vec())]);
}

#[test]
fn what_waits_for_its_commit_is_bounded_over_all_epochs_and_free_again_afterwards() {
    let sink = StagedSink::new(Sieve(Mutex::default())).max_staged_bytes(60);
    let cx = sink_context(Arc::new(MemoryFiles::new()));
    let mut writer = sink.open(&cx).unwrap();
    let mut fill = |id: u64| {
        (0..3).try_for_each(|_| writer.write("123456789".to_owned(), Time(0)))?;
        Ok::<_, Error>(writer.seal(CheckpointId(id)).unwrap())
    };
    let committer = Sink::<String>::committer(&sink, &cx).unwrap();
    let tokens = |mut sealed: Sealed| committer.prepare(&mut sealed).unwrap();
    let first = tokens(fill(1).unwrap());
    let second = tokens(fill(2).unwrap());
    committer.commit(&first[0]).unwrap();
    committer.commit(&first[0]).unwrap();
    let third = tokens(fill(3).unwrap());
    let error = fill(4).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Failed, "the job restarts from its last checkpoint");
    assert!(error.to_string().contains("max_staged_bytes"), "{error}");
    second.iter().chain(&third).for_each(|token| committer.commit(token).unwrap());
}

#[test]
fn a_commit_whose_answer_is_lost_writes_nothing_twice() {
    let files = MemoryFiles::new();
    let sink = StagedSink::new(Transactions { files: files.clone() });
    let cx = sink_context(Arc::new(files.clone()));
    let mut writer = sink.open(&cx).unwrap();
    writer.write((0, 1), Time(0)).unwrap();
    let mut sealed = writer.seal(CheckpointId(7)).unwrap();
    let committer = sink.committer(&cx).unwrap();
    let token = committer.prepare(&mut sealed).unwrap().remove(0);
    let mut lost = true;
    files.set_hook(Some(Box::new(move |call: &FileCall<'_>| {
        let hit = call.operation == Operation::Link && std::mem::take(&mut lost);
        if hit { Fault::FailAfter(std::io::ErrorKind::ConnectionReset) } else { Fault::None }
    })));
    assert!(committer.commit(&token).is_err());
    committer.commit(&token).unwrap();
    assert_eq!(sink.store.visible(), [(0, 1)]);
}

#[test]
fn a_late_commit_of_a_life_that_was_overwritten_changes_nothing() {
    let files = MemoryFiles::new();
    let sink = StagedSink::new(Transactions { files: files.clone() });
    let of =
        |incarnation: &str| SinkContext { incarnation: incarnation.into(), ..sink_context(Arc::new(files.clone())) };
    let epoch = |cx: &SinkContext, id: u64| {
        let mut writer = sink.open(cx).unwrap();
        writer.write((0, id), Time(0)).unwrap();
        sink.committer(cx).unwrap().prepare(&mut writer.seal(CheckpointId(id)).unwrap()).unwrap().remove(0)
    };
    let (old, new) = (of("old"), of("new"));
    let (first, late) = (epoch(&old, 1), epoch(&old, 2));
    sink.committer(&old).unwrap().commit(&first).unwrap();
    sink.committer(&new).unwrap().claim(true).unwrap();
    sink.committer(&new).unwrap().commit(&epoch(&new, 1)).unwrap();
    sink.committer(&old).unwrap().commit(&late).unwrap();
    assert_eq!(sink.store.visible(), [(0, 1)]);
}

proptest::proptest! {
    #[test]
    fn a_damaged_token_is_an_error_and_never_a_panic(payload: Vec<u8>, cut: usize, at: usize, bit in 0u8..8) {
        let sink = StagedSink::new(Sieve(Mutex::default()));
        let cx = sink_context(Arc::new(MemoryFiles::new()));
        let mut writer = sink.open(&cx).unwrap();
        (0..3).for_each(|n| writer.write(format!("row {n}"), Time(0)).unwrap());
        let committer = Sink::<String>::committer(&sink, &cx).unwrap();
        let token = committer.prepare(&mut writer.seal(CheckpointId(7)).unwrap()).unwrap().remove(0);
        let noise = Token { name: token.name.clone(), payload };
        proptest::prop_assert!(epoch::decode::<String>(&noise).and_then(|(_, rows)| rows.collect::<Result<Vec<_>>>()).is_err() || noise.payload.len() > 14);
        let mut short = token.clone();
        short.payload.truncate(cut % token.payload.len());
        let read = epoch::decode::<String>(&short).and_then(|(_, rows)| rows.collect::<Result<Vec<_>>>());
        proptest::prop_assert_eq!(read.unwrap_err().kind(), ErrorKind::Unusable);
        let mut flipped = token.clone();
        flipped.payload[at % token.payload.len()] ^= 1 << bit;
        let _ = epoch::decode::<String>(&flipped).and_then(|(_, rows)| rows.collect::<Result<Vec<_>>>());
    }
}
