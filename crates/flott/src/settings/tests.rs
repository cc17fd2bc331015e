//! Which setting wins, and which values are refused.

use super::*;

#[test]
fn a_setting_overrules_another_one_by_one() {
    let flag = Settings { workers: Some(2), ..Settings::default() };
    let builder = Settings { workers: Some(7), json: Some(true), ..Settings::default() };
    let both = flag.over(builder);
    assert_eq!((both.workers, both.json, both.overwrite), (Some(2), Some(true), None));
}

#[test]
fn what_the_builder_says_has_the_same_limits_as_the_flags() {
    let absurd = Settings {
        workers: Some(0),
        checkpoint_interval: Some(Duration::ZERO),
        stop_timeout: Some(Duration::ZERO),
        alignment_timeout: Some(Duration::MAX),
        credit_window: Some(0),
        longest_restart_delay: Some(Duration::ZERO),
        checkpoint_dir: Some(String::new()),
        ..Settings::default()
    };
    assert_eq!(absurd.errors().len(), 7, "{:?}", absurd.errors());
    assert_eq!(Settings::default().errors(), Vec::<String>::new());
}
