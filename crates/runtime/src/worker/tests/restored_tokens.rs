//! What a reader of the file sink's output sees while restored tokens are committed: at each parallelism, with calls that
//! come back in any order and fail now and then, of each writing subtask a prefix of its parts at any moment.

use super::job::{Committed, Numbers};
use super::script::{Ending, Setting, play};
use crate::connector::FileSink;
use crate::key::{owner_of_name, writer_name};
use crate::plan::{OperatorPlan, Plan, Role, Vertex};
use crate::testing::Random;
use crate::testing::memory_files::{Fault, FileCall, MemoryFiles, Operation};
use flott_checkpoint::Mode;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

const SEEDS: u64 = 40;

/// Numbers into files, without a shuffle and without state: at any parallelism it can be restored from any other.
fn plan() -> Plan {
    let sink = FileSink::lines("out").max_part_size(20);
    let vertex = Vertex {
        name: "numbers, out".into(),
        is_source: true,
        inputs: vec![],
        outputs: vec![],
        build: Arc::new(move |builder| {
            let next = builder.sink("out", &sink)?;
            Ok(builder.source("numbers", Arc::new(Numbers), next))
        }),
    };
    let operator =
        |name: &str, role| OperatorPlan { name: name.into(), renamed_from: None, vertex: 0, role, states: vec![] };
    let operators = vec![
        operator("numbers", Role::Source { replayable: true, bounded: true }),
        operator("out", Role::Sink { transactional: true }),
    ];
    Plan { job: "copy".into(), vertices: vec![vertex], edges: vec![], operators }
}

/// The committed names of one subtask, in the order in which they appeared.
type Appeared = BTreeMap<String, Vec<String>>;

/// Watches the only call that shows something, the link; lets some calls fail.
fn watch(files: &MemoryFiles, seed: u64) -> Arc<Mutex<Appeared>> {
    let appeared = Arc::new(Mutex::new(Appeared::new()));
    let (ours, mut random) = (Arc::clone(&appeared), Random::new(seed));
    files.set_hook(Some(Box::new(move |call: &FileCall<'_>| {
        let fault = match random.below(12) {
            0 => Fault::Fail(ErrorKind::Other),
            1 => Fault::FailAfter(ErrorKind::Other),
            _ => Fault::None,
        };
        if call.operation == Operation::Link && !matches!(fault, Fault::Fail(_)) {
            let (subtask, name) = taken_apart(call.path);
            let mut appeared = ours.lock().unwrap();
            let names = appeared.entry(subtask).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        // What else may fail ends the attempt, or is another test's business.
        if call.operation == Operation::Link { fault } else { Fault::None }
    })));
    appeared
}

/// The writing subtask, and the name.
fn taken_apart(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap().to_str().unwrap();
    (name.rsplit('-').nth(1).unwrap().to_owned(), name.to_owned())
}

fn setting(files: &MemoryFiles, workers: u16) -> Setting {
    Setting {
        plan: Arc::new(plan()),
        committed: Committed::default(),
        files: Arc::new(files.clone()),
        workers,
        mode: Mode::Aligned,
        credit_window: 256,
        aborts: 3,
        reorders_calls: true,
        switches: false,
        asks: false,
    }
}

/// A run of `before` workers dies with the output of several epochs uncommitted; one of `after` workers restores it and runs to
/// the end. Says in which order names appeared then, and how many were waiting when it began.
fn appeared(seed: u64, before: u16, after: u16) -> (Appeared, usize) {
    let files = MemoryFiles::new();
    let first = play(seed, setting(&files, before), 4, Ending::Crash, None);
    let (mut restore, storage) = first.restore().expect("the fourth checkpoint is completed");
    restore.same_topology = before == after;
    let waiting = files.all_files().len();
    let appeared = watch(&files, seed);
    play(seed + 1_000, Setting { aborts: 0, ..setting(&files, after) }, 1, Ending::Finish, Some((restore, storage)));
    files.set_hook(None);
    let shown: BTreeSet<String> = files.all_files().iter().map(|path| taken_apart(path.as_ref()).1).collect();
    let appeared = appeared.lock().unwrap().clone();
    assert_eq!(appeared.values().flatten().cloned().collect::<BTreeSet<_>>(), shown, "all that appeared is there");
    (appeared, waiting)
}

/// Per subtask, names appear in the order of epochs and parts: then what is there at any moment is a prefix.
fn out_of_order(appeared: &Appeared) -> Option<&Vec<String>> {
    appeared.values().find(|names| !names.is_sorted())
}

#[test]
fn a_reader_sees_of_each_subtask_a_prefix_of_its_parts_while_restored_tokens_are_committed() {
    for (before, after) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)] {
        let mut most = 0;
        for seed in 0..SEEDS {
            let (appeared, waiting) = appeared(seed, before, after);
            most = most.max(waiting);
            let wrong = out_of_order(&appeared);
            assert_eq!(wrong, None, "seed {seed}, restored from {before} workers by {after}");
        }
        assert!(most > 3 * usize::from(before), "several parts of a subtask wait for the restore, not {most} in all");
    }
}

#[test]
fn a_worker_reads_the_segments_of_the_writers_that_it_owns_and_a_few_at_a_time() {
    let (before, after) = (9u16, 3u16);
    let files = MemoryFiles::new();
    let first = play(0, setting(&files, before), 4, Ending::Crash, None);
    let (mut restore, storage) = first.restore().expect("the fourth checkpoint is completed");
    restore.same_topology = false;
    let parts = restore.manifests[&restore.checkpoint].parts.clone();
    let second = play(1, setting(&files, after), 1, Ending::Finish, Some((restore, storage)));
    let path_of =
        |index| parts.values().find(|part| part.subtask.index == index)?.segment.clone().map(|blob| blob.path);
    let mut reads = 0;
    for worker in 0..after {
        let owned = |index: &u16| owner_of_name(&writer_name("out", *index), after) == worker;
        // The first worker cleans, and has to know all tokens.
        let needed = (0..before).filter(|index| worker == 0 || owned(index));
        assert_eq!(second.read[&worker], needed.filter_map(path_of).collect(), "worker {worker}");
        reads += second.read[&worker].len();
    }
    assert!(reads <= usize::from(2 * before + after), "{reads} segments were looked at in all");
    assert!((1..=4).contains(&second.most_reads_at_once), "{} reads at once", second.most_reads_at_once);
}

#[cfg(feature = "mutations")]
#[test]
fn tokens_of_one_writer_with_several_owners_would_show_a_later_part_first() {
    crate::mutation::set(Some(crate::mutation::Mutation::TokensScattered));
    let wrong = (0..SEEDS).filter(|seed| out_of_order(&appeared(*seed, 2, 3).0).is_some()).count();
    crate::mutation::set(None);
    assert!(wrong > 0, "the reader of these tests would not notice");
}
