//! Which names are taken for mistyped ones, and which are left alone.

use super::*;

fn told(names: &[&str]) -> Vec<String> {
    let known = ["FLOTT_CHECKPOINT_INTERVAL", "FLOTT_CHECKPOINT_DIR", "FLOTT_WORKERS", "FLOTT_JSON"].map(String::from);
    mistyped(&known, names.iter().map(ToString::to_string))
}

#[test]
fn a_mistyped_variable_is_told_with_the_nearest_one_that_there_is() {
    for (name, meant) in [
        ("FLOTT_CHECKPOINT_INTERVALL", "FLOTT_CHECKPOINT_INTERVAL"),
        ("FLOTT_CHEKPOINT_DIR", "FLOTT_CHECKPOINT_DIR"),
        ("FLOTT_CHECKPOINTS_DIR", "FLOTT_CHECKPOINT_DIR"),
        ("FLOTT_CHECKPOINT_DIRECTORY", "FLOTT_CHECKPOINT_DIR"),
        ("FLOTT_CHECKPOINT", "FLOTT_CHECKPOINT_DIR"),
        ("FLOTT_WORKER", "FLOTT_WORKERS"),
        ("FLOTT_JSN", "FLOTT_JSON"),
        ("flott_workers", "FLOTT_WORKERS"),
        ("FLOTT_LOGS", "FLOTT_LOG"),
    ] {
        assert_eq!(told(&[name]), [format!("the variable {name} is set, and nothing reads it: is {meant} meant?")]);
    }
}

#[test]
fn known_variables_and_those_of_others_are_no_matter() {
    let others = [
        "FLOTT_WORKERS",
        "FLOTT_LOG",
        "FLOTT_SEED",
        "FLOTT_CI_TARGET",
        "FLOTT_BENCH_CACHE",
        "FLOTTER_WORKER",
        "WORKERS",
        "FLOTT_",
    ];
    assert_eq!(told(&others), [""; 0]);
}

#[test]
fn letters_are_counted_that_are_wrong_missing_or_too_many() {
    for (one, other, wrong) in
        [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("abc", "acb", 2)]
    {
        assert_eq!((wrong_letters(one, other), wrong_letters(other, one)), (wrong, wrong), "{one}, {other}");
    }
}
