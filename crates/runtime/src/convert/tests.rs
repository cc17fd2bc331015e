//! A converted checkpoint is full, holds the same, and is a savepoint; one state can be changed on the way.

use super::*;
use crate::io::runtime::block_on;
use crate::segment::StateKind;
use crate::state_reader::Below;
use crate::state_reader::tests::{chained, dump, open};
use crate::testing::stateful_job::OPERATOR;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_converted_chain_is_full_verifies_and_holds_the_same(seed: u64, links in 1u64..5) {
        block_on(async {
            let job = chained(seed, links).await;
            let from = open(&job.job.storage, None).await.expect("opened");
            let to = StorageServer::in_memory();
            let converted = convert(&from, &to, None, &mut false, &mut |_| {}).await.expect("converted");
            let copy = open(&to, None).await.expect("opened");
            let (before, after) = (dump(&from).await.expect("read"), dump(&copy).await.expect("read"));
            assert_eq!(before, after);
            assert_eq!(converted.entries, after.len() as u64);
            assert!(copy.manifest().is_full());
            assert_eq!(copy.manifest().id, from.manifest().id);
            let tokens = copy.own_segments().filter_map(|(_, footer)| footer.blob("out", "tokens", 0)).count();
            assert_eq!(tokens, 2, "tokens come along");
            let report = crate::verify::verify(&to, |_| {}).await.expect("verified");
            assert!(!report.is_damaged(), "{:?}", report.findings);
            assert_eq!(report.checkpoints, 1);
            // Once more: the same bytes.
            let again = StorageServer::in_memory();
            convert(&copy, &again, None, &mut false, &mut |_| {}).await.expect("converted");
            assert_eq!(dump(&open(&again, None).await.expect("opened")).await.expect("read"), after);
        })
        .expect("a runtime");
    }
}

/// Entries for the state `shares`.
struct Shares {
    name: StateName,
    replaces: bool,
    weights: Vec<u64>,
    rows: Vec<(u64, u32, f64)>,
    fails: bool,
}

impl Shares {
    fn new(replaces: bool, rows: &[(u64, u32, f64)]) -> Shares {
        let name = StateName::new(OPERATOR, "shares");
        Shares { name, replaces, weights: vec![1; 128], rows: rows.to_vec(), fails: false }
    }
}

impl Incoming for Shares {
    fn name(&self) -> &StateName {
        &self.name
    }

    fn replaces(&self) -> bool {
        self.replaces
    }

    fn weights(&self) -> &[u64] {
        &self.weights
    }

    fn rows(&mut self, groups: Range<u16>) -> Result<Window> {
        if self.fails {
            return Err(Error::refused("the file ends early"));
        }
        let mut window = Window::new(StateKind::Map);
        for (key, field, share) in &self.rows {
            let hash = crate::key::hash_key(crate::testing::sample_job::INCARNATION.key_seed, key).expect("a key");
            let group = crate::key::key_group(hash, 128).0;
            let stored = |value: &dyn Fn() -> Vec<u8>| value();
            let field = stored(&|| rmp_serde::to_vec(field).expect("written"));
            if groups.contains(&group) {
                let (key, share) =
                    (rmp_serde::to_vec(key).expect("written"), rmp_serde::to_vec(share).expect("written"));
                window.put(group, &key, Below::Field(&field), &share, 1);
            }
        }
        Ok(window)
    }
}

#[test]
fn entries_that_come_in_replace_a_state_or_lie_on_top_of_it() {
    block_on(async {
        let job = chained(5, 3).await;
        let from = open(&job.job.storage, None).await.expect("opened");
        for replaces in [true, false] {
            let mut expected = job.shares.clone();
            if replaces {
                expected.clear();
            }
            let rows = [(0u64, 0u32, 0.5f64), (1_000, 1, f64::INFINITY), (1, 99, -0.0)];
            expected.extend(rows.iter().map(|(key, field, share)| ((*key, *field), *share)));
            let (to, mut shares) = (StorageServer::in_memory(), Shares::new(replaces, &rows));
            convert(&from, &to, Some(&mut shares), &mut false, &mut |_| {}).await.expect("converted");
            let all = dump(&open(&to, None).await.expect("opened")).await.expect("read");
            let read = all.iter().filter(|(state, ..)| state == "shares").map(|(_, key, field, share)| {
                let key: u64 = rmp_serde::from_slice(key).expect("a key");
                let field: u32 = rmp_serde::from_slice(field).expect("a user key");
                ((key, field), rmp_serde::from_slice::<f64>(share).expect("a share"))
            });
            assert_eq!(read.collect::<std::collections::BTreeMap<_, _>>(), expected, "replaces: {replaces}");
            let others = |all: Vec<crate::testing::stateful_job::StoredEntry>| {
                all.into_iter().filter(|(state, ..)| state != "shares").collect::<Vec<_>>()
            };
            assert_eq!(others(all), others(dump(&from).await.expect("read")), "no other state changes");
        }
    })
    .expect("a runtime");
}

#[test]
fn a_conversion_that_fails_leaves_nothing_behind() {
    block_on(async {
        let job = chained(5, 2).await;
        let from = open(&job.job.storage, None).await.expect("opened");
        let (to, mut shares) = (StorageServer::in_memory(), Shares::new(true, &[]));
        shares.fails = true;
        let error = convert(&from, &to, Some(&mut shares), &mut false, &mut |_| {}).await.expect_err("it fails");
        assert!(error.to_string().contains("ends early"), "{error}");
        let listed = to.serve(StorageRequest::List { prefix: String::new() }).await;
        assert!(matches!(&listed, StorageReply::Listed(objects) if objects.is_empty()), "{listed:?}");
        let mut claimed = false;
        convert(&from, &to, None, &mut claimed, &mut |_| {}).await.expect("the place is free");
        assert!(claimed, "whoever is interrupted would have to tidy up");
        let mut claimed = false;
        let taken = convert(&from, &to, None, &mut claimed, &mut |_| {}).await.expect_err("there is one");
        assert!(!claimed, "what is there is another's");
        assert!(taken.to_string().contains("it is not empty"), "{taken}");
        assert!(open(&to, None).await.is_ok(), "the one that is there stays");
    })
    .expect("a runtime");
}
