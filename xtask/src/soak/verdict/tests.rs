//! What counts as growth.

use super::*;

fn series(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (1..=400u32).map(f64::from).map(|at| (at, value(at))).collect()
}

#[test]
fn a_slow_leak_grows_and_what_only_fills_up_or_swings_does_not() {
    assert!(judge(&series(|at| 100.0 + at / 10.0), May::Add(1.0)).unwrap().grows);
    assert!(!judge(&series(|at| 100.0 + at.min(90.0)), May::Add(1.0)).unwrap().grows);
    assert!(!judge(&series(|at| 100.0 + at % 30.0), May::Add(1.0)).unwrap().grows);
    // Up to its limit.
    assert!(!judge(&series(|at| at), May::FillUpTo(400.0)).unwrap().grows);
    assert!(judge(&series(|at| at), May::FillUpTo(300.0)).unwrap().grows);
    // Within the slack.
    assert!(!judge(&series(|at| at / 100.0), May::Add(5.0)).unwrap().grows);
}

#[test]
fn nothing_is_said_of_too_few_samples() {
    assert_eq!(judge(&[], May::Add(1.0)), None);
    assert_eq!(judge(&[(10.0, 1.0)], May::Add(1.0)), None);
}
