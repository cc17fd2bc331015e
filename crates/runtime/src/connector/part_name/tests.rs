//! Names of part files are read back as they were made, and foreign names are not taken for ours.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_name_is_read_back_as_it_was_made(
        sink in ".{0,60}", incarnation in ".{0,60}", number: u64, subtask: u16, n: u64
    ) {
        let owner = Owner::new(&sink, &incarnation);
        let committed = owner.committed(CheckpointId(number), subtask, n, "csv");
        let pending = owner.pending(AttemptId(number), subtask, n, "csv");
        prop_assert!(committed.len() <= 255 && pending.len() <= 255 && !committed.contains('/'));
        prop_assert!(committed.starts_with("part-") && pending.starts_with(".part-"));
        for (name, is_pending) in [(committed, false), (pending, true)] {
            let parsed = PartName::parse(&name).unwrap();
            let subtask = u64::from(subtask);
            prop_assert_eq!(parsed, PartName { pending: is_pending, owner: owner.clone(), number, subtask, n });
        }
    }

    #[test]
    fn different_owners_have_different_names(a in "[a-b%-]{0,4}", b in "[a-b%-]{0,4}", c in "[a-b%-]{0,4}", d in "[a-b%-]{0,4}") {
        let name = |sink: &str, incarnation: &str| Owner::new(sink, incarnation).committed(CheckpointId(1), 0, 0, "csv");
        prop_assert_eq!(name(&a, &b) == name(&c, &d), (a, b) == (c, d));
    }

    #[test]
    fn no_other_name_makes_it_panic(name in ".{0,80}") {
        let _ = PartName::parse(&name);
    }
}

#[test]
fn plain_names_stay_readable() {
    let owner = Owner::new("by-carrier", "7f3a");
    let name = owner.committed(CheckpointId(12), 3, 0, "csv");
    assert_eq!(name, "part-by-carrier-7f3a-0000000012-00003-00000.csv");
}

#[test]
fn names_of_others_are_not_taken_for_ours() {
    for name in [
        "part-00000",
        "part-out-life-000000007-00000-00000.txt",
        "part-out-life-0000000007-+0000-00000.txt",
        "part-out-life-0000000007-00000-00000",
        "xpart-out-life-0000000007-00000-00000.txt",
        "..part-out-life-0000000007-00000-00000.txt",
    ] {
        assert_eq!(PartName::parse(name), None, "{name}");
    }
}
