//! What is read from segments is what the backend that wrote them holds, whatever the chain.

use super::*;
use crate::io::runtime::block_on;
use crate::key::{Shape, hash_key};
use crate::layout;
use crate::segment::StateKind;
use crate::testing::Random;
use crate::testing::sample_job::SampleJob;
use crate::testing::stateful_job::{StatefulJob, StoredEntry};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All entries of a checkpoint in canonical order.
pub(crate) async fn dump(checkpoint: &Checkpoint) -> Result<Vec<StoredEntry>> {
    let mut all = Vec::new();
    for info in checkpoint.states()? {
        let mut last = None;
        for groups in windows(&checkpoint.weights(&info.name)?, 0..checkpoint.manifest().key_groups) {
            let merged = checkpoint.merged(&info, groups, &mut |_| {}).await?;
            for entry in merged.entries() {
                let place = (entry.group, entry.key.to_vec(), owned(entry.below));
                assert!(last.as_ref().is_none_or(|last| *last < place), "not in order: {last:?}, then {place:?}");
                let below = match entry.below {
                    Below::Nothing => vec![],
                    Below::Field(field) => field.to_vec(),
                    Below::Position(position) => rmp_serde::to_vec(&position).expect("a number"),
                    Below::Time(time) => rmp_serde::to_vec(&time).expect("a number"),
                };
                all.push((info.name.state.clone(), entry.key.to_vec(), below, entry.value.to_vec()));
                last = Some(place);
            }
        }
    }
    Ok(all)
}

fn owned(below: Below<'_>) -> (i128, Vec<u8>) {
    match below {
        Below::Nothing => (0, vec![]),
        Below::Field(field) => (0, field.to_vec()),
        Below::Position(position) => (position.into(), vec![]),
        Below::Time(time) => (time.into(), vec![]),
    }
}

pub(crate) async fn open(storage: &StorageServer, id: Option<CheckpointId>) -> Result<Checkpoint> {
    let (entry, _) = savepoint::recorded(storage, "here", id).await?;
    Checkpoint::open(storage, entry).await
}

/// A job whose newest checkpoint is the last of a chain of some increments.
pub(crate) async fn chained(seed: u64, links: u64) -> StatefulJob {
    let mut random = Random::new(seed);
    let mut job = StatefulJob::new(SampleJob::new(StorageServer::in_memory())).await;
    let (keys, mut base) = (random.below(40) + 2, None);
    for _ in 0..links {
        let changes = random.below(300);
        (0..changes).for_each(|_| job.change(&mut random, keys));
        base = Some(job.checkpoint(base).await);
    }
    job
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// I15: the dump of a chain is that of a full checkpoint, and both are what the job has.
    #[test]
    fn what_is_read_of_a_chain_is_what_the_job_has_and_what_a_full_checkpoint_says(seed: u64, links in 1u64..6) {
        block_on(async {
            let mut job = chained(seed, links).await;
            let storage = job.job.storage.clone();
            let of_chain = dump(&open(&storage, None).await.expect("opened")).await.expect("read");
            let full = job.checkpoint(None).await;
            let of_full = dump(&open(&storage, Some(full)).await.expect("opened")).await.expect("read");
            assert_eq!(of_chain, of_full);
            assert_eq!(of_chain.into_iter().collect::<BTreeSet<_>>(), job.model());
        })
        .expect("a runtime");
    }

    #[test]
    fn differences_lead_from_one_checkpoint_to_the_other(seed: u64) {
        block_on(async {
            let mut job = chained(seed, 2).await;
            let storage = job.job.storage.clone();
            let before = job.model();
            let first = open(&storage, None).await.expect("opened");
            let mut random = Random::new(seed ^ 1);
            (0..random.below(100)).for_each(|_| job.change(&mut random, 20));
            let base = job.job.parent;
            job.checkpoint(base).await;
            let after = job.model();
            let second = open(&storage, None).await.expect("opened");
            let mut counted = StateChanges::default();
            for (old, new) in first.states().expect("read").iter().zip(&second.states().expect("read")) {
                let (one, other) = ((&first, Some(old)), (&second, Some(new)));
                let state = changes(one, other, &mut |_| {}, &mut |_| Ok(())).await.expect("read");
                counted.added += state.added;
                counted.removed += state.removed;
                counted.changed += state.changed;
                counted.before += state.before;
                counted.after += state.after;
            }
            let places = |model: &BTreeSet<StoredEntry>| -> BTreeMap<(String, Vec<u8>, Vec<u8>), Vec<u8>> {
                model.iter().map(|(state, key, below, value)| ((state.clone(), key.clone(), below.clone()), value.clone())).collect()
            };
            let (old, new) = (places(&before), places(&after));
            assert_eq!(counted.before, old.len() as u64);
            assert_eq!(counted.after, new.len() as u64);
            assert_eq!(counted.added, new.keys().filter(|place| !old.contains_key(*place)).count() as u64);
            assert_eq!(counted.removed, old.keys().filter(|place| !new.contains_key(*place)).count() as u64);
            let changed = new.iter().filter(|(place, value)| old.get(*place).is_some_and(|old| old != *value));
            assert_eq!(counted.changed, changed.count() as u64);
        })
        .expect("a runtime");
    }

    #[test]
    fn windows_cover_each_key_group_once(weights in proptest::collection::vec(0u64..20 << 20, 1..200)) {
        let groups = weights.len() as u16;
        let windows = windows(&weights, 0..groups);
        prop_assert_eq!(windows.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..groups).collect::<Vec<_>>());
        for window in windows.iter().filter(|window| window.len() > 1) {
            let sum: u64 = weights[usize::from(window.start)..usize::from(window.end)].iter().sum();
            prop_assert!(sum <= WINDOW, "{:?} has {}", window, sum);
        }
    }
}

#[test]
fn checkpoints_that_divide_their_keys_in_different_ways_are_not_compared() {
    block_on(async {
        let job = chained(3, 1).await;
        let first = open(&job.job.storage, None).await.expect("opened");
        let mut second = open(&job.job.storage, None).await.expect("opened");
        let states = first.states().expect("read");
        let info = states.first();
        let same = changes((&first, info), (&second, info), &mut |_| {}, &mut |_| Ok(())).await;
        assert!(same.expect("they are the same").is_nothing());
        second.manifests.last_mut().expect("one").key_seed = crate::manifest::KeySeed(1);
        let error =
            changes((&first, info), (&second, info), &mut |_| {}, &mut |_| Ok(())).await.expect_err("other seeds");
        assert!(error.to_string().contains("lives that began apart"), "{error}");
        assert_eq!(error.kind().exit_code(), 2);
    })
    .expect("a runtime");
}

/// Every byte of a segment, flipped: what is read is right, or an error that names the segment.
#[test]
fn a_damaged_segment_is_an_error_that_names_it() {
    block_on(async {
        let job = chained(7, 2).await;
        let storage = job.job.storage.clone();
        let good = dump(&open(&storage, None).await.expect("opened")).await.expect("read");
        let path = "data/1/1-0.seg";
        let bytes = job.job.get(path).await.expect("there");
        let mut failures = 0;
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            storage.serve(StorageRequest::Delete { path: path.to_owned() }).await;
            job.job.put(path, damaged.into()).await;
            let read = match open(&storage, None).await {
                Ok(checkpoint) => dump(&checkpoint).await,
                Err(error) => Err(error),
            };
            match read {
                Ok(read) => assert_eq!(read, good, "byte {at} is of no block that is read"),
                Err(error) => {
                    failures += 1;
                    let text = error.to_string();
                    assert!(text.contains(path) && text.contains("[checkpoint 1]"), "byte {at}: {text}");
                    assert_eq!(error.kind().exit_code(), 1, "{text}");
                }
            }
        }
        assert!(failures > 50, "{failures} of {} bytes", bytes.len());
        storage.serve(StorageRequest::Delete { path: path.to_owned() }).await;
        let error = open(&storage, None).await.expect_err("it is gone").to_string();
        assert!(error.contains(path) && error.contains("no such file"), "{error}");
    })
    .expect("a runtime");
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Route {
    from: String,
    to: Option<char>,
    legs: Vec<(u16, i64)>,
    kind: Leg,
    wide: u128,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Leg {
    Short,
    Long(u32),
    Over { sea: bool },
}

/// The key group found from a stored key and its shape is that which the job's own type has, and its stored form too.
#[test]
fn keys_are_placed_and_stored_as_by_their_own_type() {
    fn check<K: crate::key::Key + std::fmt::Debug>(keys: &[K]) {
        let mut shape = Shape::of_type::<K>();
        keys.iter().for_each(|key| shape.merge(Shape::of(key)));
        for key in keys {
            let stored = rmp_serde::to_vec_named(key).expect("written");
            let datum = Datum::read(&stored).expect("read");
            let fitted = fit(datum.clone(), &shape).expect("it is of that shape");
            assert_eq!(fitted.stored(), stored, "{key:?}");
            let hash = hash_key(3, key).expect("a key");
            assert_eq!(group_of(&fitted, &shape, 3, 128), Ok(crate::key::key_group(hash, 128).0), "{key:?} of {shape}");
        }
    }
    check(&[0u64, 127, 128, 1 << 40, u64::MAX]);
    check(&[-1i64, i64::MIN, 0, 70_000]);
    check(&[0u8, 255]);
    check(&["".to_owned(), "UA".to_owned(), "ä".repeat(100)]);
    check(&[true, false]);
    check(&['a', 'ß']);
    check(&[u128::MAX, 7]);
    check(&[i128::MIN, -7]);
    check(&[("UA".to_owned(), 7u32), (String::new(), 0)]);
    check(&[Some(7u8), None]);
    check(&[vec![1u32, 2], vec![]]);
    check(&[Leg::Short, Leg::Long(7), Leg::Over { sea: true }]);
    let route = |from: &str, kind| Route { from: from.to_owned(), to: Some('x'), legs: vec![(1, -2)], kind, wide: 5 };
    check(&[route("LGA", Leg::Short), route("", Leg::Long(9)), route("JFK", Leg::Over { sea: false })]);
}

#[test]
fn what_does_not_fit_is_named_with_its_place_and_both_types() {
    let shape: Shape = "{name:string,legs:seq<(u16,i64)>,by:map<u32,bool>,mean:f32}".parse().expect("a shape");
    let field = |name: &str, value| (Datum::Text(name.to_owned()), value);
    let good = |legs: Datum| {
        Datum::Map(vec![
            field("mean", Datum::Integer(2)),
            field("by", Datum::Map(vec![field("7", Datum::Bool(true))])),
            field("legs", legs),
            field("name", Datum::Text("a".to_owned())),
        ])
    };
    let leg = |a: i128, b: i128| Datum::Sequence(vec![Datum::Integer(a), Datum::Integer(b)]);
    let fitted = fit(good(Datum::Sequence(vec![leg(1, -1)])), &shape).expect("it fits");
    let Datum::Map(fields) = &fitted else { panic!("{fitted:?}") };
    assert_eq!(fields[0].0, Datum::Text("name".to_owned()), "fields are in the order of the type");
    assert_eq!(fields[2].1, Datum::Map(vec![(Datum::Integer(7), Datum::Bool(true))]), "keys of maps are texts in JSON");
    assert_eq!(fields[3].1, Datum::F32(2.0));
    let misfit = fit(good(Datum::Sequence(vec![leg(1, 1), leg(65_536, 1)])), &shape).expect_err("too great");
    assert_eq!((misfit.place.as_str(), misfit.wanted.as_str()), (".legs[1][0]", "u16"));
    assert!(misfit.to_string().contains("it must be u16, and is the number 65536"), "{misfit}");
    let misfit = fit(Datum::Map(vec![field("nam", Datum::Nil)]), &shape).expect_err("no such field");
    assert_eq!(misfit.place, ".nam");
    let misfit = fit(Datum::Map(vec![field("name", Datum::Nil)]), &shape).expect_err("it is no text");
    assert_eq!((misfit.place.as_str(), misfit.found.as_str()), (".name", "nothing"));
}

#[test]
fn a_list_is_what_its_puts_and_deletes_make_of_it() {
    let mut window = Window::new(StateKind::List);
    let key = [7u8];
    for (position, value) in [(0, 1u8), (1, 2), (1, 2)] {
        window.put(3, &key, Below::Position(position), &[value], 0);
    }
    window.append(3, &key, &[3], 0);
    let read = |window: Window| -> Vec<u8> {
        window.merge().expect("in order").entries().map(|entry| entry.value[0]).collect()
    };
    assert_eq!(read(window), [1, 2, 3]);
    let mut cleared = Window::new(StateKind::List);
    cleared.put(3, &key, Below::Position(0), &[1], 0);
    cleared.delete(3, &key, Below::Nothing);
    cleared.put(3, &key, Below::Position(0), &[9], 0);
    assert_eq!(read(cleared), [9]);
    let mut torn = Window::new(StateKind::List);
    torn.put(3, &key, Below::Position(1), &[1], 12);
    let conflict = torn.merge().expect_err("element 0 is missing");
    assert_eq!((conflict.line, conflict.what.as_str()), (12, "element 1 of a list of 0"));
}

#[test]
fn what_is_held_is_pinned_until_it_is_let_go_and_a_savepoint_needs_no_pin() {
    block_on(async {
        let job = chained(1, 3).await;
        let storage = job.job.storage.clone();
        let pins = async || match storage.serve(StorageRequest::List { prefix: layout::PINS.to_owned() }).await {
            StorageReply::Listed(objects) => objects.len(),
            other => panic!("{other:?}"),
        };
        let (hold, entry) = Hold::take(&storage, "here", None, "a test").await.expect("held");
        assert_eq!((entry.id, pins().await), (CheckpointId(3), 1));
        hold.release().await.expect("released");
        assert_eq!(pins().await, 0);
        let error = Hold::take(&storage, "here", Some(CheckpointId(9)), "a test").await.expect_err("there is none");
        assert!(error.to_string().contains("no checkpoint 9 in here"), "{error}");
        assert_eq!((error.kind().exit_code(), pins().await), (2, 0));
        let savepoint = StorageServer::in_memory();
        let checkpoint = open(&storage, None).await.expect("opened");
        crate::convert::convert(&checkpoint, &savepoint, None, &mut false, &mut |_| {}).await.expect("converted");
        let (hold, entry) = Hold::take(&savepoint, "there", None, "a test").await.expect("held");
        assert_eq!(entry.id, CheckpointId(3));
        let listed = savepoint.serve(StorageRequest::List { prefix: layout::PINS.to_owned() }).await;
        assert!(matches!(&listed, StorageReply::Listed(objects) if objects.is_empty()), "{listed:?}");
        hold.release().await.expect("released");
    })
    .expect("a runtime");
}
