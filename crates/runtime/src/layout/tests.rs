//! Tests of the names.

use super::{Name, check_job_name, parse};
use flott_checkpoint::{AttemptId, CheckpointId, Slot};
use proptest::prelude::*;

fn names() -> impl Strategy<Value = Name> {
    prop_oneof![
        any::<u64>().prop_map(|n| Name::Slot(Slot(n))),
        any::<(u64, u64)>().prop_map(|(id, a)| Name::Manifest(CheckpointId(id), AttemptId(a))),
        any::<(u64, u64)>().prop_map(|(id, a)| Name::History(CheckpointId(id), AttemptId(a))),
        any::<(u64, u64, u16)>().prop_map(|(a, id, worker)| Name::Segment {
            attempt: AttemptId(a),
            id: CheckpointId(id),
            worker
        }),
        "[a-zA-Z0-9][a-zA-Z0-9._-]{0,30}".prop_map(Name::Pin),
    ]
}

proptest! {
    #[test]
    fn every_name_is_read_back(name in names()) {
        prop_assert_eq!(parse(&name.path()), Some(name));
    }

    #[test]
    fn no_two_paths_mean_one_object(path in "(log|manifests|data|history|pins)/[0-9+./a-]{0,12}(.json|.seg|)") {
        if let Some(name) = parse(&path) {
            prop_assert_eq!(name.path(), path);
        }
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(path in any::<String>()) {
        let _ = parse(&path);
    }
}

#[test]
fn names_that_are_not_ours_do_not_parse() {
    for path in
        ["", "log", "log/", "log/1", "log/01.json", "log/+1.json", "log/1.json#1", "log/99999999999999999999.json"]
    {
        assert_eq!(parse(path), None, "{path}");
    }
    for path in ["data/1-2.seg", "data/1/2-65536.seg", "data/1/../2-1.seg", "pins/", "pins/.hidden", "probe"] {
        assert_eq!(parse(path), None, "{path}");
    }
}

#[test]
fn a_job_name_that_is_no_plain_directory_name_is_refused() {
    for good in ["word-count", "a", "Job_7.x"] {
        check_job_name(good).expect("plain");
    }
    let long = "x".repeat(101);
    for bad in ["", ".", "..", "a/b", "a b", "-x", "ä", "a\0", long.as_str()] {
        let error = check_job_name(bad).expect_err("not plain");
        assert_eq!(error.kind().exit_code(), 2);
    }
}
